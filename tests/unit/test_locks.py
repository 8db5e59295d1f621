"""The locks fit pyproject.toml: what a fresh checkout installs is what the code asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def locked(name: str) -> dict[str, list[str]]:
    """Every package of a lock with its versions: one, or one for each kind of Python."""
    versions: dict[str, list[str]] = {}
    text = (ROOT / "locks" / name).read_text(encoding="utf-8")
    for package, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE):
        versions.setdefault(canonicalize_name(package), []).append(version)
    return versions


def asked_for(project: dict[str, Any], lock: str) -> list[str]:
    groups = project["dependency-groups"]
    if lock != "dev":
        return list(groups[lock])
    facts = project["project"]
    extras = [line for extra in facts["optional-dependencies"].values() for line in extra]
    return [*facts["dependencies"], *extras, *groups["dev"]]


def unmet(lines: list[str], versions: dict[str, list[str]]) -> list[str]:
    requirements = [Requirement(line) for line in lines]
    return [
        str(wanted)
        for wanted in requirements
        if wanted.name != "shardline"
        and not any(
            wanted.specifier.contains(version)
            for version in versions.get(canonicalize_name(wanted.name), [])
        )
    ]


@pytest.mark.parametrize("lock", ["dev", "docs", "fuzz", "java", "node"])
def test_a_lock_has_all_that_pyproject_asks_for(lock: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert unmet(asked_for(project, lock), locked(f"{lock}.txt")) == [], "run `make lock`"


def test_what_is_missing_or_too_old_is_found() -> None:
    versions = {"numpy": ["2.0", "2.1"], "rich": ["12.0"]}
    assert unmet(["numpy>=2.1", "rich>=13", "typer"], versions) == ["rich>=13", "typer"]
