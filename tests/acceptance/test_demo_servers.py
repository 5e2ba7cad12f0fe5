"""`towpath demo --kafka --elasticsearch`, for real: the same on real servers, and nothing else there is touched."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.test_demo_shop import TABLE

from towpath.runtime import connect
from towpath.stack.kafka import KafkaServer
from towpath.stack.search import ElasticsearchServer

TIMEOUT_S = 170
_OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy of the shell is not for this machine


def ask(url: str) -> Any:
    with _OPEN.open(url, timeout=30) as answer:
        return json.load(answer)


def topics_of(kafka: KafkaServer, home: Path) -> set[str]:
    with connect(f"sqlite:///{home}/look.db", log={"url": kafka.url}) as runtime:
        return {topic.name for topic in runtime.log.topics()}


def towpath(words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "towpath", *words],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.part("guides")
@pytest.mark.timeout(TIMEOUT_S + 90)  # starts two servers when it is the first to need them
def test_the_same_on_real_servers(kafka: KafkaServer, elasticsearch: ElasticsearchServer, tmp_path: Path) -> None:
    on_kafka = {"TOWPATH_LOG__URL": kafka.url}
    topics, indices = topics_of(kafka, tmp_path), set(ask(f"{elasticsearch.url}/_stats/docs")["indices"])
    words = ["demo", "--kafka", "--elasticsearch-url", elasticsearch.url, "--events", "4000"]
    done = towpath([*words, "--keep", str(tmp_path / "demo")], **on_kafka)
    assert done.returncode == 0, done.stderr
    table, _, rest = done.stdout.lstrip("\n").partition("\n\n")
    assert [line.rstrip() for line in table.splitlines()] == TABLE.strip("\n").splitlines()
    assert rest.startswith("✓ ")
    assert "1,531" in rest

    lines = [line.strip() for line in rest.splitlines()]
    audit = shlex.split(next(line for line in lines if " audit shop-" in line))
    name = audit[-1]
    own = (f"{name}.{of}" for of in ("errors", "reentry", "outcomes", "marks"))
    made = {f"shop-events-{name.removeprefix('shop-')}", *own}
    assert topics_of(kafka, tmp_path) - topics == made
    assert set(ask(f"{elasticsearch.url}/_stats/docs")["indices"]) - indices == {f"{name}-order", f"{name}-view"}

    counted = ask(f"{elasticsearch.url}/{name}-*/_count")["count"]
    assert counted == 1531
    searched = next(shlex.split(line) for line in lines if line.startswith("curl -s"))[-1]
    assert {hit["_source"]["product"] for hit in ask(searched)["hits"]["hits"]} == {"tea"}
    balanced = towpath(audit[1:], **on_kafka)
    assert name in balanced.stdout, balanced.stderr


def test_servers_that_do_not_run(tmp_path: Path) -> None:
    """The line says what to type; nothing is waited for or begun."""
    here = {"TOWPATH_STACK__DIRECTORY": str(tmp_path / "stack")}
    done = towpath(["demo", "--kafka", "--elasticsearch", "--keep", str(tmp_path / "demo")], **here)
    assert done.returncode == 1
    assert "towpath stack up kafka elasticsearch" in done.stderr
    assert not (tmp_path / "demo").exists()

    done = towpath(["demo", "--elasticsearch-url", "http://127.0.0.1:1", "--keep", str(tmp_path / "demo")])
    assert done.returncode == 3
    assert "http://127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
