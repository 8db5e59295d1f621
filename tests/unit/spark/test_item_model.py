"""The option `model` names a class of the user's code."""

from __future__ import annotations

import pytest

import shardline
from shardline.errors import ConfigurationError
from shardline.spark import item_schema
from shardline.spark.item_model import model_named
from shardline.spark.option_names import DYNAMODB_STREAMS, KINESIS
from shardline.spark.options import read_options


class User(shardline.Model):
    class Meta:
        table = "users-of-app"
        stream = ("new", "old")

    id: str = shardline.key()
    age: int


HERE = f"{__name__}:User"


@pytest.mark.req("P-05")
def test_a_model_says_what_an_item_holds_and_in_which_table() -> None:
    assert model_named(HERE) is User
    options = read_options(DYNAMODB_STREAMS, {"model": HERE})
    assert options.item_schema == item_schema(User)
    assert options.connections[0].name == "users-of-app"
    options = read_options(DYNAMODB_STREAMS, {"model": HERE, "tableName": "others"})
    assert options.connections[0].name == "others"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"model": "User"}, "option model: 'User' names no class"),
        ({"model": "no.such.module:User"}, "option model: no.such.module cannot be imported"),
        ({"model": f"{__name__}:Nobody"}, "is no shardline.Model"),
        ({"model": f"{__name__}:HERE"}, "is no shardline.Model"),
        ({"model": HERE, "itemSchema": "id STRING"}, "give model or itemSchema, not both"),
    ],
)
def test_a_mistake_is_one_line(given: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigurationError, match=line) as error:
        read_options(DYNAMODB_STREAMS, {"tableName": "users"} | given)
    assert "\n" not in str(error.value)


def test_records_of_kinesis_have_no_model() -> None:
    with pytest.raises(ConfigurationError, match="no option model"):
        read_options(KINESIS, {"streamName": "orders", "model": HERE})
