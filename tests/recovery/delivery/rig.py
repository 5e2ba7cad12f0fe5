"""Runs a case: attempts that crash, attempts that recover, and a look at everything that is there afterwards.

A crash ends the attempt inside the one warm Spark session, and everything in memory is forgotten: each attempt builds
its runtime, its flow and its connections anew. Points in a Python worker end that worker by SIGKILL.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from tests.recovery.delivery.points import Case
from tests.recovery.delivery.shapes import COUNT, Seen
from tests.recovery.delivery.targets import Target
from tests.support.flows import World
from tests.support.logs import everything

from towpath import crash
from towpath.crash import Armed, CrashPoint
from towpath.flow.flow import Flow
from towpath.flow.ledger_row import BatchState
from towpath.flow.place import BY_BATCH
from towpath.flow.strategy import Strategy
from towpath.log import NewRecord


@dataclass
class Rig:
    """One case on its own log, database and targets."""

    world: World
    case: Case
    target: Target
    other: Target
    fired: list[bool] = field(default_factory=list)

    def run(self) -> list[str]:
        """Everything that is wrong in the end."""
        self.send(0, COUNT // 2)
        if self.case.batch:
            self.attempt()
        self.send(COUNT // 2, COUNT)
        for point in filter(None, (self.case.point, self.case.second)):
            self.fired.append(self.attempt(point))
        self.finish()
        return self.problems()

    def attempt(self, point: CrashPoint | None = None, *, when_free: bool = False) -> bool:
        """Run until idle or until death; whether it has died. The next one knows nothing of it."""
        runtime = self.world.connect()
        once = self.world.home / f"crash-{uuid4().hex}"
        crash.arm(None if point is None else Armed(point, once=once, victim=0))
        try:
            self.world.run_when_free(self.flow()) if when_free else self.world.run(self.flow())
        except crash.Crashed:
            return True
        finally:
            crash.arm(None)
            self.world.runtimes.remove(runtime)
            runtime.close()
        return once.exists()

    def finish(self, *, when_free: bool = False) -> None:
        """Let it come to its end. A chain of stages may need several looks."""
        for _ in range(self.case.shape.stages):
            assert not self.attempt(when_free=when_free)

    def flow(self) -> Flow:
        return self.case.shape.build(self.case.strategy, self.target, self.other)

    def send(self, start: int, stop: int) -> None:
        log = self.world.connect().log
        for name in (f"{self.target.prefix}{each}" for each in self.case.shape.topics):
            if name not in {each.name for each in log.topics()}:
                log.create_topic(name, 2)
            log.append(name, [NewRecord(text, b"%d" % n) for n, text in self.case.shape.values(start, stop)])
        self.world.runtimes.pop().close()

    # Afterwards

    def seen(self) -> Seen:
        shape, log = self.case.shape, self.world.runtime.log
        targets = {name: self.other if name == "other" else self.target for name in shape.outputs}
        rows = {name: target.rows(name, log) for name, target in targets.items()}
        return Seen(rows, Counter(_number(record.value or b"") for record in everything(log, self.flow().error_topic)))

    def problems(self) -> list[str]:
        self.world.connect()
        found = list(self.case.shape.check(self.seen(), self.case.strategy))
        found += self._balance()
        return found

    def _balance(self) -> list[str]:
        """The ledger's own word, which must fit what was sent."""
        flow = self.flow()
        batches = [batch for batch in self.world.batches(flow) if batch.state is not BatchState.SUPERSEDED]
        found = [f"batch {batch.batch_id} is {batch.state}" for batch in batches if batch.state != "committed"]
        counts: Counter[str] = Counter()
        for batch in batches:
            if f"{self.target.prefix}in" in batch.stage.split("+"):
                for name, value in batch.counts.items():
                    counts[name] += value if isinstance(value, int) else sum(value.values())
        sent = COUNT * self.case.shape.copies * len(self.case.shape.topics)
        if counts["read"] != sent or sum(counts[place] for place in BY_BATCH) != sent:
            found.append(f"the ledger does not add up: {dict(counts)}")
        if self.case.strategy is not Strategy.AT_MOST_ONCE and counts["forfeited"]:
            found.append("something was forfeited")
        return found


def _number(text: bytes) -> int:
    """Also of a text that is no JSON."""
    try:
        return int(json.loads(text)["n"])
    except ValueError:
        return int(text.removeprefix(b'{"n": ').rstrip(b","))


def other_than(target: Target, home: Path, sqlite: Callable[[Path], Target], files: Callable[[Path], Target]) -> Target:
    return files(home) if target.may_refuse else sqlite(home)
