"""A probe writes one record to sinks that have refused it, without a mark: none has it twice afterwards."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.flows import World

from towpath import Flow, table, topic
from towpath.errors import BadFlow
from towpath.flow.failures import ErrorCode
from towpath.flow.run.flow_run import FlowRun
from towpath.flow.run.outage import Probe
from towpath.flow.sinks.sink import Deliveries, NullSink, Refusal, WriterContext
from towpath.flow.sinks.template import Template
from towpath.flow.stage import StageState
from towpath.testing.clock import wait_until

COUNT = 120


class Died(BaseException):
    """As if the process had ended here: nobody handles it."""


@pytest.fixture
def world(embedded: World) -> World:
    embedded.connect(retry_least_s=0.2)
    embedded.send("clicks", [{"n": n} for n in range(COUNT)], partitions=1)
    return embedded


def held(world: World, flow: Flow) -> FlowRun:
    run = world.open(flow)
    run.start(until_idle=True)
    wait_until(lambda: run.views()[0].machine.state is StageState.HELD, 120)
    return run


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_table_has_a_row_once_also_when_the_process_dies_after_the_probe(
    world: World, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.home / "out.db"
    sink = table("out", url=f"sqlite:///{path}", id="{n}" if mode == "upsert" else None)
    sink.check(world.runtime.settings)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create trigger no before insert on out begin select raise(abort, 'not today'); end")
    flow = Flow("f", delivery="exactly-once")
    flow.load(flow.source(topic("clicks")), sink, name="out")
    tried = Probe.fails_still

    def dies(probe: Probe) -> bool:
        if tried(probe):
            return True
        assert count(path) == 1, "the probe has written its record"
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Probe, "fails_still", dies)
        run = held(world, flow)
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            connection.execute("drop trigger no")
        with pytest.raises(Died):
            run.wait()
    world.run(flow)
    with closing(sqlite3.connect(path)) as connection:
        found = [json.loads(text)["n"] for (text,) in connection.execute("select document from out")]
    assert sorted(found) == list(range(COUNT))
    assert world.errors(flow) == []


def count(path: Path) -> int:
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        [(found,)] = connection.execute("select count(*) from out")
    return int(found)


@dataclass(frozen=True)
class Lines:
    """Appends lines to a file, and refuses everything until that is there. What comes twice is there twice."""

    path: Path
    target = Template("lines")
    id = None
    routing = None
    is_idempotent = False
    may_refuse = True

    def check(self, settings: object) -> None:
        pass

    def writer(self, place: WriterContext) -> Lines:
        return self

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        if not self.path.exists():
            every = range(len(deliveries))
            return [Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, "NotToday", "not today") for at in every]
        with self.path.open("ab") as file:
            file.writelines(payload + b"\n" for payload in deliveries.payloads)
        return []

    def finish(self) -> list[Refusal]:
        return []

    def close(self) -> None:
        pass

    def __str__(self) -> str:
        return "lines"


def test_a_sink_that_knows_nothing_again_is_not_probed(world: World) -> None:
    sink = Lines(world.home / "lines")
    flow = Flow("f", delivery="at-least-once")
    flow.load(flow.source(topic("clicks")), sink, name="out")
    run = held(world, flow)
    sink.path.touch()
    run.wait()
    assert sorted(json.loads(line)["n"] for line in sink.path.read_bytes().splitlines()) == list(range(COUNT))


def test_a_flow_with_such_a_sink_is_not_exactly_once() -> None:
    flow = Flow("f")
    flow.load(flow.source(topic("clicks")), Lines(Path("lines")), name="out")
    with pytest.raises(BadFlow, match=r"'f' .*'out'.*at-least-once"):
        flow.stages()
    fine = Flow("f")
    fine.load(fine.source(topic("clicks")), NullSink(Template("a"), None, None), name="out")
    assert len(fine.stages()) == 1
