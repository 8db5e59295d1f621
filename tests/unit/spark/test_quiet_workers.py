"""The replacement of a Spark worker's entry."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from shardline.spark.quiet_workers import end_quietly


def daemon_named(name: str) -> ModuleType:
    def worker(_sock: object, _authenticated: bool) -> int:
        raise BrokenPipeError

    module = ModuleType("__main__")
    module.__spec__ = SimpleNamespace(name=name)  # type: ignore[assignment]
    module.worker = worker  # type: ignore[attr-defined]
    return module


def test_a_worker_whose_socket_is_closed_ends_without_a_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemon = daemon_named("pyspark.daemon")
    monkeypatch.setitem(sys.modules, "__main__", daemon)
    end_quietly.cache_clear()
    end_quietly()
    assert daemon.worker(None, True) == 1


def test_workers_of_our_own_daemon_end_without_a_trace_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark = daemon_named("pyspark.daemon")
    monkeypatch.setitem(sys.modules, "__main__", daemon_named("shardline.spark.worker_daemon"))
    monkeypatch.setitem(sys.modules, "pyspark.daemon", spark)
    end_quietly.cache_clear()
    end_quietly()
    assert spark.worker(None, True) == 1


def test_another_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    program = daemon_named("pytest")
    monkeypatch.setitem(sys.modules, "__main__", program)
    end_quietly.cache_clear()
    end_quietly()
    with pytest.raises(BrokenPipeError):
        program.worker(None, True)
