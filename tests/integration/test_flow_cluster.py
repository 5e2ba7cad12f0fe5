"""The flow of the demo on a cluster of two workers, of which one is killed while it works; `towpath run` drives it.

The executors find the flow's code and a module beside its file, and write to tables and files of this machine.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import TOWPATH
from tests.support.logs import everything

import towpath
from towpath.demo.shop import FATES, TOPIC, ExpectedFate, ShopEventKind, shop_events
from towpath.flow.failures import ErrorCode
from towpath.flow.records.errors import ErrorRecord
from towpath.flow.worker.breadcrumb import SUFFIX
from towpath.log import Log
from towpath.runtime import Runtime
from towpath.stack.spark_cluster import SparkCluster
from towpath.testing import servers
from towpath.testing.clock import wait_until

pytestmark = pytest.mark.part("flows")

COUNT, BATCH = 4_000, 2_000
WAIT_S = 180

FLOW = """
from pathlib import Path

import beside
from towpath import files, table
from towpath.demo.shop import shop

HERE = Path(__file__).parent
COLUMNS = {"order_id": "bigint", "points": "bigint"}
flow = shop([("table", table("sales", url=f"sqlite:///{HERE}/shop.db", columns=COLUMNS)),
             ("files", beside.known(files(HERE / "files" / "{type}")))])
"""
# A sink of another class, which a worker can make only where it finds this module.
BESIDE = """
from dataclasses import fields

from towpath.flow.sinks.files.sink import FilesSink


class Known(FilesSink):
    pass


def known(sink):
    return Known(**{each.name: getattr(sink, each.name) for each in fields(sink)})
"""


@pytest.fixture
def cluster() -> Iterator[SparkCluster]:
    """Of its own: the others need theirs whole."""
    with servers.spark_cluster(workers=2, cores=1, memory="1g") as made:
        yield made


@pytest.fixture
def runtime(cluster: SparkCluster, tmp_path: Path) -> Iterator[Runtime]:
    settings: dict[str, Any] = {
        "database": {"url": f"sqlite:///{tmp_path}/towpath.db"},
        "spark": {"master": cluster.url, "executor_memory": "512m"},
        "flow": {"directory": f"{tmp_path}/flows", "max_batch_records": BATCH},
    }
    lines = [
        line
        for section, values in settings.items()
        for line in (f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items()))
    ]
    (tmp_path / "towpath.toml").write_text("\n".join(lines))
    (tmp_path / "flow.py").write_text(FLOW)
    (tmp_path / "beside.py").write_text(BESIDE)
    with towpath.connect(**settings) as made:
        yield made


def working(cluster: SparkCluster, home: Path) -> list[int]:
    """The Python workers that are in the middle of a task, on the cluster's first worker."""
    try:
        noted = {int(path.stem.rpartition("-")[2]) for path in (home / "flows").rglob(f"*{SUFFIX}")}
    except FileNotFoundError:  # a directory was renamed or deleted while this looked: it looks again
        return []
    return [pid for pid in noted if cluster.workers[0].pid in ancestors(pid)]


def ancestors(pid: int) -> list[int]:
    """Who has started it, and who those; none when it has ended."""
    found: list[int] = []
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return []
        found.append(pid)
    return found


@pytest.mark.timeout(400)
def test_a_worker_killed_in_the_middle(cluster: SparkCluster, runtime: Runtime, tmp_path: Path) -> None:
    fates = send(runtime.log)
    with (tmp_path / "run.log").open("wb") as said:
        command = [*TOWPATH, "run", "flow.py", "--until-idle"]
        with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=said, stderr=said) as run:
            try:
                wait_until(lambda: working(cluster, tmp_path) or run.poll() is not None, WAIT_S, "a task at work")
                cluster.workers[0].kill()
                assert run.poll() is None, (tmp_path / "run.log").read_text()
                assert run.wait(WAIT_S) == 0, (tmp_path / "run.log").read_text()
            finally:
                run.kill()
    assert errors(runtime.log) == {place: fate.code for place, fate in fates.items() if fate.code is not None}
    assert in_table(tmp_path) == loaded()
    assert in_files(tmp_path) == loaded()
    command = [*TOWPATH, "audit", "shop", "--deep", "flow.py", "--json"]
    audit = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=WAIT_S, check=True).stdout)
    assert audit["problems"] == []
    assert (audit["is_balanced"], audit["arrived"]) == (True, COUNT)
    assert {each["output"]: each["proof"] for each in audit["outputs"]} == {"table": "proven", "files": "proven"}


def send(log: Log) -> dict[tuple[int, int], ExpectedFate]:
    """All events; what must become of each of them, by partition and offset."""
    log.create_topic(TOPIC, 2)
    events = list(shop_events(COUNT))
    places = log.append(TOPIC, [record for _, record in events])
    return {place: FATES[kind] for place, (kind, _) in zip(places, events, strict=True)}


def errors(log: Log) -> dict[tuple[int, int], ErrorCode]:
    read = (ErrorRecord.read(record) for record in everything(log, "shop.errors"))
    return {(each.partition, each.offset): each.failure.code for each in read}


def loaded() -> list[int]:
    """The numbers of the events that must be in both sinks, from the events themselves."""
    values = (record.value or b"" for kind, record in shop_events(COUNT) if FATES[kind].place == "loaded")
    return sorted(json.loads(value)["order_id"] for value in values)


def in_table(home: Path) -> list[int]:
    with sqlite3.connect(home / "shop.db") as connection:
        found = [number for (number,) in connection.execute("select order_id from sales order by 1")]
    connection.close()
    return found


def in_files(home: Path) -> list[int]:
    """Less those that the table has refused: an output does not wait for what another one refuses."""
    refused = {number for number, (kind, _) in enumerate(shop_events(COUNT)) if kind is ShopEventKind.UNHOLDABLE}
    found = [path for path in (home / "files").rglob("*.jsonl") if not path.name.startswith(".")]
    numbers = [json.loads(line)["order_id"] for path in found for line in path.read_text().splitlines()]
    return sorted(number for number in numbers if number not in refused)
