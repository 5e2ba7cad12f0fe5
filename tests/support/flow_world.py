"""A flow that is moved by hand: no Spark, but the real log, ledger and rows, as a run would have left them."""

from __future__ import annotations

from typing import Any

from towpath.flow.delivery.ids import batch_hash
from towpath.flow.delivery.ledger import Batch, Ledger
from towpath.flow.delivery.positions import OffsetRange, Positions
from towpath.flow.failures import ErrorCode
from towpath.flow.stage import StageMachine, StageState, StageTrouble, move_event
from towpath.flow.stage.store import StageRow, StageStore
from towpath.flow.topics import FlowTopics
from towpath.log import NewRecord
from towpath.runtime import Runtime

FLOW, TOPIC = "shop", "orders"
COUNTS: dict[str, Any] = {
    "read": 10,
    "loaded": 7,
    "filtered": {"wanted": 1},
    "failed": {"7": 2},
    "delivered": {"docs": 7},
}


def topology(topic: str = TOPIC) -> dict[str, Any]:
    """As the row of a stage has it."""
    source = {"name": topic, "kind": "source", "topics": [topic], "inputs": [], "duplicates": "refuse"}
    step = {"name": "wanted", "kind": "step", "inputs": [topic], "expectations": {"some": "n > 0"}, "takes": ""}
    output = {"name": "docs", "input": "wanted", "sink": "index docs", "id": None}
    return {"topics": [topic], "steps": [source, step], "outputs": [output]}


class FlowWorld:
    """One stage of one partition, run by this process."""

    def __init__(self, runtime: Runtime, flow: str = FLOW, topic: str = TOPIC) -> None:
        self.runtime = runtime
        self.flow, self.topic = flow, topic
        self.me = runtime.process().id
        self.stages = StageStore(runtime.database)
        self.ledger = Ledger(runtime.database, self.me)
        self.batches = 0
        self.position = 0
        runtime.log.create_topic(topic, 1)
        FlowTopics.of(flow).ensure(runtime.log, 1)
        reentry = FlowTopics.of(flow).reentry
        topics = {name: [runtime.log.topic(name).id] for name in (topic, reentry)}
        starting = Positions.of(OffsetRange(name, ids[0], 0, 0, 0) for name, ids in topics.items())
        with runtime.database.transaction() as tx:
            self.stages.ensure(tx, flow, topic, topology(topic))
            before = self.stages.take(tx, flow, topic, self.me)
            self.stages.save_machine(tx, flow, topic, self.me, before.machine.started(runtime.database.now()))
            self.stages.new_generation(tx, before, self.me, checkpoint="/c", starting=starting, topics=topics)

    def send(self, *values: bytes | None, key: bytes | None = None, **said: Any) -> None:
        self.runtime.log.append(self.topic, [NewRecord(value, key, **said) for value in values])

    def batch(self, counts: dict[str, Any] | None = None, *, records: int = 10, commits: bool = True) -> Batch:
        """One more, of so many records that are in the topic."""
        start, stop = self.position, self.position + records
        positions = Positions.of([OffsetRange(self.topic, self.runtime.log.topic(self.topic).id, 0, start, stop)])
        which = (self.flow, self.topic, 1, self.batches)
        hash = batch_hash(*which, positions)
        with self.runtime.database.transaction() as tx:
            made = self.ledger.snapshot(tx, *which, hash, positions)
            if commits:
                timings = {"total_s": 1.25}
                made = self.ledger.commit(tx, *which, counts=counts or COUNTS, digests={}, timings=timings)
        self.batches += 1
        self.position = stop
        return made

    def sample(self, **said: Any) -> None:
        """As the stage writes down how far it is."""
        end = self.runtime.log.ends(self.topic)[0]
        lag = end - self.position
        part = {"topic": self.topic, "partition": 0, "position": self.position, "end": end, "lag": lag, "rate": 2.5}
        with self.runtime.database.transaction() as tx:
            told = {"partitions": [part], "lag": lag, "rate": 2.5, **said}
            self.stages.save_sample(tx, self.flow, self.topic, self.me, told)

    def move(self, state: StageState, **said: Any) -> StageMachine:
        """Whatever the state was, with an event as for a move that people ask about."""
        now = self.runtime.database.now()
        after = StageMachine(state, now, **said)
        with self.runtime.database.transaction() as tx:
            before = self.stages.read(tx, self.flow, self.topic).machine
            self.stages.save_machine(tx, self.flow, self.topic, self.me, after)
            self.runtime.event_log.record(tx, move_event(self.flow, self.topic, before, after))
        return after

    def trouble(self, message: str = "no answer", code: ErrorCode = ErrorCode.SINK_UNAVAILABLE) -> StageTrouble:
        return StageTrouble(code, "docs", message, self.runtime.database.now())

    def stage(self) -> StageRow:
        with self.runtime.database.read() as tx:
            return self.stages.read(tx, self.flow, self.topic)
