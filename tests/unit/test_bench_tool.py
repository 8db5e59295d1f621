"""The bench tool itself: figures, fits, the picture, and parts that fail or never end."""

from __future__ import annotations

import os
import sys
import textwrap
import time
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from bench.figures import Figure
from bench.fitting import fit
from bench.plot import draw
from bench.running import run_bench
from bench.tables import targets_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("rounds", "at_most", "met", "times"),
    [
        ((1.0, 4.0, 6.0), False, True, (0.5, 2.0, 3.0)),
        ((1.0, 1.5, 6.0), False, False, (0.5, 0.75, 3.0)),
        ((1.0, 4.0, 8.0), True, False, (0.25, 0.5, 2.0)),
        ((1.0, 2.0, 8.0), True, True, (0.25, 1.0, 2.0)),
    ],
)
def test_a_figure_is_judged_by_its_median(
    rounds: tuple[float, ...], at_most: bool, met: bool, times: tuple[float, float, float]
) -> None:
    figure = Figure("what", "against", rounds, target=2.0, at_most=at_most)
    assert figure.met is met
    assert figure.times_target == times


def test_what_could_not_be_measured_is_neither_met_nor_missed() -> None:
    assert Figure("what", "against", (), target=2.0).met is None


def test_a_straight_line_is_found() -> None:
    points = [(x, 3.0 + 0.002 * x) for x in (100.0, 1_000.0, 10_000.0)]
    figure = fit("cost", points, "µs", "KB", 1_000)
    assert figure.median == pytest.approx(1.0)
    assert figure.note == "3.00 µs + 2.000 µs a KB"


def test_two_sizes_make_no_line() -> None:
    assert fit("cost", [(1.0, 1.0), (2.0, 2.0)], "µs", "KB", 1).rounds == ()


def test_the_picture_is_well_formed_and_shows_every_figure() -> None:
    results = {
        "one": [
            Figure("fast <path>", "others & co", (30.0, 40.0), target=20.0),
            Figure("slow path", "others & co", (0.4, 0.5)),
        ],
        "two": [Figure("failed", "others", (), note="FAILED"), Figure("zero", "", (0.0,), "s")],
    }
    texts = list(ET.fromstring(draw(results, ["here, <today>"])).itertext())  # noqa: S314
    assert texts.count("fast <path> / others & co") == 2  # as a target, and beside others
    assert texts.count("slow path / others & co") == 1
    assert "here, <today>" in texts


def test_a_missed_target_says_what_holds_it_back() -> None:
    missed = Figure("what", "against", (1.0,), target=2.0, held_back="the socket")
    table = targets_of({"one": [missed]}, {"two": "RuntimeError: gone"})
    assert list(table.columns[0].cells) == ["one", "two"]
    assert [*table.columns[-1].cells] == ["[red]MISSED[/red]: the socket", "RuntimeError: gone"]


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which modules are parts of the bench, besides those that there are."""
    (tmp_path / "bench").mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}")
    return tmp_path / "bench"


def write(parts: Path, name: str, body: str) -> None:
    (parts / f"{name}.py").write_text(
        "from bench.figures import Figure, say\n"
        "def figures(*, quick):\n" + textwrap.indent(body, "    ")
    )


def test_a_part_that_works_gives_its_figures_and_tells_how_far_it_is(parts: Path) -> None:
    write(parts, "fake_good", 'say("half")\nreturn [Figure("a", "b", (1.0, 2.0))]\n')
    said: list[str] = []
    outcome = run_bench("fake_good", quick=True, limit_seconds=60, say=said.append)
    assert outcome.error is None
    assert outcome.figures == [Figure("a", "b", (1.0, 2.0))]
    assert said == ["half"]


def test_a_part_that_fails_is_an_error_of_one_line(parts: Path) -> None:
    write(parts, "fake_bad", 'raise RuntimeError("no such jar")\n')
    outcome = run_bench("fake_bad", quick=True, limit_seconds=60, say=lambda _: None)
    assert outcome.error == "RuntimeError: no such jar"
    assert outcome.figures == []


def test_a_part_that_does_not_end_is_stopped_with_all_it_started(parts: Path) -> None:
    pid = parts / "pid"
    child = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    write(
        parts,
        "fake_endless",
        f"import subprocess\nsubprocess.run([{sys.executable!r}, '-c', {child!r}])\n",
    )
    outcome = run_bench("fake_endless", quick=True, limit_seconds=3, say=lambda _: None)
    assert outcome.error == "it was stopped after 3 s"
    with pytest.raises(ProcessLookupError):
        _signal_none(int(pid.read_text()))


def _signal_none(pid: int) -> None:
    for _ in range(100):  # until whoever adopts it has taken note of its end
        os.kill(pid, 0)
        time.sleep(0.05)
