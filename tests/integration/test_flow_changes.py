"""A flow that is run again after its file was changed: what is announced, what is refused, and where it goes on."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.support.flows import World

from towpath import Flow, table, topic
from towpath.core.events import EventKind
from towpath.errors import SinkError
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.sink import NullSink, WriterContext
from towpath.flow.sinks.template import Template
from towpath.flow.stage import StageState
from towpath.flow.stage.comparison import FlowComparer
from towpath.flow.stage.states import StageCommandKind
from towpath.flow.stage.store import StageStore
from towpath.testing.clock import wait_until

DONE = {"clicks": StageState.STOPPED}


def sink(world: World, name: str) -> Any:
    return table(name, url=f"sqlite:///{world.home}/out.db", id="{n}")


def written(world: World, name: str) -> Counter[int]:
    with sqlite3.connect(world.home / "out.db") as connection:
        return Counter(row[0] for row in connection.execute(f"select cast(id as integer) from {name}"))


def deliveries(world: World, name: str) -> int:
    with sqlite3.connect(world.home / "out.db") as connection:
        [(count,)] = connection.execute(f"select count(distinct delivery_id) from {name}")
    return int(count)


def told(world: World) -> list[str]:
    """What was announced since the last look."""
    found = [text for e in world.events if e.kind is EventKind.FLOW_CHANGED for text in e.data["changes"]]
    world.events.clear()
    return found


def numbers(start: int, stop: int) -> list[dict[str, int]]:
    return [{"n": n} for n in range(start, stop)]


def ask_reset(world: World, stage: str) -> None:
    database = world.runtime.database
    with database.transaction() as tx:
        StageStore(database).ask(tx, "f", stage, StageCommandKind.RESET, "me", "anew", {"to": "latest"})


def halted_because(world: World, stage: str) -> str:
    database = world.runtime.database
    with database.read() as tx:
        return StageStore(database).read(tx, "f", stage).machine.reason


def test_a_changed_flow_goes_on_where_it_was(embedded: World) -> None:
    """New output, declared renames, a topic more, an undeclared one: one life of a flow."""
    world = embedded
    world.send("clicks", numbers(0, 5))
    flow = Flow("f")
    flow.load(topic("clicks"), sink(world, "one"), name="one")
    assert world.run(flow) == DONE
    assert told(world) == []

    world.send("clicks", numbers(5, 8))
    flow = Flow("f", version="2")
    clicks = flow.source(topic("clicks"))
    flow.load(clicks, sink(world, "one"), name="first", name_before="one")
    flow.load(clicks, sink(world, "two"), name="two")
    assert world.run(flow) == DONE
    assert (written(world, "one"), written(world, "two")) == (Counter(range(8)), Counter(range(5, 8)))
    renamed, new, version = told(world)
    assert {"one", "first"} <= set(renamed.split())
    assert "two" in new
    assert "2" in version

    world.send("clicks", numbers(8, 10))
    world.send("visits", numbers(10, 12))
    flow = Flow("f", version="2")
    both = flow.source(topic("clicks", "visits"), name="clicks")
    flow.load(both, sink(world, "one"), name="first", name_before="one")
    assert world.run(flow) == {"clicks+visits": StageState.HALTED}
    assert "flow.renamed('clicks', 'clicks+visits')" in halted_because(world, "clicks+visits")
    assert written(world, "one") == Counter(range(8))

    world.events.clear()
    flow.renamed("clicks", "clicks+visits")
    [compared] = FlowComparer(world.runtime.database, world.runtime.log, flow).all()
    assert (compared.stage, compared.refused, compared.has_run) == ("clicks", None, True)
    assert "visits" in compared.changes[1]
    assert world.run(flow) == DONE
    assert written(world, "one") == Counter(range(12))
    assert deliveries(world, "one") == 12
    renamed, more, gone = told(world)
    assert "clicks+visits" in renamed
    assert "visits" in more
    assert "two" in gone
    assert {batch.generation for batch in world.batches(flow)} == {1, 2}


def test_a_topic_that_is_read_no_more_is_told_and_not_waited_for(embedded: World) -> None:
    world = embedded
    world.send("clicks", numbers(0, 5))
    world.send("visits", numbers(5, 6))
    flow = Flow("f")
    flow.load(topic("clicks"), sink(world, "one"), name="one")
    flow.load(topic("visits"), sink(world, "two"), name="two")
    assert set(world.run(flow).values()) == {StageState.STOPPED}

    world.send("visits", numbers(6, 9), 1)
    flow = Flow("f")
    flow.load(topic("clicks"), sink(world, "one"), name="one")
    assert world.run(flow) == DONE
    [text] = told(world)
    assert "visits/" in text
    assert world.run(flow) == DONE
    assert told(world) == []

    # It comes back, and another stage takes it over: only when somebody says how.
    flow = Flow("f")
    flow.load(topic("clicks", "visits"), sink(world, "one"), name="one")
    flow.renamed("clicks", "clicks+visits")
    assert world.run(flow) == {"clicks": StageState.HALTED}
    assert "visits" in halted_because(world, "clicks")
    ask_reset(world, "clicks")
    world.send("visits", numbers(9, 10), 1)
    assert world.run(flow) == DONE
    assert written(world, "one") == Counter(range(5))  # to the latest: that was asked


@dataclass(frozen=True)
class Away(NullSink):
    """A sink that is there when the stage is configured, and away when it writes."""

    def writer(self, place: WriterContext) -> NullSink:
        raise SinkError(ErrorCode.SINK_UNAVAILABLE, "away", "nobody is there")


def test_what_is_open_is_finished_as_it_was_begun(embedded: World) -> None:
    """Exactly once: outputs may have a part of the batch."""
    world = embedded
    world.send("clicks", numbers(0, 5))
    flow = Flow("f", delivery="exactly-once")
    flow.load(topic("clicks"), Away(Template("a"), None, None), name="one")
    run = world.open(flow)
    run.start()
    wait_until(lambda: any(view.machine.state is StageState.RETRY for view in run.views()), 60)
    run.stop()
    assert run.wait() == DONE

    changed = Flow("f", delivery="exactly-once")
    changed.load(topic("clicks"), sink(world, "one"), name="one")
    assert world.run(changed) == {"clicks": StageState.HALTED}
    why = halted_because(world, "clicks")
    assert "batch 0 " in why
    assert "towpath flow reset f clicks" in why
    assert told(world) == []

    ask_reset(world, "clicks")
    world.send("clicks", numbers(5, 7))
    assert world.run(changed) == DONE
    assert any("one" in text.split() for text in told(world))
