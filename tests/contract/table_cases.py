"""What DynamoDB answers to expressions and values, as data for the contract suite of tables.

A message is AWS's own. Where DynamoDB Local words it differently, its words stand beside it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Message(NamedTuple):
    """The words of an error: AWS's, and those of DynamoDB Local if they differ."""

    aws: str
    dynamodb_local: str | None = None

    def of(self, server: str) -> str:
        """Return the words that a server uses."""
        if server == "dynamodb_local" and self.dynamodb_local is not None:
            return self.dynamodb_local
        return self.aws


def text(value: str) -> dict[str, Any]:
    return {"S": value}


def number(value: object) -> dict[str, Any]:
    return {"N": str(value)}


Values = dict[str, Any]

STORED: Final = {
    "s": text("text"),
    "n": number(5),
    "l": {"L": [text("x"), number(2)]},
    "ss": {"SS": ["a", "b"]},
    "m": {"M": {"k": text("v")}},
    "b": {"B": b"abc"},
    "t": {"BOOL": True},
}

CONDITIONS: Final[list[tuple[str, Values, bool]]] = [
    ("nope <> :a", {":a": text("x")}, True),
    ("n <> :a", {":a": text("x")}, True),
    ("nope = :a", {":a": text("x")}, False),
    ("NOT nope = :a", {":a": text("x")}, True),
    ("n < :a", {":a": text("x")}, False),
    ("n < :a", {":a": number(10)}, True),
    ("n > :a", {":a": number(10)}, False),
    ("n >= :a", {":a": number("5.00")}, True),
    ("n <= :a", {":a": number("4.999")}, False),
    ("s < :a", {":a": text("tex")}, False),
    ("b < :a", {":a": {"B": b"abd"}}, True),
    ("size(n) > :a", {":a": number(0)}, False),
    ("size(nope) > :a", {":a": number(0)}, False),
    ("size(l) = :a", {":a": number(2)}, True),
    ("size(s) = :a", {":a": number(4)}, True),
    ("size(b) = :a", {":a": number(3)}, True),
    ("size(m) = :a", {":a": number(1)}, True),
    ("size(ss) = :a", {":a": number(2)}, True),
    ("size(t) = :a", {":a": number(1)}, False),
    ("size(:a) = :b", {":a": text("xx"), ":b": number(2)}, True),
    ("size(s) < size(l)", {}, False),
    ("contains(s, :a)", {":a": text("ex")}, True),
    ("contains(s, :a)", {":a": number(1)}, False),
    ("contains(ss, :a)", {":a": text("a")}, True),
    ("contains(ss, :a)", {":a": text("c")}, False),
    ("contains(l, :a)", {":a": number("2.0")}, True),
    ("contains(l, s)", {}, False),
    ("contains(n, :a)", {":a": text("5")}, False),
    ("contains(b, :a)", {":a": {"B": b"bc"}}, True),
    ("begins_with(s, :a)", {":a": text("te")}, True),
    ("begins_with(s, :a)", {":a": text("ex")}, False),
    ("begins_with(n, :a)", {":a": text("5")}, False),
    ("begins_with(b, :a)", {":a": {"B": b"ab"}}, True),
    ("begins_with(:a, s)", {":a": text("text2")}, True),
    ("attribute_type(s, :a)", {":a": text("S")}, True),
    ("attribute_type(n, :a)", {":a": text("S")}, False),
    ("attribute_type(nope, :a)", {":a": text("S")}, False),
    ("attribute_exists(m.k) and attribute_not_exists(m.z)", {}, True),
    ("attribute_exists(l[5])", {}, False),
    ("n IN (:a, :b)", {":a": number(5), ":b": text("x")}, True),
    ("n IN (:b)", {":b": text("5")}, False),
    ("s between :a and :b", {":a": text("a"), ":b": text("z")}, True),
    ("n BETWEEN :a AND :b", {":a": number(6), ":b": number(7)}, False),
    ("l[1] = :a", {":a": number(2)}, True),
    ("m.k = :a AND (n = :b OR s = :a)", {":a": text("v"), ":b": number("5.0")}, True),
    ("(s) = :a", {":a": text("text")}, True),
    ("(s = :a) AND (n = :b)", {":a": text("text"), ":b": number(5)}, True),
    ("((s = :a) and n = :a)", {":a": text("x")}, False),
    # AND binds more tightly than OR, NOT more tightly than either.
    ("s = :a OR n = :b AND s = :b", {":a": text("text"), ":b": number(5)}, True),
    ("NOT s = :a AND n = :b", {":a": text("text"), ":b": number(5)}, False),
    ("NOT (s = :a AND n = :b)", {":a": text("text"), ":b": number(6)}, True),
    ("NOT NOT s = :a", {":a": text("text")}, True),
    ("n = :a and :a = n", {":a": number(5)}, True),
    (":a = :b", {":a": number(5), ":b": number("5.0")}, True),
    ("ss = :a", {":a": {"SS": ["b", "a"]}}, True),
    ("m = :a", {":a": {"M": {"k": text("v")}}}, True),
    ("s=:a", {":a": text("text")}, True),
]

CONDITION_ERRORS: Final[list[tuple[str, Values, str]]] = [
    ("s = ", {}, 'Syntax error; token: "<EOF>", near: "= "'),
    ("s == :a", {":a": text("x")}, 'Syntax error; token: "=", near: "== :a"'),
    ("s = :a AND", {":a": text("x")}, 'Syntax error; token: "<EOF>", near: "AND"'),
    ("(s = :a", {":a": text("x")}, 'Syntax error; token: "<EOF>", near: ":a"'),
    ("s = :a)", {":a": text("x")}, 'Syntax error; token: ")", near: ":a)"'),
    ("s = :a ! 3", {":a": text("x")}, 'Syntax error; token: "!", near: ":a ! 3"'),
    ("l[:a] = :a", {":a": number(1)}, 'Syntax error; token: ":a", near: "[:a]"'),
    ("l[-1] = :a", {":a": number(1)}, 'Syntax error; token: "-", near: "[-1"'),
    ("s = 5", {}, 'Syntax error; token: "5", near: "= 5"'),
    ("s.1 = :a", {":a": text("x")}, 'Syntax error; token: "1", near: ".1 ="'),
    ("s-x = :a", {":a": text("x")}, 'Syntax error; token: "-", near: "s-x"'),
    ("s = :a and and", {":a": text("x")}, 'Syntax error; token: "and", near: "and and"'),
    ("in = :a", {":a": text("x")}, 'Syntax error; token: "in", near: "in ="'),
    ("n in :a", {":a": number(1)}, 'Syntax error; token: ":a", near: "in :a"'),
    ("n in ()", {}, 'Syntax error; token: ")", near: "()"'),
    ("s , n", {}, 'Syntax error; token: ",", near: "s , n"'),
    ("_s = :a", {":a": text("x")}, 'Syntax error; token: "_", near: "_s"'),
    ("begins_with(s,:a", {":a": text("x")}, 'Syntax error; token: "<EOF>", near: ":a"'),
    ("s", {}, 'Syntax error; token: "<EOF>", near: "s"'),
    ("", {}, "The expression can not be empty;"),
    ("(((s = :a)))", {":a": text("x")}, "The expression has redundant parentheses;"),
    ("((s = :a and n = :a))", {":a": text("x")}, "The expression has redundant parentheses;"),
    ("foo(s)", {}, "Invalid function name; function: foo"),
    ("Size(s) = :a", {":a": number(1)}, "Invalid function name; function: Size"),
    (
        "attribute_exists(s, n)",
        {},
        "Incorrect number of operands for operator or function; operator or function: "
        "attribute_exists, number of operands: 2",
    ),
    (
        "begins_with(s)",
        {},
        "Incorrect number of operands for operator or function; operator or function: begins_with,"
        " number of operands: 1",
    ),
    (
        "begins_with(s, :a)",
        {":a": number(1)},
        "Incorrect operand type for operator or function; operator or function: begins_with, "
        "operand type: N",
    ),
    (
        "attribute_exists(:a)",
        {":a": text("x")},
        "Operator or function requires a document path; operator or function: attribute_exists",
    ),
    (
        "attribute_type(s, :a)",
        {":a": text("Q")},
        "Invalid attribute type name found; type: Q, valid types: {N,BS,L,B,NULL,M,S,SS,NS,BOOL}",
    ),
    (
        "n BETWEEN :a AND :b",
        {":a": number(2), ":b": number(1)},
        "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "
        "lower bound operand: AttributeValue: {N:2}, upper bound operand: AttributeValue: {N:1}",
    ),
    (
        "n BETWEEN :a AND :b",
        {":a": text("2"), ":b": number(1)},
        "The BETWEEN operator requires same data type for lower and upper bounds; lower bound "
        "operand: AttributeValue: {S:2}, upper bound operand: AttributeValue: {N:1}",
    ),
    (
        "n < :a",
        {":a": {"BOOL": True}},
        "Incorrect operand type for operator or function; operator or function: <, operand type: "
        "BOOL",
    ),
    (
        "s = s",
        {},
        "The first operand must be distinct from the remaining operands for this operator or "
        "function; operator: =, first operand: [s]",
    ),
    (
        "contains(s, s)",
        {},
        "The first operand must be distinct from the remaining operands for this operator or "
        "function; operator: contains, first operand: [s]",
    ),
    (
        "size(s)",
        {},
        "The function is not allowed to be used this way in an expression; function: size",
    ),
    (
        "s = begins_with(s, :a)",
        {":a": text("x")},
        "The function is not allowed to be used this way in an expression; function: begins_with",
    ),
    (
        "status = :a",
        {":a": text("x")},
        "Attribute name is a reserved keyword; reserved keyword: status",
    ),
    (
        "s = :b",
        {":a": text("x")},
        "An expression attribute value used in expression is not defined; attribute value: :b",
    ),
    (
        "#x = :a",
        {":a": text("x")},
        "An expression attribute name used in the document path is not defined; attribute name: #x",
    ),
]

_LIST: Final = {"L": [number(each) for each in range(4)]}
_MAP: Final = {"M": {"a": number(1), "b": {"L": [number(1), number(2)]}}}
UPDATED_ITEM: Final = {"l": _LIST, "n": number(1), "m": _MAP, "ss": {"SS": ["a", "b"]}}


def _numbers(*values: object) -> dict[str, Any]:
    return {"L": [number(each) for each in values]}


UPDATES: Final[list[tuple[str, Values, dict[str, Any]]]] = [
    ("SET n = n + :a", {":a": number(2)}, {"n": number(3)}),
    ("SET n = n - :a", {":a": number("0.1")}, {"n": number("0.9")}),
    ("SET n = (n + :a)", {":a": number(2)}, {"n": number(3)}),
    ("SET n = n + n", {}, {"n": number(2)}),
    ("set x = :a remove l", {":a": number(1)}, {"x": number(1), "l": None}),
    ("SET x = if_not_exists(x, :a)", {":a": number(7)}, {"x": number(7)}),
    ("SET n = if_not_exists(n, :a)", {":a": number(7)}, {"n": number(1)}),
    ("SET n = if_not_exists(q, n) + :a", {":a": number(1)}, {"n": number(2)}),
    ("SET l = list_append(l, :a)", {":a": _numbers(9)}, {"l": _numbers(0, 1, 2, 3, 9)}),
    ("SET x = list_append(:a, l)", {":a": _numbers(9)}, {"x": _numbers(9, 0, 1, 2, 3)}),
    (
        "SET x = list_append(if_not_exists(x, :e), :a)",
        {":e": {"L": []}, ":a": _numbers(1)},
        {"x": _numbers(1)},
    ),
    ("SET l[0] = :a", {":a": number(9)}, {"l": _numbers(9, 1, 2, 3)}),
    (
        "SET l[9] = :a, l[7] = :b",
        {":a": number(9), ":b": number(7)},
        {"l": _numbers(0, 1, 2, 3, 7, 9)},
    ),
    ("REMOVE l[0], l[1]", {}, {"l": _numbers(2, 3)}),
    ("REMOVE l[77]", {}, {}),
    ("REMOVE l[0] SET l[2] = :a", {":a": number(9)}, {"l": _numbers(1, 9, 3)}),
    ("REMOVE nope", {}, {}),
    (
        "SET m.z = :a",
        {":a": number(2)},
        {"m": {"M": {**_MAP["M"], "z": number(2)}}},
    ),
    ("REMOVE m.b[0], m.a", {}, {"m": {"M": {"b": _numbers(2)}}}),
    (
        "SET m.b[1] = l[3]",
        {},
        {"m": {"M": {"a": number(1), "b": _numbers(1, 3)}}},
    ),
    # Every operand is the item as it was before the update.
    ("SET n = l[3], x = n", {}, {"n": number(3), "x": number(1)}),
    ("ADD n :a, x :a", {":a": number(2)}, {"n": number(3), "x": number(2)}),
    ("ADD ss :a", {":a": {"SS": ["c", "a"]}}, {"ss": {"SS": ["a", "b", "c"]}}),
    ("DELETE ss :a", {":a": {"SS": ["b", "zz"]}}, {"ss": {"SS": ["a"]}}),
    ("DELETE ss :a", {":a": {"SS": ["a", "b"]}}, {"ss": None}),
    ("DELETE nope :a", {":a": {"SS": ["a"]}}, {}),
    ("ADD l[9] :a", {":a": number(1)}, {"l": _numbers(0, 1, 2, 3, 1)}),
]

_PATH: Final = "The document path provided in the update expression is invalid for update"
_TYPE: Final = "An operand in the update expression has an incorrect data type"
_MISSING: Final = "The provided expression refers to an attribute that does not exist in the item"
_PART_OF_KEY: Final = (
    "One or more parameter values were invalid: Cannot update attribute id. This attribute is part "
    "of the key"
)

UPDATE_ERRORS: Final[list[tuple[str, Values, Message]]] = [
    ("SET q.z = :a", {":a": number(2)}, Message(_PATH)),
    ("ADD q.z :a", {":a": number(2)}, Message(_PATH)),
    ("REMOVE q.z", {}, Message(_PATH)),
    ("REMOVE n.z", {}, Message(_PATH)),
    ("SET m[0] = :a", {":a": number(2)}, Message(_PATH)),
    ("SET l.x = :a", {":a": number(2)}, Message(_PATH)),
    ("SET n = l + :a", {":a": number(2)}, Message(_TYPE)),
    ("SET n = list_append(n, :a)", {":a": {"L": []}}, Message(_TYPE)),
    ("ADD l :a", {":a": number(1)}, Message(_TYPE)),
    ("ADD n :a", {":a": {"SS": ["x"]}}, Message(_TYPE)),
    ("DELETE n :a", {":a": {"SS": ["x"]}}, Message(_TYPE)),
    ("SET x = nope + :a", {":a": number(1)}, Message(_MISSING)),
    ("SET x = nope", {}, Message(_MISSING)),
    ("SET id = :a", {":a": text("x")}, Message(_PART_OF_KEY)),
    ("REMOVE id", {}, Message(_PART_OF_KEY)),
    (
        "SET n = :a + :b",
        {":a": number("1E38"), ":b": number(1)},
        Message(
            "Attempting to store more than 38 significant digits in a Number",
            "DynamoDB only supports precision up to 38 digits",
        ),
    ),
    *(
        (expression, values, Message(f"Invalid UpdateExpression: {message}"))
        for expression, values, message in (
            ("SET x = ", {}, 'Syntax error; token: "<EOF>", near: "= "'),
            ("SET x", {}, 'Syntax error; token: "<EOF>", near: "x"'),
            ("PUT x = :a", {":a": text("x")}, 'Syntax error; token: "PUT", near: "PUT x"'),
            ("SET x = :a,", {":a": text("x")}, 'Syntax error; token: "<EOF>", near: ","'),
            ("SET x = - :a", {":a": number(1)}, 'Syntax error; token: "-", near: "= - :a"'),
            (
                "SET x = n + :a + :a",
                {":a": number(1)},
                'Syntax error; token: "+", near: ":a + :a"',
            ),
            ("ADD n n", {}, 'Syntax error; token: "n", near: "n n"'),
            ("", {}, "The expression can not be empty;"),
            (
                "SET x = :a SET y = :a",
                {":a": text("x")},
                'The "SET" section can only be used once in an update expression;',
            ),
            (
                "SET m = :a, m.a = :a",
                {":a": text("x")},
                "Two document paths overlap with each other; must remove or rewrite one of these "
                "paths; path one: [m], path two: [m, a]",
            ),
            (
                "SET x = :a REMOVE x",
                {":a": text("x")},
                "Two document paths overlap with each other; must remove or rewrite one of these "
                "paths; path one: [x], path two: [x]",
            ),
            (
                "SET name = :a",
                {":a": text("x")},
                "Attribute name is a reserved keyword; reserved keyword: name",
            ),
            ("SET x = foo(:a)", {":a": text("x")}, "Invalid function name; function: foo"),
            (
                "SET x = size(l)",
                {},
                "The function is not allowed in an update expression; function: size",
            ),
            (
                "SET x = if_not_exists(:a, :a)",
                {":a": text("x")},
                "Operator or function requires a document path; operator or function: "
                "if_not_exists",
            ),
            (
                "SET x = if_not_exists(n)",
                {},
                "Incorrect number of operands for operator or function; operator or function: "
                "if_not_exists, number of operands: 1",
            ),
            (
                "SET x = list_append(l, :a)",
                {":a": text("x")},
                "Incorrect operand type for operator or function; operator or function: "
                "list_append, operand type: S",
            ),
            (
                "ADD x :a",
                {":a": text("x")},
                "Incorrect operand type for operator or function; operator: ADD, operand type: "
                "STRING, typeSet: ALLOWED_FOR_ADD_OPERAND",
            ),
            (
                "DELETE n :a",
                {":a": number(1)},
                "Incorrect operand type for operator or function; operator: DELETE, operand type: "
                "NUMBER, typeSet: ALLOWED_FOR_DELETE_OPERAND",
            ),
        )
    ),
]

VALUES: Final[list[tuple[dict[str, Any], dict[str, Any]]]] = [
    (number("1E3"), number("1000")),
    (number("1e-3"), number("0.001")),
    (number("-0"), number("0")),
    (number("+5"), number("5")),
    (number("007.500"), number("7.5")),
    (number("1E125"), number("1" + "0" * 125)),
    (number("123456789012345678901234567890.12345678"),) * 2,
    ({"NS": ["10", "9", "-1.0"]}, {"NS": ["-1", "9", "10"]}),
    ({"BS": [b"b", b"a"]}, {"BS": [b"a", b"b"]}),
    ({"SS": ["ü", "z", ""]}, {"SS": ["", "z", "ü"]}),
    ({"L": []}, {"L": []}),
    ({"M": {}}, {"M": {}}),
    (text(""), text("")),
    ({"B": b""}, {"B": b""}),
    ({"NULL": True}, {"NULL": True}),
    ({"BOOL": False}, {"BOOL": False}),
]

_INVALID: Final = "One or more parameter values were invalid: "
_NO_NUMBER: Final = "A value provided cannot be converted into a number"
VALUE_ERRORS: Final[list[tuple[dict[str, Any], Message]]] = [
    (
        number("abc"),
        Message("The parameter cannot be converted to a numeric value: abc", _NO_NUMBER),
    ),
    (
        number("NaN"),
        Message("The parameter cannot be converted to a numeric value: NaN", _NO_NUMBER),
    ),
    (number(" 5"), Message("The parameter cannot be converted to a numeric value:  5", _NO_NUMBER)),
    (
        number("1E126"),
        Message(
            "Number overflow. Attempting to store a number with magnitude larger than supported "
            "range"
        ),
    ),
    (
        number("1E-131"),
        Message(
            "Number underflow. Attempting to store a number with magnitude smaller than supported "
            "range"
        ),
    ),
    (
        number("1" * 39),
        Message(
            "Attempting to store more than 38 significant digits in a Number",
            "DynamoDB only supports precision up to 38 digits",
        ),
    ),
    ({"SS": []}, Message(f"{_INVALID}An string set  may not be empty")),
    ({"NS": []}, Message(f"{_INVALID}An number set  may not be empty")),
    ({"BS": []}, Message(f"{_INVALID}Binary sets should not be empty")),
    ({"SS": ["a", "a"]}, Message(f"{_INVALID}Input collection [a, a] contains duplicates")),
    ({"NS": ["1", "1.0"]}, Message("Input collection contains duplicates")),
    (
        {"BS": [b"a", b"a"]},
        Message(f"{_INVALID}Input collection of type BS contains duplicates."),
    ),
    (
        {"NULL": False},
        Message(f"{_INVALID}Null attribute value types must have the value of true"),
    ),
    ({"M": {"": text("x")}}, Message("Empty attribute name")),
    (
        {},
        Message(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
        ),
    ),
    (
        {"S": "a", "N": "1"},
        Message(
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one of "
            "the supported datatypes"
        ),
    ),
    (text("x" * 400 * 1024), Message("Item size has exceeded the maximum allowed size")),
]
