"""Models: what they declare, how items are read into them, and what they refuse."""

from __future__ import annotations

import sys
import types
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from shardline.errors import ConfigurationError, ItemMismatch
from shardline.tables.models import Model, key, key_names_of, table_meta_of
from shardline.tables.shapes import Item, Shape
from shardline.tables.tables import TableForm, differences_between, form_of

ID = uuid.UUID(int=7)


class Colour(Enum):
    RED = "red"


class Address(BaseModel):
    street: str
    zip: int | None = None


class Everything(Model):
    class Meta:
        table = "everything"
        stream = {"include": ["new", "old"]}  # noqa: RUF012

    id: uuid.UUID = key()
    at: datetime = key(range=True)
    text: str
    whole: int
    part: float
    exact: Decimal
    flag: bool
    data: bytes
    colour: Colour
    tags: set[str]
    numbers: set[int]
    blobs: frozenset[bytes]
    names: list[str]
    pairs: tuple[int, str]
    home: Address
    places: dict[str, Address]
    by_number: dict[int, list[Decimal]]
    maybe: int | None = None
    perhaps: str | None = "default"
    anything: Any = None


def everything(**changed: Any) -> Everything:
    values: dict[str, Any] = {
        "id": ID,
        "at": datetime(2026, 11, 15, 1, 2, 3, 4, tzinfo=UTC),
        "text": "",
        "whole": 10**37,
        "part": 0.1,
        "exact": Decimal("0.1000000000000000000000000000001"),
        "flag": False,
        "data": b"\x00\xff",
        "colour": Colour.RED,
        "tags": {"a", "b"},
        "numbers": {1, -2},
        "blobs": frozenset({b"x"}),
        "names": ["a", ""],
        "pairs": (1, "a"),
        "home": Address(street="s"),
        "places": {"work": Address(street="w", zip=1)},
        "by_number": {1: [Decimal("1.5"), Decimal(2)]},
    }
    return Everything(**values | changed)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"tags": set(), "numbers": set(), "blobs": frozenset(), "names": [], "places": {}},
        {"maybe": 5, "perhaps": "set"},
        {"maybe": None, "perhaps": None},
        {"anything": {"a": [1, Decimal("1.5"), None, True, {"x"}]}},
    ],
)
def test_an_item_comes_back_equal_in_every_type(changed: dict[str, Any]) -> None:
    shape = Shape(Everything, "everything")
    item = everything(**changed)
    assert shape.read(shape.write(item), {}) == item


def test_a_none_that_is_the_default_is_left_out_and_any_other_is_stored() -> None:
    written = Shape(Everything, "everything").write(everything(maybe=None, perhaps=None))
    assert "maybe" not in written
    assert written["perhaps"] == {"NULL": True}


@pytest.mark.req("C-02")
@pytest.mark.parametrize(
    ("include", "view_type"),
    [
        (["keys"], "KEYS_ONLY"),
        (["new"], "NEW_IMAGE"),
        ({"old"}, "OLD_IMAGE"),
        (("new", "old"), "NEW_AND_OLD_IMAGES"),
        (["old", "new"], "NEW_AND_OLD_IMAGES"),
    ],
)
def test_include_is_the_view_type_of_the_stream(include: Any, view_type: str) -> None:
    class Thing(Model):
        class Meta:
            stream = {"include": include}  # noqa: RUF012

        id: str = key()

    class Short(Model):
        class Meta:
            stream = set(include)  # noqa: RUF012

        id: str = key()

    assert table_meta_of(Short).view_type == view_type
    assert table_meta_of(Thing).view_type == view_type
    assert table_meta_of(Thing).table == "Thing"


@pytest.mark.parametrize(
    "wrong",
    [
        {"include": []},
        {"include": ["keys", "new"]},
        {"include": "new"},
        {"exclude": ["new"]},
        {"include": ["new"], "more": 1},
        "new",
        {"new", "newer"},
        {},
    ],
)
def test_any_other_stream_is_refused_when_the_class_is_made(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Thing\.Meta\.stream is .* write .*'keys'"):

        class Thing(Model):
            class Meta:
                stream = wrong

            id: str = key()


def test_unknown_names_in_meta_are_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigurationError, match="unknown name 'tabel': did you mean 'table'"):

        class Thing(Model):
            class Meta:
                tabel = "things"

            id: str = key()


def test_a_model_has_one_hash_key_and_at_most_one_range_key() -> None:
    class Keyless(Model):
        id: str

    class Twice(Model):
        id: str = key()
        other: Annotated[str, key()]

    class TwoRanges(Model):
        id: str = key()
        one: int = key(range=True)
        two: int = key(range=True)

    assert key_names_of(Everything) == ("id", "at")
    for model, why in ((Keyless, "has 0 hash keys"), (Twice, "has 2 hash"), (TwoRanges, "2 range")):
        with pytest.raises(ConfigurationError, match=why):
            form_of(model)


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (str, "S"),
        (uuid.UUID, "S"),
        (datetime, "S"),
        (Colour, "S"),
        (int, "N"),
        (Decimal, "N"),
        (bytes, "B"),
        (Annotated[int, Field(gt=0)], "N"),
        (bool, None),
        (list[str], None),
        (str | None, None),
        (int | str, None),
    ],
)
def test_the_kind_of_a_key_comes_from_its_annotation(annotation: Any, kind: str | None) -> None:
    Thing = type(  # noqa: N806
        "Thing", (Model,), {"__annotations__": {"id": annotation}, "id": key(), "__module__": "m"}
    )
    if kind is None:
        with pytest.raises(ConfigurationError, match=r"Thing\.id cannot be a key: annotate"):
            form_of(Thing)
    else:
        assert form_of(Thing).keys == (("id", kind),)


def test_an_alias_names_the_attribute_and_the_field_keeps_its_own_name() -> None:
    class Aliased(Model):
        model_config = ConfigDict(validate_by_name=True)

        id: int = key(alias="pk")
        size: int = Field(alias="sz")

    shape = Shape(Aliased, "aliased")
    item = Aliased.model_validate({"id": 1, "size": 2})
    assert shape.write(item) == {"pk": {"N": "1"}, "sz": {"N": "2"}}
    assert shape.read(shape.write(item), {}) == item
    assert form_of(Aliased).keys == (("pk", "N"),)
    assert shape.write_keys(("id",), {"id": 1}) == {"pk": {"N": "1"}}
    assert shape.read_keys({"pk": {"N": "1"}}) == {"id": 1}


@pytest.mark.parametrize(
    ("attribute", "value", "fault"),
    [
        ("text", {"N": "5"}, "text: the item has a number, not a text"),
        ("text", {"B": b"x"}, "text: the item has bytes, not a text"),
        ("data", {"S": "x"}, "data: the item has a text, not bytes"),
        ("flag", {"N": "1"}, "flag: the item has a number, not a bool"),
        ("maybe", {"S": "5"}, "maybe: the item has a text, not a number or null"),
        ("whole", {"N": "1.5"}, "whole: Input should be a valid integer"),
        ("id", {"S": "no"}, "id: Input should be a valid UUID"),
        ("home", {"M": {}}, "home.street: the item lacks it: give the field a default"),
        ("names", {"L": [{"N": "1"}]}, "names.0: Input should be a valid string"),
        ("text", None, "text: the item lacks it: give the field a default, or allow None"),
    ],
)
def test_an_item_that_does_not_fit_is_named_by_table_key_and_field(
    attribute: str, value: Any, fault: str
) -> None:
    shape = Shape(Everything, "everything")
    item = shape.write(everything())
    keys = {"id": item["id"]}
    if value is None:
        del item[attribute]
    else:
        item[attribute] = value
    with pytest.raises(ItemMismatch) as mismatch:
        shape.read(item, keys)
    message = str(mismatch.value)
    start = f"dynamodb://everything item id='{ID}' does not fit Everything: {fault}"
    assert message.startswith(start)
    assert "\n" not in message


def test_unknown_attributes_are_left_to_the_models_own_config() -> None:
    class Open(Model):
        model_config = ConfigDict(extra="allow")
        id: str = key()

    class Shut(Model):
        model_config = ConfigDict(extra="forbid")
        id: str = key()

    class Plain(Model):
        id: str = key()

    item: Item = {"id": {"S": "a"}, "more": {"NS": ["1"]}}
    assert Shape(Plain, "t").read(item, {}) == Plain(id="a")
    assert Shape(Open, "t").write(Shape(Open, "t").read(item, {})) == item
    with pytest.raises(ItemMismatch, match="more: Extra inputs are not permitted"):
        Shape(Shut, "t").read(item, {})


def test_what_cannot_be_stored_is_refused_by_table_and_field() -> None:
    shape = Shape(Everything, "everything")
    with pytest.raises(ItemMismatch, match="dynamodb://everything: part: DynamoDB cannot"):
        shape.write(everything(part=float("nan")))
    broken = everything()
    broken.names.append(5)  # type: ignore[arg-type]
    with pytest.raises(ItemMismatch, match=r"dynamodb://everything: .*Expected `str`"):
        shape.write(broken)
    with pytest.raises(ValueError, match="valid string"):
        broken.text = 5  # type: ignore[assignment]


def test_a_key_is_asked_for_by_the_names_of_its_fields() -> None:
    shape = Shape(Everything, "everything")
    with pytest.raises(ConfigurationError, match="the key is id, at, not id"):
        shape.write_keys(("id", "at"), {"id": ID})
    with pytest.raises(ConfigurationError, match="the key is id, at, not nothing"):
        shape.write_keys(("id", "at"), {})


def test_a_dataclass_and_a_plain_pydantic_model_are_shapes_too() -> None:
    @dataclass
    class Point:
        id: uuid.UUID
        x: float

    class Plain(BaseModel):
        id: uuid.UUID
        x: float

    item = {"id": {"S": str(ID)}, "x": {"N": "1.5"}}
    assert Shape(Point, "points").read(item, {}) == Point(ID, 1.5)
    assert Shape(Plain, "points").read(item, {}) == Plain(id=ID, x=1.5)
    assert Shape(Point, "points").read_keys({"id": item["id"]}) == {"id": ID}
    with pytest.raises(ItemMismatch, match="id: Input should be a valid UUID"):
        Shape(Point, "points").read_keys({"id": {"S": "no"}})
    for nothing in (int, object()):
        with pytest.raises(ConfigurationError, match="is not a model"):
            Shape(nothing, "points")  # type: ignore[arg-type]


def test_an_item_prints_as_it_is_made() -> None:
    class Point(Model):
        id: int = key()

    assert f"{Point(id=1)}" == "Point(id=1)"


def test_what_differs_between_a_table_and_its_model_is_said() -> None:
    wanted = TableForm((("id", "S"), ("at", "N")), "NEW_IMAGE")
    assert differences_between(wanted, wanted) == []
    assert differences_between(TableForm((("pk", "S"),), None), wanted) == [
        "its hash key is pk (S), the model has id (S)",
        "its range key is none, the model has at (N)",
        "its stream is off, the model wants NEW_IMAGE",
    ]
    assert differences_between(TableForm(wanted.keys, "KEYS_ONLY"), wanted) == [
        "its stream is KEYS_ONLY, the model wants NEW_IMAGE"
    ]
    assert differences_between(wanted, TableForm(wanted.keys, None)) == []


class Partial(Model):
    id: str = key()
    note: str | None
    count: Annotated[int | None, Field(ge=0)]
    name: str = "anonymous"


@dataclass
class PartialRow:
    id: str
    note: str | None
    name: str = "anonymous"


@pytest.mark.case("X-37")
def test_an_item_that_lacks_a_field_has_none_there_where_the_annotation_allows_it() -> None:
    item: Item = {"id": {"S": "a"}}
    read = Shape(Partial, "partial").read(item, item)
    assert (read.note, read.count, read.name) == (None, None, "anonymous")
    assert Shape(PartialRow, "partial").read(item, item) == PartialRow("a", None)
    with pytest.raises(ValueError, match="note"):
        Partial(id="a", count=1)  # type: ignore[call-arg] # only stored items may lack fields


class Arrow:
    """As arrow.Arrow, which is no datetime but holds one."""

    def __init__(self, time: datetime) -> None:
        self.datetime = time


def test_arrow_times_are_accepted_in_fields_assignments_and_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "arrow", types.ModuleType("arrow"))
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)

    class Visit(Model):
        id: str = key()
        at: datetime = key(range=True)
        left_at: datetime | None = None

    time: Any = Arrow(noon)
    visit = Visit(id="a", at=time)
    visit.left_at = time
    assert (visit.at, visit.left_at) == (noon, noon)
    shape = Shape(Visit, "visits")
    keys = shape.write_keys(("id", "at"), {"id": "a", "at": time})
    assert keys["at"] == {"S": "2026-11-16T12:00:00.000000Z"}
    assert shape.read(shape.write(visit), keys) == visit
