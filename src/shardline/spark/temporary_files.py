"""A folder for the temporary files of Spark's driver, which Spark leaves behind when it is killed.

Sockets, shuffle files and extracted libraries go into it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from shardline.consumer.temporary_folder import TemporaryFolder

PREFIX: Final = "shardline-spark-"
_LONGEST_PATH: Final = 60
"""Spark binds sockets in the folder, and a socket's whole path has at most 104 characters."""


class TemporaryFiles(TemporaryFolder):
    """The folder of one run."""

    def __init__(self) -> None:
        """Make the folder, after those of runs that are over have been deleted."""
        super().__init__(PREFIX)

    def java_options(self) -> str:
        """Return the option that makes the JVM use the folder."""
        return f"-Djava.io.tmpdir={self.path}" if len(str(self.path)) <= _LONGEST_PATH else ""

    @contextmanager
    def for_python(self) -> Iterator[None]:
        """Make `tempfile` use the folder meanwhile: PySpark does while it starts the JVM."""
        before = tempfile.tempdir
        tempfile.tempdir = str(self.path)
        try:
            yield
        finally:
            tempfile.tempdir = before
