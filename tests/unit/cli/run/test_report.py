"""The lines of `shardline run` go on when there is room on the disk again."""

from __future__ import annotations

import errno
import io

import pytest

from shardline.cli.run.report import Report, first_line


class Broken(io.StringIO):
    """A stream that takes nothing, for a reason."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, _: str) -> int:
        raise OSError(self._number, "not written")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_only_a_line_that_finds_no_place_is_left_out(
    monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    report = Report(as_json=stream == "stdout")
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        monkeypatch.setattr(f"sys.{stream}", Broken(number))
        report.no_status("the disk is full, or the terminal was closed")
    monkeypatch.setattr(f"sys.{stream}", Broken(errno.EBADF))
    with pytest.raises(OSError, match="not written"):
        report.no_status("the stream is closed")


def test_an_error_in_java_is_one_line() -> None:
    class JavaError(Exception):
        class java_exception:  # noqa: N801 - as Py4J names it
            @staticmethod
            def getMessage() -> str:  # noqa: N802 - as Java names it
                return "Cannot call methods on a stopped SparkContext.\nThis stopped …"

    assert first_line(JavaError("An error occurred\n…")) == (
        "Cannot call methods on a stopped SparkContext"
    )
    assert first_line(ValueError("a\nb")) == "a"
