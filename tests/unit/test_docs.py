"""The documentation holds together: links lead somewhere, tables list what the code has."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

import shardline
from shardline.cli import app
from shardline.consumer import status
from shardline.local.faults import KINDS
from shardline.spark import option_names
from tools.cli_reference import reference

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NOT_WRAPPED_YET = {
    *("CHANGELOG.md", "README.md", "docs/consumer.md", "docs/migrating.md", "docs/performance.md"),
    *("docs/spark.md", "docs/streams.md", "docs/testing.md"),
}
NOT_FOR_USERS = {"withFence", "stopFile"}
"""Options that `consume` sets for itself."""


def prose(text: str) -> str:
    """Leave out blocks and pieces of code: nothing in them is a link."""
    return re.sub(r"`[^`\n]*`", "", without_blocks(text))


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Return the anchors that headings get, on code hosts as in the site."""
    titles = re.findall(r"^#+ (.+)$", without_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path, text: str) -> list[str]:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        if not place.exists():
            broken.append(f"{page.name}: nothing at {target}")
        elif anchor and anchor not in anchors(place.read_text(encoding="utf-8")):
            broken.append(f"{page.name}: no heading for {target}")
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title, here\n", encoding="utf-8")
    text = "[a](page.md) [b](#a-title-here) [c](none.md) [d](page.md#none) `[e](none.md)`"
    assert broken_links(page, text) == [
        "page.md: nothing at none.md",
        "page.md: no heading for page.md#none",
    ]


def long_lines(text: str) -> list[str]:
    """Return the lines of 120 columns or more; rows of tables and blocks of code cannot wrap."""
    return [
        line for line in without_blocks(text).split("\n") if len(line) >= 120 and line[0] != "|"
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_fit_on_a_screen(page: Path) -> None:
    if str(page.relative_to(ROOT)) not in NOT_WRAPPED_YET:
        assert long_lines(page.read_text(encoding="utf-8")) == []


def test_a_long_line_is_found() -> None:
    text = f"short\n{'a' * 120}\n| {'b' * 200} |\n```\n{'c' * 200}\n```\n"
    assert long_lines(text) == ["a" * 120]


@pytest.mark.req("C-20")
def test_what_is_not_promised_comes_first() -> None:
    streams = (ROOT / "docs" / "streams.md").read_text(encoding="utf-8")
    opening = streams.split("\n\n")[1]
    assert opening.startswith("**No order is promised between unrelated shards.**")
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        text = " ".join(page.read_text(encoding="utf-8").split())
        assert text.index("no order between unrelated shards") < text.index("|"), page


def test_the_page_of_the_command_line_is_as_the_commands_are() -> None:
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == reference(), "run `make docs`"


def test_every_option_of_the_formats_is_listed() -> None:
    pages = [
        (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("spark.md", "writing.md")
    ]
    listed = set(re.findall(r"^\| `(\w+)` \|", "\n".join(pages), re.MULTILINE))
    known = {name for names in option_names.NAMES.values() for name in names}
    assert known - NOT_FOR_USERS - listed == set()


def test_every_fault_is_listed() -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"| `{kind}` |" not in page] == []


def test_every_metric_is_listed() -> None:
    page = (ROOT / "docs" / "consumer.md").read_text(encoding="utf-8")
    names = [name for name, _ in status._GAUGES.values()]
    names += [f"{name}_total" for name, _ in status._COUNTERS.values()]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_file_that_the_design_names_is_there_and_every_folder_is_named() -> None:
    """Files of a row of the map are relative to the folder that begins the row."""
    source = ROOT / "src/shardline"
    page = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    text, _, code_map = page.partition("## Map of the code")
    named = [(source, path) for path in re.findall(r"`(\w+/[\w/]*(?:\.py)?)`", text)]
    rows = re.findall(r"^\| `([\w/]+/)` \|(.*)$", code_map, re.MULTILINE)
    for folder, row in rows:
        named += [(source / folder, path) for path in re.findall(r"`([\w/]+(?:\.py|/))`", row)]
    missing = [
        f"{folder}/{path}"
        for folder, path in named
        if not (folder / path).exists() and not (ROOT / path).exists()
    ]
    assert missing == []
    folders = {path.parent.name for path in source.glob("*/__init__.py")}
    assert folders - {folder.split("/")[0] for folder, _ in rows} == set()


def unknown_names(source: str) -> list[str]:
    """Return what a piece of Python takes from shardline that is not there."""
    unknown = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shardline"):
            module = import_module(node.module or "")
            unknown += [each.name for each in node.names if not hasattr(module, each.name)]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "shardline":
            unknown += [] if hasattr(shardline, node.attr) else [node.attr]
    return unknown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_piece_of_python_is_python_and_takes_what_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        assert unknown_names(block) == [], block


def test_a_name_that_is_not_there_is_found() -> None:
    assert unknown_names("shardline.stream(1); shardline.strem(1)") == ["strem"]
    assert unknown_names("from shardline.local import Service, Servce") == ["Servce"]


def unknown_options(line: str) -> list[str]:
    """Return the options of a command line that its command does not have."""
    words = re.sub(r"#.*", "", line).partition(" -- ")[0].split()[1:]  # the rest is a program's
    command: Any = typer.main.get_command(app)
    known = {name for parameter in command.params for name in parameter.opts}
    for word in words:
        if word in getattr(command, "commands", {}):
            command = command.commands[word]
    command = getattr(command, "commands", {}).get("show", command)
    known |= {n for each in command.params for n in (*each.opts, *each.secondary_opts)}
    known |= {"--help", "--install-completion"}
    return [word for word in words if word.startswith("--") and word not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_has_the_options_that_a_page_gives_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^shardline .+$", text, re.MULTILINE)
    lines += re.findall(r"`(shardline [^`\n]+)`", text)
    assert [(line, unknown_options(line)) for line in lines if unknown_options(line)] == []


def test_an_option_that_a_command_lacks_is_found() -> None:
    assert unknown_options("shardline run a:B --stream kinesis://a --ap b # --no") == ["--ap"]
    assert unknown_options("shardline leases kinesis://a --app b --dry-run") == ["--dry-run"]
    assert unknown_options("shardline leases release kinesis://a --dry-run --all") == []
