"""The guards behind the table of attacks in SECURITY.md: without one, the test of its row fails."""

from __future__ import annotations

from typing import Final, NamedTuple


class Guard(NamedTuple):
    """A guard, as `planted_bugs.PlantedBug` has a bug."""

    row: str
    what: str
    path: str
    right: str
    wrong: str
    test: str


_DOORS: Final = "tests/integration/test_local_doors.py"
_PAGE: Final = "tests/unit/dashboard/test_server.py"

GUARDS: Final = (
    Guard(
        "another site", "the embedded service answers any host",
        "local/admission.py",
        "        if name is None or not self._admits(name):",
        "        if False:",
        f"{_DOORS} -k page",
    ),
    Guard(
        "another site", "the embedded service answers pages of any site",
        "local/admission.py",
        "        if origin_name is None or not self._admits(origin_name):",
        "        if False:",
        f"{_DOORS} -k page",
    ),
    Guard(
        "another site", "a control call may be text/plain",
        "local/control.py",
        '        if http.content_type != "application/json":',
        "        if False:",
        f"{_DOORS} -k control",
    ),
    Guard(
        "control values", "a clock takes any number of seconds",
        "local/clock.py",
        "        if not seconds * 1000 <= _MAX_MS - latest_ms:",
        "        if False:",
        f"{_DOORS} -k control",
    ),
    Guard(
        "wrong types", "a list may be anything",
        "local/validation.py",
        "            if not isinstance(value, list):",
        "            if False:",
        f"{_DOORS} -k value",
    ),
    Guard(
        "wrong types", "deep JSON is not refused",
        "local/protocol.py",
        "    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):",
        "    except (msgspec.MsgspecError, UnicodeDecodeError):",
        f"{_DOORS} -k body",
    ),
    Guard(
        "journal", "a journal may be a symbolic link",
        "local/journal.py",
        "        if each.is_symlink():",
        "        if False:",
        "tests/integration/test_local_journal.py -k symbolic",
    ),
    Guard(
        "journal", "a journal may be a pipe or a device",
        "local/journal.py",
        "    if not stat.S_ISREG(os.fstat(descriptor).st_mode):",
        "    if False:",
        "tests/integration/test_local_journal.py -k regular",
    ),
    Guard(
        "journal", "the database of another program becomes a journal",
        "local/journal.py",
        '    if version == 0 and tables - {"entries"}:',
        "    if False:",
        "tests/integration/test_local_journal.py -k another_program",
    ),
    Guard(
        "journal", "a journal of another format is opened",
        "local/journal.py",
        "    if version not in (0, _FORMAT):",
        "    if False:",
        "tests/integration/test_local_file.py",
    ),
    Guard(
        "dashboard", "the dashboard answers any host",
        "dashboard/application.py",
        '    if "@" in request.host or _host_of(f"//{request.host}") not in _LOCAL_NAMES:',
        "    if False:",
        _PAGE,
    ),
    Guard(
        "dashboard", "the dashboard answers pages of any site",
        "dashboard/application.py",
        "    if origin is not None and _netloc_of(origin) != request.host:",
        "    if False:",
        _PAGE,
    ),
    Guard(
        "dashboard", "any token is right",
        "dashboard/application.py",
        "hmac.compare_digest(presented, self._token.encode())",
        "True",
        _PAGE,
    ),
    Guard(
        "dashboard", "a token that is no UTF-8 is an error of the server",
        "dashboard/application.py",
        '        presented = given.encode("utf-8", "surrogateescape")',
        '        presented = given.encode("utf-8")',
        _PAGE,
    ),
    Guard(
        "payloads", "payloads are given out without the token",
        "dashboard/latest.py",
        "    if not with_payloads:",
        "    if False:",
        f"{_PAGE} -k payloads",
    ),
    Guard(
        "observation", "an old picture is called live",
        "dashboard/latest.py",
        "        if not notice and age > self._stale_seconds:",
        "        if False:",
        f"{_PAGE} -k stale",
    ),
    Guard(
        "password", "addresses are shown with their password",
        "leases/sql_engine.py",
        "render_as_string(hide_password=True)",
        "render_as_string(hide_password=False)",
        "tests/unit/leases/test_sql_engine.py",
    ),
    Guard(
        "password", "what a driver says is repeated as it is",
        "leases/sql_engine.py",
        "            text = text.replace(form, _HIDDEN)",
        "            pass",
        "tests/unit/leases/test_sql_engine.py",
    ),
    Guard(
        "private table", "the file of a lease table has the mode that the umask gives",
        "leases/sql_engine.py",
        '        event.listen(engine, "do_connect", _create_private)\n',
        "",
        "tests/unit/leases/test_sql_engine.py -k owner",
    ),
    Guard(
        "wrong types", "values may lie at any depth",
        "local/dynamodb/values.py",
        "    if level > MOST_LEVELS:",
        "    if False:",
        "tests/unit/local/dynamodb/test_values.py -k deeper",
    ),
    Guard(
        "wrong types", "an expression may have any depth and length",
        "local/dynamodb/lexer.py",
        "            if depth > _DEEPEST:",
        "            if False:",
        "tests/unit/local/dynamodb/test_parser.py -k bounded",
    ),
    Guard(
        "aggregated", "a record may grow without a bound",
        "services/aggregation.py",
        "    if grown > max(_MOST_GROWTH * len(record), _GROWTH_ALLOWED_BYTES):",
        "    if False:",
        "tests/unit/services/test_aggregation.py",
    ),
    Guard(
        "bodies", "the fast way takes numbers that JSON does not have",
        "services/wire/vectors_json.py",
        "    if not _are_numbers(values):",
        "    if False:",
        "tests/property/test_decoders.py",
    ),
    Guard(
        "bodies", "the fast way takes base64 with padding inside (AA=A)",
        "services/wire/vectors_json.py",
        "        padded &= text[last] == _PAD",
        "        padded = text[last] == _PAD",
        "tests/property/test_decoders.py",
    ),
    Guard(
        "requests", "a list in a request may be anything",
        "local/validation.py",
        "            if not isinstance(value, list):",
        "            if False:",
        "tests/property/test_requests.py",
    ),
    Guard(
        "documents", "what a damaged document raises is passed on",
        "core/checkpoints.py",
        "    except _DAMAGE as error:",
        "    except ZeroDivisionError as error:",
        "tests/property/test_damaged_documents.py",
    ),
    Guard(
        "documents", "a field of a row may have any type",
        "leases/stored_rows.py",
        "        if not fits:",
        "        if False:",
        "tests/unit/leases/test_stored_rows.py",
    ),
    Guard(
        "trickle", "the deadline counts for each piece of an answer",
        "services/deadlines.py",
        "        self._ends_at = min(_ends_at.get(), time.monotonic() + self._timeout)",
        "        self._ends_at = _NEVER",
        "tests/unit/services/test_deadlines.py",
    ),
    Guard(
        "trickle", "an answer that never comes is waited for to the end",
        "services/deadlines.py",
        "        wait = min(left, SILENCE_SECONDS)",
        "        wait = left",
        "tests/unit/services/test_deadlines.py",
    ),
    Guard(
        "silent table", "PostgreSQL is waited for without end",
        "leases/postgresql.py",
        "            if time.monotonic() >= ends_at:",
        "            if False:",
        "tests/contract/test_lease_table_faults.py",
    ),
    Guard(
        "silent table", "an answer of which a part is missing is taken for one",
        "services/wire/handler.py",
        "        _require_length(response_dict)\n        shape = operation_model.output_shape",
        "        shape = operation_model.output_shape",
        "tests/unit/services/wire/test_handler.py -k lease_row",
    ),
    Guard(
        "silent table", "an answer that is no JSON is taken for an empty one",
        "services/wire/handler.py",
        '        members = _decode(_members, response_dict["body"])',
        "        members = []",
        "tests/contract/test_lease_table_faults.py -k whole",
    ),
    Guard(
        "silent table", "a page of rows without its items is passed on",
        "services/wire/handler.py",
        "        _require_members(operation_model, shape, members)\n",
        "",
        "tests/unit/services/wire/test_handler.py -k without_items",
    ),
    Guard(
        "no message", "a process that takes no message is waited for again and again",
        "consumer/link.py",
        "            self._process.kill()  # a part",
        "            pass  # a part",
        "tests/unit/consumer/test_link.py",
    ),
    Guard(
        "attack", "a lease row is written whatever is there",
        "leases/dynamodb_items.py",
        '        "lease_owner": expected.lease_owner,\n        "epoch": expected.epoch,\n'
        '        "lease_count": expected.lease_count,\n',
        '        "shard_id": expected.shard_id,\n',
        "tests/integration/test_lease_tables_under_attack.py -k dynamodb",
    ),
    Guard(
        "attack", "a lease row is written over a later one of the same owner",
        "leases/dynamodb_items.py",
        '        "lease_count": expected.lease_count,\n',
        "",
        "tests/contract/test_lease_table.py -k dynamodb",
    ),
    Guard(
        "SIGTERM", "a signal while it starts waits for the workers",
        "cli/run/signals.py",
        "        if self._starting:",
        "        if False:",
        "tests/integration/test_ends.py",
    ),
    Guard(
        "full disk", "a line that finds no room ends the run",
        "cli/run/report.py",
        "        if error.errno not in _NO_PLACE:",
        "        if True:",
        "tests/unit/cli/run/test_report.py",
    ),
    Guard(
        "full disk", "the embedded service acknowledges what is not on disk",
        "local/journal.py",
        "                raise self._failure from error",
        "                self._saved += len(batch)\n                return",
        "tests/integration/test_local_file.py -k full",
    ),
    Guard(
        "letters", "letters are written through a symbolic link",
        "consumer/letters/folder.py",
        "os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC",
        "os.O_CREAT | os.O_CLOEXEC",
        "tests/unit/consumer/letters/test_folder.py -k link",
    ),
    Guard(
        "storm", "every refusal is a line",
        "services/log_limits.py",
        "        if now - logged_at < self._period_seconds:",
        "        if False:",
        "tests/unit/services/test_calls.py -k line",
    ),
    Guard(
        "table away", "every call that fails is a line",
        "leases/member.py",
        "        held_back = self._log_limit.admit(what, self.clock())",
        "        held_back = 0",
        "tests/unit/leases/test_member.py",
    ),
    Guard(
        "password of a lease table", "an address stays in what ps shows",
        "__main__.py",
        "    hide_secrets()\n",
        "",
        "tests/integration/test_ends.py -k password",
    ),
)  # fmt: skip
