"""`shardline letters` from the outside: what it lists, shows and does, for people and programs."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from shardline.cli import app
from shardline.consumer.consumer import ShardBatch
from shardline.consumer.letters.folder import FolderOfLetters
from shardline.consumer.letters.letter import Origin
from shardline.core.fences import Fence
from shardline.core.leasing.rows import Header
from shardline.core.positions import TRIM_HORIZON
from shardline.leases.address import open_table
from shardline.services.access import Access
from tests.unit.consumer.letters.lease_rows import (
    APP,
    CREATED,
    STREAM,
    after,
    lease_row,
    lease_table,
    park,
    parked_keys,
    rows_of,
)
from tests.unit.consumer.shard_pages import changes, page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONSUMER = """
import pathlib
import shardline

class Billing(shardline.ShardConsumer):
    def process(self, batch):
        for record in batch.records:
            if pathlib.Path("still-broken").exists() and record.partition_key == "a":
                raise ValueError("no such account")
            with open("processed", "a") as file:
                file.write(f"{record.partition_key}{record.sequence_number} {batch.fence.epoch}\\n")
"""


TYPED = """
import shardline

class User(shardline.Model):
    id: str = shardline.key()

class Billing(shardline.ShardConsumer):
    model = User

    def process(self, batch):
        with open("processed", "a") as file:
            file.writelines(f"{change['new'].id}\\n" for change in batch.changes)
"""


class Desk:
    """A folder with letters and a lease table, and the commands on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = f"file://{folder}/letters"
        self.address = f"sqlite:///{folder}/leases.db"
        row = lease_row("s-1", after(100))
        self.table = lease_table(row, table=open_table(self.address, Access()))
        park(self.table, row, "a", "the first")

    def write(self, *records: tuple[str, int], reason: str, parked: bool) -> None:
        box = FolderOfLetters(str(self.folder / "letters"), Origin(APP, STREAM))
        box.write(ShardBatch("s-1", Fence(4, 1), page(*records)), reason, parked=parked)

    def run(self, *typed: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["letters", *typed])
        assert result.exit_code == code, result.output
        return result.output

    def json(self, *typed: str, code: int = 0) -> Any:
        return json.loads(self.run(*typed, "--json", code=code))

    def redrive(self, *typed: str, code: int = 0) -> str:
        leased = ("--stream", f"kinesis://{STREAM}", "--app", APP, "--lease-table", self.address)
        return self.run("redrive", self.place, "billing:Billing", *leased, *typed, code=code)

    @property
    def processed(self) -> list[str]:
        file = self.folder / "processed"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    (tmp_path / "billing.py").write_text(CONSUMER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "billing", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    made = Desk(tmp_path)
    made.write(("a", 10), reason="ValueError: no such account", parked=True)
    made.write(("a", 11), ("a", 12), reason="its key is parked", parked=True)
    made.write(("b", 13), reason="KeyError: 'x'\x1b[2J", parked=False)
    yield made
    made.table.close()
    sys.modules.pop("billing", None)


def test_the_list_has_counts_and_reasons(desk: Desk) -> None:
    text = desk.run("list", desk.place)
    assert "4 letters: 2 × its key is parked, 1 × ValueError, 1 × KeyError · 1 keys parked" in text
    assert f"{APP}/{STREAM}/s-1/10/0" in text
    assert "\x1b[2J" not in text
    values = desk.json("list", desk.place, "--limit", "1")
    assert values["letters"] == 4
    assert values["reasons"] == {"its key is parked": 2, "ValueError": 1, "KeyError": 1}
    (first,) = values["waiting"]
    assert (first["key"], first["sequence_number"], first["parked"]) == ("a", "10", True)
    assert "… and 3 more" in desk.run("list", desk.place, "--limit", "1")


def test_a_place_without_letters_is_said(desk: Desk) -> None:
    assert desk.run("list", f"file://{desk.folder}/none") == "no letters\n"


def test_damage_is_counted(desk: Desk) -> None:
    (file,) = (desk.folder / "letters").iterdir()
    file.write_bytes(file.read_bytes()[:-30])
    assert "3 letters" in desk.run("list", desk.place)
    assert "1 lines that are no letters" in desk.run("list", desk.place)


def test_one_letter_is_shown_with_its_payload(desk: Desk) -> None:
    text = desk.run("show", desk.place, "13/0")
    assert text.endswith("\n13\n")
    assert "reason: KeyError: 'x'\\x1b[2J" in text
    values = desk.json("show", desk.place, f"{APP}/{STREAM}/s-1/13/0")
    assert (values["payload"], values["key"], values["fence"]) == (13, "b", [4, 1])
    assert "no letter '99/0'" in desk.run("show", desk.place, "99/0", code=2)
    assert "several letters '0'" in desk.run("show", desk.place, "0", code=2)


def test_redrive_gives_a_consumer_with_a_model_typed_changes(desk: Desk) -> None:
    (desk.folder / "billing.py").write_text(TYPED)
    stream = "dynamodb/users"
    desk.table.create_header(Header(APP, stream, CREATED, TRIM_HORIZON))
    desk.table.swap_row(replace(lease_row("s-1", after(100)), stream_name=stream), None)
    box = FolderOfLetters(str(desk.folder / "letters"), Origin(APP, stream))
    batch = ShardBatch("s-1", Fence(4, 1), changes('{"id":{"S":"ada"}}'))
    box.write(batch, "ValueError: no such account", hash_key="id")
    leased = ("--app", APP, "--lease-table", desk.address)
    stream_option = ("--stream", "dynamodb://users")
    desk.run("redrive", desk.place, "billing:Billing", *stream_option, *leased, "--yes")
    assert desk.processed == ["ada"]


@pytest.mark.case("R-01")
def test_redrive_processes_in_order_and_unparks(desk: Desk) -> None:
    text = desk.redrive("--yes")
    assert "process 4 letters of 2 keys\nunpark 1 keys" in text
    assert "4 letters processed · 1 keys unparked" in text
    assert desk.processed == ["a10 5", "a11 5", "a12 5", "b13 5"]
    assert parked_keys(desk.table) == []
    assert rows_of(desk.table)["s-1"].lease_owner is None
    assert desk.run("list", desk.place) == "no letters\n"
    assert "nothing to do" in desk.redrive("--yes")


@pytest.mark.case("R-01")
def test_what_fails_again_stays_and_is_said(desk: Desk) -> None:
    (desk.folder / "still-broken").touch()
    text = desk.redrive("--yes", code=1)
    assert f"failed again: {APP}/{STREAM}/s-1/10/0: ValueError: no such account" in text
    assert "1 letters processed · 3 still wait" in text
    assert parked_keys(desk.table) == [("s-1", "a")]
    (desk.folder / "still-broken").unlink()
    values = json.loads(desk.redrive("--yes", "--json"))
    assert (values["processed"], values["unparked"], values["failed"]) == (3, ["a"], {})
    assert desk.processed == ["b13 5", "a10 6", "a11 6", "a12 6"]


def test_a_dry_run_does_nothing(desk: Desk) -> None:
    before = rows_of(desk.table)
    text = desk.redrive("--dry-run")
    assert "would process 4 letters of 2 keys" in text
    assert "would hold meanwhile: s-1" in text
    values = json.loads(desk.redrive("--dry-run", "--json"))
    assert values == {
        "done": False, "letters": 4, "keys": 2, "parked_keys": 1, "shards": ["s-1"],
    }  # fmt: skip
    assert (rows_of(desk.table), desk.processed) == (before, [])
    assert parked_keys(desk.table) == [("s-1", "a")]


def test_without_a_confirmation_nothing_is_done(desk: Desk) -> None:
    before = rows_of(desk.table)
    desk.redrive(code=1)
    assert (rows_of(desk.table), desk.processed) == (before, [])


def test_only_the_named_keys(desk: Desk) -> None:
    assert "1 letters processed" in desk.redrive("--yes", "--key", "b")
    assert desk.processed == ["b13 5"]


def test_letters_of_other_apps_and_streams_are_left_alone(desk: Desk) -> None:
    for origin in (Origin("other", STREAM), Origin(APP, "other")):
        box = FolderOfLetters(str(desk.folder / "letters"), origin)
        box.write(ShardBatch("s-1", Fence(4, 1), page(("z", 1))), "odd")
    desk.redrive("--yes")
    assert desk.json("list", desk.place)["letters"] == 2


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (["list", "letters"], "is no place for dead letters: write"),
        (["redrive", "{place}", "nothing:Here", "{leased}"], "there is no nothing"),
    ],
)
def test_a_mistake_is_one_line(desk: Desk, typed: list[str], line: str) -> None:
    leased = f"--stream kinesis://{STREAM} --app {APP} --lease-table {desk.address}".split()
    words = [
        word
        for part in typed
        for word in (leased if part == "{leased}" else [part.format(place=desk.place)])
    ]
    text = desk.run(*words, code=2)
    assert line in text
    assert len(text.splitlines()) == 1


def test_an_app_without_leases_is_said(desk: Desk) -> None:
    leased = ("--stream", f"kinesis://{STREAM}", "--app", "nobody", "--lease-table", desk.address)
    text = desk.run("redrive", desk.place, "billing:Billing", *leased, code=2)
    assert "there are no leases of 'nobody'" in text
