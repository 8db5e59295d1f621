"""Spark: the DataFrame source, and consumers in long-running tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardline.spark.driver.tokens import token_of
from shardline.spark.item_schema import item_schema
from shardline.spark.session import session

if TYPE_CHECKING:
    from shardline.spark.consumers import consume as consume

__all__ = ["consume", "item_schema", "session", "token_of"]


def __getattr__(name: str) -> Any:
    """Import `consume` at first use: a task that only reads rows does not need it."""
    if name == "consume":
        from shardline.spark.consumers import consume

        return consume
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
