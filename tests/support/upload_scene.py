"""A flow that is moved by hand, for what happens to uploads beside it: no Spark, but the real ledger, log and files.

The flow reads `orders` and writes `orders.priced`, which its second stage reads. Both load the query `seen`; `all` is
computed at the end of the upload from what the first one has collected.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.uploads import open_upload, send_input

import towpath
from towpath import Flow, collect, result, topic
from towpath.desk.record_queries import UploadReplays
from towpath.errors import UnknownTopic
from towpath.flow.delivery.ids import batch_hash
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.delivery.positions import OffsetRange, Positions
from towpath.flow.graph.nodes import ClosingStep
from towpath.flow.stage.store import StageStore
from towpath.gateway.completion.closer import Closer
from towpath.gateway.completion.job import ClosingJob, CollectedRows
from towpath.gateway.completion.plan import ClosingPlan
from towpath.gateway.completion.tracker import PassTracker
from towpath.gateway.janitor import UploadJanitor
from towpath.gateway.outlet.store import COLLECTED, RESULTS, CommittedFiles, lines_name, stage_directory, uploads_root
from towpath.runtime import Runtime
from towpath.testing.clock import SettableClock

FLOW, STREAM, FIRST, SECOND, ME = "shop", "orders", "orders", "orders.priced", "me"


def sections(home: Path, *, wait_for_replays_s: float | None = None, **gateway: Any) -> dict[str, Any]:
    stream = {
        "flow": FLOW,
        "results": ["seen", "all"],
        "inputs": {STREAM: {"partitions": 1}},
        "wait_for_replays_s": wait_for_replays_s,
    }
    told = {"directory": str(home / "uploads"), "streams": {STREAM: stream, "plain": {}}, **gateway}
    return {"gateway": told, "log": {"url": f"sqlite:///{home}/log.db"}}


def shop() -> Flow:
    flow = Flow(FLOW)
    first, second = flow.source(topic(FIRST)), flow.source(topic(SECOND))
    flow.load(first, topic(SECOND))
    flow.load(first, result("seen"), name="seen")
    flow.load(first, collect("orders", schema="n int"))
    flow.load(second, result("seen"), name="seen later")
    flow.at_end(STREAM, result="all", collected="orders")(lambda orders: orders)
    return flow


class PlainJob(ClosingJob):
    """Does what Spark would do with so simple a step, and writes files as Spark does."""

    def __init__(self) -> None:
        super().__init__(lambda: None)  # type: ignore[arg-type, return-value]
        self.runs = 0
        self.error: Exception | None = None

    @property
    def is_possible(self) -> bool:
        return True

    def _write(self, step: ClosingStep, collected: Sequence[CollectedRows], aside: Path) -> None:
        self.runs += 1
        if self.error is not None:
            raise self.error
        lines = [line for each in collected for path in each.paths for line in path.read_bytes().splitlines(True)]
        aside.mkdir(parents=True)
        (aside / "part-00000-x-c000.txt").write_bytes(b"")
        (aside / "part-00001-x-c000.txt").write_bytes(b"".join(sorted(lines)))
        (aside / "_SUCCESS").write_bytes(b"")


class Scene:
    """The flow, its stages and what runs beside them."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.root = uploads_root(runtime.settings)
        self.job = PlainJob()
        self.clock = SettableClock()
        self.stages = StageStore(runtime.database)
        self.ledger = Ledger(runtime.database, ME)
        streams = runtime.gateway.streams
        self.plan = ClosingPlan.of(shop(), streams.of_flow(FLOW))
        common = (runtime.database, lambda: runtime.log, runtime.events, runtime.event_log)
        remove_given_up = partial(CommittedFiles(runtime.database).remove_given_up, self.root, runtime.database, FLOW)
        self.passing = PassTracker(self.plan, *common, remove_given_up)
        self.replays = UploadReplays(runtime.database, lambda: runtime.log)
        self.closer = Closer(
            self.plan,
            self.root,
            runtime.database,
            runtime.events,
            runtime.event_log,
            self.job,
            self.replays.are_under_way,
            clock=self.clock,
        )
        self.janitor = UploadJanitor(self.root, runtime.settings.gateway, *common)

    @classmethod
    def begun(cls, runtime: Runtime) -> Scene:
        """With its topics, and both stages at their beginning."""
        scene = cls(runtime)
        for name in (FIRST, SECOND):
            try:
                runtime.log.topic(name)
            except UnknownTopic:
                runtime.log.create_topic(name, 1)
            with runtime.database.transaction() as tx:
                scene.stages.ensure(tx, FLOW, name, {})
                taken = scene.stages.take(tx, FLOW, name, ME)
                if not taken.generation:
                    scene.stages.save_machine(tx, FLOW, name, ME, taken.machine.started(1))
                    scene._new_generation(tx, taken)
        return scene

    def _new_generation(self, tx: Any, stage: Any) -> None:
        topics = {stage.name: [self.runtime.log.topic(stage.name).id]}
        starting = Positions.of([OffsetRange(stage.name, topics[stage.name][0], 0, 0, 0)])
        self.stages.new_generation(tx, stage, ME, checkpoint="/c", starting=starting, topics=topics)

    def reset(self, stage: str) -> None:
        """Give up what is open, and begin anew."""
        with self.runtime.database.transaction() as tx:
            self.ledger.supersede_open(tx, FLOW, stage)
            self._new_generation(tx, self.stages.read(tx, FLOW, stage))

    def upload(self, *documents: Any) -> str:
        """One that has been sent to its end."""
        id = open_upload(self.runtime, STREAM, STREAM)
        send_input(self.runtime, id, STREAM, documents)
        return id

    def batch(self, stage: str, number: int, stop: int, generation: int = 1, *, commits: bool = True) -> None:
        positions = Positions.of([OffsetRange(stage, self.runtime.log.topic(stage).id, 0, 0, stop)])
        hash = batch_hash(FLOW, stage, generation, number, positions)
        with self.runtime.database.transaction() as tx:
            self.ledger.snapshot(tx, FLOW, stage, generation, number, hash, positions)
            if commits:
                self.ledger.commit(tx, FLOW, stage, generation, number, counts={}, digests={})

    def result(self, upload: str, stage: str, number: int, lines: str, generation: int = 1) -> Path:
        return self._file(upload, RESULTS, "seen", stage, number, lines, generation)

    def collected(self, upload: str, number: int, lines: str, generation: int = 1) -> Path:
        return self._file(upload, COLLECTED, "orders", FIRST, number, lines, generation)

    def _file(self, upload: str, part: str, name: str, stage: str, number: int, lines: str, generation: int) -> Path:
        directory = self.root / upload / part / name / stage_directory(stage)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / lines_name(generation, number, name, f"{stage}-0")
        path.write_text(lines)
        return path

    def settle(self) -> None:
        """All that can be passed and closed."""
        while self.passing.run_once().done + self.closer.run_once().done:
            pass


def connected(told: dict[str, Any]) -> Runtime:
    return towpath.connect(**told)
