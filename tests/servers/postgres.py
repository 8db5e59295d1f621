"""A PostgreSQL server of our own, in a folder that is thrown away."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from tests.servers.process import Launch, ServerFailed, ServerMissing, running

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Database:
    """A running database: its name, and the address to connect to."""

    name: str
    dsn: str


@contextmanager
def postgresql() -> Iterator[Database]:
    """Run PostgreSQL on loopback, without a password and without fsync."""
    programs = _programs()
    user = _unprivileged_user()
    with tempfile.TemporaryDirectory(prefix="shardline-postgresql-") as folder:
        data = Path(folder, "data")
        if user is not None:
            shutil.chown(folder, user)
        _make_cluster(programs, data, user)
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": "200",
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]

        def launch(port: int) -> Launch:
            command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), *options]
            # SIGQUIT ends it at once, and still gives its shared memory back.
            return Launch(command, folder=Path(folder), user=user, stop_signal=signal.SIGQUIT)

        with running("PostgreSQL", launch, _accepts) as port:
            yield Database("PostgreSQL", _dsn(port))


def _dsn(port: int) -> str:
    return f"postgresql://shardline@127.0.0.1:{port}/postgres"


def _accepts(port: int) -> bool:
    try:
        psycopg.connect(_dsn(port), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _programs() -> Path:
    """The folder of the newest PostgreSQL here; Debian keeps its server programs off the PATH."""
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    folders = [
        *Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        *Path("/opt/homebrew/opt").glob("postgresql*/bin/initdb"),
    ]
    if not folders:
        raise ServerMissing("PostgreSQL is not installed; on Debian: `apt-get install postgresql`")
    return max(folders, key=lambda path: (len(str(path)), str(path))).parent


def _unprivileged_user() -> str | None:
    """Whom to run as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _make_cluster(programs: Path, data: Path, user: str | None) -> None:
    made = subprocess.run(
        [
            *(str(programs / "initdb"), "-D", str(data), "-U", "shardline"),
            *("-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=data.parent,
        user=user,
        group=None if user is None else pwd.getpwnam(user).pw_gid,
        extra_groups=None if user is None else [],
    )
    if made.returncode != 0:
        raise ServerFailed(f"initdb failed: {made.stderr[-2000:]}")
