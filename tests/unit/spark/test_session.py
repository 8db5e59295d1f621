"""The settings of a Spark session."""

from __future__ import annotations

import pytest

from shardline.spark.session import settings_for


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,4]"])
def test_a_local_master_binds_to_loopback(master: str) -> None:
    settings = settings_for(master, {})
    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"


def test_the_driver_of_a_cluster_can_be_reached_by_its_executors() -> None:
    assert not {"spark.driver.bindAddress", "spark.driver.host"} & set(
        settings_for("spark://host:7077", {})
    )


def test_settings_of_the_user_are_above_ours() -> None:
    settings = settings_for("local", {"spark__driver__host": "10.0.0.1", "spark__x": "y"})
    assert settings["spark.driver.host"] == "10.0.0.1"
    assert settings["spark.x"] == "y"
