"""`shardline run` before and after Spark: which consumer, which mistakes, what a failure was."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from shardline.cli.run.consumer import load_consumer
from shardline.consumer.consumer import ShardBatch, ShardConsumer
from shardline.consumer.policies import DeadLetter
from shardline.errors import ConfigurationError
from shardline.spark.consuming import consume, reason_of

if TYPE_CHECKING:
    from pathlib import Path

CONSUMER = """
import shardline

class Billing(shardline.ShardConsumer):
    def process(self, batch):
        pass

ready = Billing()
number = 7
"""

TASK_FAILED = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage \
failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in stage 0.0 \
(TID 0) (localhost executor driver): org.apache.spark.api.python.PythonException: Traceback \
(most recent call last):
  File "/x/worker.py", line 1, in main
    process()
  File "/x/billing.py", line 9, in process
    raise Poison("cannot read this: Error: no")
billing.Poison: cannot read this: Error: no

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
Caused by: java.lang.RuntimeException: SomeError: other
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
CHAINED = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Traceback (most recent call \
last):
  File "/x/a.py", line 1, in f
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/b.py", line 2, in g
shardline.errors.GapError: gap in shardId-1. Records may be lost
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "billing_of_test.py").write_text(CONSUMER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "billing_of_test", raising=False)
    return "billing_of_test"


@pytest.mark.req("K-34")
@pytest.mark.parametrize("name", ["Billing", "ready"])
def test_a_class_or_an_instance_from_the_folder_where_we_are(module: str, name: str) -> None:
    assert type(load_consumer(f"{module}:{name}")).__name__ == "Billing"


@pytest.mark.req("K-16")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("billing", "write MODULE:CONSUMER"),
        (
            "no_such_module:Billing",
            "there is no no_such_module in this folder",
        ),
        ("billing_of_test:Biling", r"billing_of_test has no Biling: did you mean Billing\?"),
        ("billing_of_test:number", "is not a shardline.ShardConsumer: subclass that"),
    ],
)
def test_a_mistake_is_one_line(module: str, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load_consumer(text)


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (TASK_FAILED, "billing.Poison: cannot read this: Error: no"),
        (CHAINED, "shardline.errors.GapError: gap in shardId-1. Records may be lost"),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: full\n\tat x",
            "full",
        ),
    ],
)
def test_a_failure_is_the_consumers_own_error(report: str, reason: str) -> None:
    assert reason_of(report) == reason


class Nothing(ShardConsumer):
    def process(self, batch: ShardBatch) -> None:
        pass


class Misplaced(Nothing):
    failure = DeadLetter("letters")


@pytest.mark.req("K-16")
@pytest.mark.parametrize(
    ("speculation", "consumer", "arguments", "said"),
    [
        ("true", Nothing(), {"app": "a"}, "spark.speculation is on"),
        ("false", Nothing(), {}, "name the app"),
        ("false", Nothing(), {"ephemeral": True, "checkpoint": "/x"}, "remembers nothing"),
        ("false", Misplaced(), {"app": "a"}, "no place for dead letters"),
        ("false", Nothing(), {"app": "a", "start": "yesterday"}, "is no position"),
        ("false", Nothing(), {"app": "a", "lease_table": "postgresql://me:pw@h/d"}, "a password"),
    ],
)
def test_a_consumption_that_cannot_be_says_so_before_spark_is_asked(
    speculation: str,
    consumer: ShardConsumer,
    arguments: dict[str, Any],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings = {"spark.speculation": speculation}
    started = []

    def start() -> Any:
        started.append(SimpleNamespace(conf=SimpleNamespace(get=settings.get)))
        return started[0]

    with pytest.raises(ConfigurationError, match=said):
        consume(start, consumer, stream="kinesis://orders", **arguments)
    assert bool(started) == (speculation == "true"), "Spark takes long to start: check before"
    assert not list(tmp_path.iterdir()), "it leaves nothing behind"
