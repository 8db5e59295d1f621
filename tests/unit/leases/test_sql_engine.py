"""Passwords of a lease table are shown nowhere: not in messages, names, logs or tracebacks."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from shardline.errors import ShardlineError
from shardline.leases.address import open_table, table_is_local
from shardline.leases.sql_engine import without_secrets

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "geh3im"  # noqa: S105 - of nobody
FORMS = [
    "postgresql://user:geh3im@127.0.0.1:1/db",
    "postgresql+psycopg://user:geh3im@127.0.0.1:1/db",
    "postgresql://127.0.0.1:1/db?user=user&password=geh3im",
    "postgresql:///db?host=127.0.0.1&port=1&user=user&password=geh3im",
    "postgresql://user@127.0.0.1:1/db?password=geh3im&sslpassword=geh3im",
    "postgresql://user:a%40geh3im%2Fb@127.0.0.1:1/db",
    "postgresql://user:p@geh3im/word@127.0.0.1:1/db",
    "postgresql://user:geh3im@127.0.0.1:not-a-port/db",
    "postgresql://user:geh3im@127.0.0.1:1/db?connect_timeout=geh3im",
    "postgresql://user:geh3im@127.0.0.1:1/db?no_such_option=1",
    "postgresql+nosuchdriver://user:geh3im@127.0.0.1:1/db",
    "mysql://user:geh3im@127.0.0.1:1/db",
    "postgres://user:geh3im@127.0.0.1:1/db",
    "postgresql:user:geh3im@127.0.0.1:1/db",
]


@pytest.mark.parametrize("address", FORMS)
def test_a_password_is_never_shown(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown = []
    try:
        table = open_table(address)
        shown += [repr(table), str(table), table.address]
        table.prepare()
    except ShardlineError as error:
        shown += [str(error), repr(error), "".join(traceback.format_exception(error))]
    else:
        pytest.fail("nothing listens there")
    assert len(shown) >= 3
    for text in (*shown, caplog.text):
        # A traceback names the line of this file, which holds no secret of its own.
        assert SECRET not in text


@pytest.mark.parametrize("address", FORMS[:6])
def test_what_a_driver_says_is_repeated_without_the_password(address: str) -> None:
    url = sa.make_url(address)
    options = [text for text in url.query.values() if isinstance(text, str)]
    said = f"invalid dsn: {' '.join((url.password or '', address, *options))}"
    assert SECRET in said
    shown = without_secrets(said, url)
    assert SECRET not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("sqlite:///leases.db", True),
        ("sqlite+pysqlite:///leases.db", True),
        ("postgresql://host/db", False),
        ("dynamodb://leases", False),
    ],
)
def test_a_table_in_a_file_is_local(address: str, local: bool) -> None:
    assert table_is_local(address) is local


def test_the_files_of_a_new_table_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    table = open_table(f"sqlite:///{tmp_path}/leases.db")
    table.prepare()
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    table.close()
