"""What a Spark session is started with."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from towpath.errors import BadSettings, SparkFailed
from towpath.settings import SparkSettings
from towpath.spark.cluster import addresses, check_reachable, is_on_this_host
from towpath.spark.session import check_settings, properties


def test_local_session_stays_on_this_machine() -> None:
    made = properties(SparkSettings(master="local[2]", memory="3g"), "name")
    assert made["spark.master"] == "local[2]"
    assert made["spark.app.name"] == "name"
    assert made["spark.driver.memory"] == "3g"
    assert made["spark.driver.host"] == made["spark.driver.bindAddress"] == "127.0.0.1"
    assert made["spark.ui.enabled"] == "false"
    assert made["spark.pyspark.python"] == made["spark.pyspark.driver.python"] == sys.executable
    assert made["spark.sql.session.timeZone"] == "UTC"
    assert not {"spark.executor.memory", "spark.jars"} & set(made)


def test_session_on_a_cluster_is_reached_by_its_executors() -> None:
    made = properties(SparkSettings(master="spark://far:7077", executor_memory="2g"), "name")
    assert made["spark.executor.memory"] == "2g"
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.sql.shuffle.partitions"} & set(made)


def test_own_properties_overrule() -> None:
    conf = {"spark.sql.shuffle.partitions": "9", "spark.pyspark.python": "/opt/python", "spark.jars.packages": "a:b:1"}
    made = properties(SparkSettings(master="local", conf=conf), "name", [Path("/j/k.jar")])
    assert {key: made[key] for key in conf} == conf
    assert made["spark.jars"] == "/j/k.jar"


def test_own_jars_and_java_options_join() -> None:
    conf = {
        "spark.jars": "/mine.jar,/other.jar",
        "spark.driver.defaultJavaOptions": "-Dmine=1",
        "spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=/mine.properties",
    }
    made = properties(SparkSettings(conf=conf, log_level="warn"), "name", [Path("/j/a.jar"), Path("/j/b.jar")])
    assert made["spark.jars"] == "/j/a.jar,/j/b.jar,/mine.jar,/other.jar"
    assert made["spark.driver.extraJavaOptions"] == conf["spark.driver.extraJavaOptions"]
    assert "-Dtowpath.spark.level=warn" in made["spark.driver.defaultJavaOptions"]
    assert made["spark.driver.defaultJavaOptions"].endswith(" -Dmine=1")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"conf": {"spark.submit.deployMode": "cluster"}}, "deployMode"),
        ({"conf": {"spark.remote": "sc://host"}}, "Spark Connect"),
        ({"conf": {"spark.api.mode": "connect"}}, "Spark Connect"),
        ({"conf": {"spark.master": "local"}}, "spark.master"),
        ({"master": "yarn", "ui": True}, "network"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(BadSettings, match=text):
        check_settings(SparkSettings.model_validate(settings))


def test_spark_connect_by_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(BadSettings, match="SPARK_REMOTE"):
        check_settings(SparkSettings())


@pytest.mark.parametrize(
    ("master", "is_here"),
    [
        ("local", True),
        ("local[*]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://[::1]:7077", True),
        ("spark://127.0.0.1:7077,10.0.0.2:7077", False),
        ("spark://far:7077", False),
        ("yarn", False),
        ("k8s://https://localhost:6443", False),
    ],
)
def test_executors_on_this_host_are_known_by_the_master(master: str, is_here: bool) -> None:
    assert is_on_this_host(master) is is_here


def test_masters_are_taken_apart() -> None:
    assert addresses("spark://one:1,[::1]:2,three") == [("one", 1), ("::1", 2), ("three", 7077)]


def test_one_master_that_answers_is_enough_and_none_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_reachable(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(SparkFailed, match=r"spark://127.0.0.1:1 "):
        check_reachable("spark://127.0.0.1:1")
