"""The engine against a real table: DynamoDB Local."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from pydantic import BaseModel

import shardline
from shardline.errors import ConfigurationError, ItemMismatch, ServiceError, ServiceUnreachable
from shardline.local import Service
from tests import servers
from tests.integration.next_changes import next_changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.tables.changes import Change, ChangeStream
    from tests.servers import Endpoint

T = TypeVar("T")
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "change_streams.py"


@pytest.fixture(scope="module")
def shardline_local() -> Iterator[Service]:
    with Service(strict=True) as service:
        yield service


@pytest.fixture(params=["shardline_local", "dynamodb_local"])
def engine(request: pytest.FixtureRequest) -> Iterator[shardline.Engine]:
    server: Endpoint | Service = request.getfixturevalue(request.param)
    with shardline.Engine(endpoint_url=server.endpoint_url) as engine:
        yield engine


def user_model(include: list[str] | None = None) -> Any:
    """A model with a table of its own."""

    class User(shardline.Model):
        class Meta:
            table = f"users-{uuid.uuid4()}"
            stream = {"include": include or ["new", "old"]}  # noqa: RUF012

        id: uuid.UUID = shardline.key()
        email: str
        verified: bool = False

    return User


def take(stream: ChangeStream[T], count: int) -> list[Change[T]]:
    """Return the next changes, and make sure that no more come with them."""
    changes = next_changes(stream, count)
    assert next(stream) is None
    return changes


@pytest.mark.req("C-03", "C-07", "C-08", "C-23")
def test_an_insert_has_no_old_an_update_has_both_and_a_delete_has_no_new(
    engine: shardline.Engine,
) -> None:
    User = user_model()  # noqa: N806
    engine.bind(User)
    user = User(id=uuid.uuid4(), email="a@b.c")
    verified = user.model_copy(update={"verified": True})
    engine.save(user)
    engine.save(verified)
    assert engine.load(User, id=user.id) == verified
    engine.delete(user)
    engine.delete(user)
    assert engine.load(User, id=user.id) is None

    with engine.stream(User, "trim_horizon") as stream:
        changes = take(stream, 3)

    assert [(change["old"], change["new"]) for change in changes] == [
        (None, user),
        (user, verified),
        (verified, None),
    ]
    assert all(change["key"] == {"id": user.id} for change in changes)
    metas = [change["meta"] for change in changes]
    assert [meta["event"]["type"] for meta in metas] == ["insert", "modify", "remove"]
    assert {meta["event"]["version"] for meta in metas} == {"1.1"}
    assert len({meta["event"]["id"] for meta in metas}) == 3
    numbers = [int(meta["sequence_number"]) for meta in metas]
    assert numbers == sorted(set(numbers))
    for meta in metas:
        age = datetime.now(UTC) - meta["created_at"]
        assert age < timedelta(minutes=5), "aware, and of this run"


@pytest.mark.req("C-02")
@pytest.mark.parametrize(
    ("include", "shown"),
    [
        (["keys"], [(False, False), (False, False)]),
        (["new"], [(True, False), (False, False)]),
        (["old"], [(False, False), (False, True)]),
        (["new", "old"], [(True, False), (False, True)]),
    ],
)
def test_each_form_of_include_shows_what_it_says(
    engine: shardline.Engine, include: list[str], shown: list[tuple[bool, bool]]
) -> None:
    User = user_model(include)  # noqa: N806
    engine.bind(User)
    user = User(id=uuid.uuid4(), email="a@b.c")
    engine.save(user)
    engine.delete(user)
    with engine.stream(User, "trim_horizon") as stream:
        changes = take(stream, 2)
    assert [(bool(change["new"]), bool(change["old"])) for change in changes] == shown
    assert all(change["key"] == {"id": user.id} for change in changes)


class Part(BaseModel):
    name: str
    price: Decimal | None = None


def test_every_type_comes_back_from_the_table_and_from_the_stream(
    engine: shardline.Engine,
) -> None:
    class Thing(shardline.Model):
        class Meta:
            table = f"things-{uuid.uuid4()}"
            stream = {"include": ["new"]}  # noqa: RUF012

        owner: bytes = shardline.key()
        at: datetime = shardline.key(range=True)
        whole: int
        part: float
        exact: Decimal
        tags: set[str]
        numbers: set[Decimal]
        blobs: set[bytes]
        parts: list[Part]
        by_name: dict[str, Part]
        maybe: str | None = "default"
        nothing: None = None

    engine.bind(Thing)
    thing = Thing(
        owner=b"\x00\xff",
        at=datetime.now(UTC),
        whole=-(10**37) - 1,
        part=1.7976931348623157e-120,
        exact=Decimal("0.10"),
        tags=set(),
        numbers={Decimal("1.5"), Decimal(2)},
        blobs={b"", b"\x01"},
        parts=[Part(name=""), Part(name="p", price=Decimal("9.99"))],
        by_name={"ü": Part(name="n")},
        maybe=None,
    )
    engine.save(thing)
    assert engine.load(Thing, owner=thing.owner, at=thing.at) == thing
    with engine.stream(Thing, "trim_horizon") as stream:
        (change,) = take(stream, 1)
    assert change["new"] == thing
    assert change["key"] == {"owner": thing.owner, "at": thing.at}


def test_a_dataclass_and_a_plain_pydantic_model_stream_with_a_table_name(
    engine: shardline.Engine,
) -> None:
    @dataclass
    class Row:
        id: uuid.UUID
        email: str

    class Plain(BaseModel):
        id: uuid.UUID
        verified: bool

    User = user_model()  # noqa: N806
    engine.bind(User)
    user = User(id=uuid.uuid4(), email="a@b.c")
    engine.save(user)
    table = User.Meta.table
    with engine.stream(Row, "trim_horizon", table=table) as rows:
        (row,) = take(rows, 1)
    assert (row["new"], row["key"]) == (Row(user.id, "a@b.c"), {"id": user.id})
    with engine.stream(Plain, "trim_horizon", table=table) as plains:
        (plain,) = take(plains, 1)
    assert plain["new"] == Plain(id=user.id, verified=False)
    with pytest.raises(ConfigurationError, match=r"Row names no table: .*table="):
        engine.stream(Row, "latest")


@pytest.mark.case("X-37")
def test_a_change_that_does_not_fit_is_an_error_until_it_is_skipped(
    engine: shardline.Engine,
) -> None:
    User = user_model()  # noqa: N806
    engine.bind(User)

    class Wrong(shardline.Model):
        class Meta:
            table = User.Meta.table
            stream = {"include": ["new", "old"]}  # noqa: RUF012

        id: uuid.UUID = shardline.key()
        email: int

    wrong = Wrong(id=uuid.uuid4(), email=5)
    right = User(id=uuid.uuid4(), email="a@b.c")
    engine.save(wrong, right)
    with engine.stream(User, "trim_horizon") as stream:
        with pytest.raises(ItemMismatch) as mismatch:
            take(stream, 1)
        with pytest.raises(ItemMismatch), engine.stream(User, stream.token) as again:
            take(again, 1)  # the token is before it
        with pytest.raises(ItemMismatch):
            next(stream)
        skipped = stream.skip()
        assert skipped is not None
        assert skipped.new is not None
        assert skipped.new["email"] == {"N": "5"}
        (change,) = take(stream, 1)
    assert str(mismatch.value) == (
        f"dynamodb://{User.Meta.table} item id='{wrong.id}' does not fit User: "
        "email: the item has a number, not a text"
    )
    assert change["new"] == right
    with pytest.raises(ItemMismatch, match="email: the item has a number"):
        engine.load(User, id=wrong.id)


def test_bind_takes_a_table_that_fits_and_says_what_differs_in_one_that_does_not(
    engine: shardline.Engine,
) -> None:
    User = user_model()  # noqa: N806
    engine.bind(User)
    engine.bind(User, User)

    class Other(shardline.Model):
        class Meta:
            table = User.Meta.table
            stream = {"include": ["keys"]}  # noqa: RUF012

        id: int = shardline.key()
        at: datetime = shardline.key(range=True)

    with pytest.raises(ConfigurationError) as different:
        engine.bind(Other)
    assert str(different.value) == (
        f"dynamodb://{User.Meta.table} does not fit the model: its hash key is id (S), the model "
        "has id (N); its range key is none, the model has at (S); its stream is "
        "NEW_AND_OLD_IMAGES, the model wants KEYS_ONLY: change the model or the table, or name "
        "another one in Meta.table"
    )


def test_two_processes_may_bind_at_once(engine: shardline.Engine) -> None:
    User = user_model()  # noqa: N806
    table = User.Meta.table
    client = engine._client
    create = client.create_table

    def somebody_is_quicker(**request: Any) -> Any:
        create(**request)
        return create(**request)

    client.create_table = somebody_is_quicker
    engine.bind(User)
    assert client.describe_table(TableName=table)["Table"]["TableStatus"] == "ACTIVE"


def test_a_model_without_a_stream_has_a_table_only(engine: shardline.Engine) -> None:
    class Quiet(shardline.Model):
        class Meta:
            table = f"quiet-{uuid.uuid4()}"

        id: str = shardline.key()

    engine.bind(Quiet)
    engine.save(Quiet(id="a"))
    assert engine.load(Quiet, id="a") == Quiet(id="a")
    with pytest.raises(ConfigurationError, match="Quiet declares no stream: add stream ="):
        engine.stream(Quiet, "latest")


def test_errors_are_one_line_that_says_what_to_do(
    engine: shardline.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    User = user_model()  # noqa: N806
    user = User(id=uuid.uuid4(), email="a@b.c")

    class Misnamed(shardline.Model):
        class Meta:
            table = "no"

        id: str = shardline.key()

    with pytest.raises(ConfigurationError, match=r"engine.bind\(…\)` creates missing tables"):
        engine.save(user)
    with pytest.raises(ConfigurationError, match=r"DescribeTable refused .* between 3 and 255"):
        engine.bind(Misnamed)
    with pytest.raises(ConfigurationError, match="the key is id, not email"):
        engine.load(User, email="a@b.c")
    engine.bind(User)
    with pytest.raises(ServiceError, match="PutItem refused") as refused:
        engine.save(User(id=user.id, email="x" * 500_000))
    assert "\n" not in str(refused.value)
    elsewhere = shardline.Engine(endpoint_url="http://127.0.0.1:9")
    with pytest.raises(ServiceUnreachable, match=r"nothing answers at http://127\.0\.0\.1:9"):
        elsewhere.load(User, id=user.id)
    with pytest.raises(ConfigurationError, match="has no scheme"):
        shardline.Engine(endpoint_url="127.0.0.1:8000")


@pytest.mark.case("X-06")
def test_a_stream_that_was_switched_off_and_on_is_drained_and_then_read_on(
    engine: shardline.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    User = user_model()  # noqa: N806
    engine.bind(User)
    client, table = engine._client, User.Meta.table
    users = [User(id=uuid.uuid4(), email=f"{number}@b.c") for number in range(4)]
    on = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    engine.save(users[0], users[1])
    options: dict[str, Any] = {"list_seconds": 0.1, "poll_seconds": 0.05}
    with engine.stream(User, "trim_horizon", **options) as stream:
        assert [change["new"] for change in next_changes(stream, 1)] == users[:1]
        before = json.loads(json.dumps(stream.token))
        client.update_table(TableName=table, StreamSpecification={"StreamEnabled": False})
        engine.save(users[2])  # in no stream
        client.update_table(TableName=table, StreamSpecification=on)
        engine.save(users[3])
        assert [change["new"] for change in next_changes(stream, 2)] == [users[1], users[3]]
        assert f"{table} was switched off and on" in caplog.text
        after = stream.token
    assert after["stream"] != before["stream"]
    with engine.stream(User, before, **options) as again:
        assert [change["new"] for change in next_changes(again, 2)] == [users[1], users[3]]
    with engine.stream(User, after, **options) as again:
        engine.delete(users[3])
        assert [change["old"] for change in next_changes(again, 1)] == [users[3]]


@pytest.mark.req("C-01", "C-02", "C-03", "C-07", "C-08")
@pytest.mark.parametrize("server", ["shardline local", "dynamodb_local"])
def test_the_example_of_the_documentation_runs_and_prints_what_it_says(
    server: str, request: pytest.FixtureRequest
) -> None:
    example = [sys.executable, str(EXAMPLE)]
    if server == "shardline local":
        command = Path(sys.executable).with_name("shardline")
        ran = _run([str(command), "local", "--", *example])
    else:
        request.getfixturevalue(server)  # Skips where there is none.
        # A server of its own, where nobody else has a table of that name.
        with servers.dynamodb_local() as own:
            ran = _run(example, AWS_ENDPOINT_URL=own.endpoint_url)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    made = r"User\(id=(UUID\('[0-9a-f-]{36}'\)), email='user@domain\.com', verified=False\)"
    first = re.fullmatch(rf"new user {made} created (\d{{4}}-\d\d-\d\d .*)", lines[0])
    assert first is not None, lines
    assert datetime.fromisoformat(first[2]).tzinfo is not None
    old = f"User(id={first[1]}, email='user@domain.com', verified=False)"
    new = old.replace("False", "True")
    assert lines[1:] == [
        f"user {new} updated from {old}",
        f"insert {{'id': {first[1]}}}",
        f"modify {{'id': {first[1]}}}",
        f"user {new} deleted, now None",
    ]


def _run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
