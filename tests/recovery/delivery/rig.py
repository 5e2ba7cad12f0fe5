"""Runs a case: attempts that crash, attempts that recover, and a look at everything that is there afterwards.

A crash ends the attempt inside the one warm Spark session, and everything in memory is forgotten: each attempt builds
its runtime, its flow and its connections anew. Points in a Python worker end that worker by SIGKILL.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from tests.recovery.delivery.points import NOTHING_GIVEN_UP, Case
from tests.recovery.delivery.shape import COUNT, ROUND, Seen
from tests.recovery.delivery.target import Target
from tests.support.flows import World
from tests.support.logs import everything

from towpath.core import crash
from towpath.core.crash import Armed, CrashPoint
from towpath.flow.delivery.ids import Strategy
from towpath.flow.delivery.ledger import Batch, BatchState
from towpath.flow.delivery.places import BY_BATCH
from towpath.flow.flow import Flow
from towpath.flow.topics import FlowTopics
from towpath.log import Log, NewRecord
from towpath.testing.clock import wait_until

SETTLE_S = 10  # at most: what a dead task has left open may stay so


@dataclass
class Rig:
    """One case on its own log, database and targets."""

    world: World
    case: Case
    target: Target
    other: Target
    fired: list[bool] = field(default_factory=list)
    sent: int = 0  # records
    count: int = 0  # numbers
    is_walk: bool = False

    def run(self) -> list[str]:
        """Everything that is wrong in the end."""
        self.prepare()
        self.fired.append(self.crash(self.case.crash_at))
        self.finish()
        return self.problems()

    def walk(self, points: Sequence[CrashPoint]) -> list[str]:
        """Die at each of them: every attempt recovers from the death before, with new records to go on with."""
        self.is_walk = True
        for number, point in enumerate(points):
            if self.case.shape.is_remade and number:
                self.finish()
                self.make_again()
            self.send(number * ROUND, (number + 1) * ROUND)
            if not self.crash(point):
                return [f"nobody came by {point}, after {', '.join(points[:number])}"]
        self.finish()
        return [f"{problem}; it had died at {', '.join(points)}" for problem in self.problems()]

    def crash(self, crash_at: str) -> bool:
        """Whether somebody came by. The second stage of a chain may have found nothing to do at first."""
        return self.attempt(crash_at) or (self.case.shape.stages > 1 and self.attempt(crash_at.partition(":")[0]))

    def prepare(self) -> None:
        """All that comes before the attempt that is to die."""
        self.send(0, COUNT // 2)
        if (self.case.batch or self.case.shape.is_remade) and not self.case.shape.is_timed:
            self.attempt()
        if self.case.shape.is_remade:
            self.make_again()
        self.send(COUNT // 2, COUNT)
        if self.case.shape.is_timed:  # the alarms are set, and nobody has been woken
            assert self.attempt(CrashPoint.BATCH_COMMITTED)

    def attempt(self, crash_at: str | None = None, *, when_free: bool = False) -> bool:
        """Run until idle or until death; whether it has died. The next one knows nothing of it."""
        runtime = self.world.connect()
        once = self.world.home / f"crash-{uuid4().hex}"
        crash.arm(None if crash_at is None else Armed(crash_at, once=once, victim=0))
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

    @property
    def topics(self) -> list[str]:
        return [f"{self.target.prefix}{each}" for each in self.case.shape.topics]

    def send(self, start: int, stop: int) -> None:
        with self._log() as log:
            for name in self.topics:
                if name not in {each.name for each in log.topics()}:
                    log.create_topic(name, self.case.shape.partitions)
                records = [NewRecord(text, b"%d" % n) for n, text in self.case.shape.values(start, stop)]
                log.append(name, records)
                self.sent += len(records)
        self.count = max(self.count, stop)

    def make_again(self) -> None:
        """Delete the topics that are read, and make new ones of the same names."""
        with self._log() as log:
            for name in self.topics:
                log.delete_topic(name)
                log.create_topic(name, self.case.shape.partitions)

    @contextmanager
    def _log(self) -> Iterator[Log]:
        runtime = self.world.connect()
        try:
            yield runtime.log
        finally:
            self.world.runtimes.remove(runtime)
            runtime.close()

    # Afterwards

    def seen(self) -> Seen:
        shape, log = self.case.shape, self.world.runtime.log
        if self.world.place.kind == "kafka":
            self._settle(log)
        targets = {name: self.other if name == "other" else self.target for name in shape.outputs}
        rows = {name: target.rows(name, log) for name, target in targets.items()}
        failed = Counter(_number(record.value or b"") for record in everything(log, self.flow().error_topic))
        return Seen(rows, failed, self.count, sum(counts["forfeited"] for counts in self._counts().values()))

    def _settle(self, log: Log) -> None:
        """Kafka shows a committed transaction a moment after its commit."""
        own = [each for each in log.topics() if self.target.prefix in each.name]
        places = [(each.name, number) for each in own for number in range(each.partitions)]
        with suppress(TimeoutError):
            wait_until(lambda: not any(any(log.undecided(*place)) for place in places), SETTLE_S)

    def problems(self) -> list[str]:
        self.world.connect()
        found = [*self.case.shape.check(self.seen(), self.case.strategy), *self._balance()]
        on_the_way = [f"on the way: {event.why}" for event in self.world.events if "code" in event.data]
        return [*found, *on_the_way] if found else []

    def _balance(self) -> Iterator[str]:
        """The ledger's own word, which must fit what was sent, and what one stage has sent to the next."""
        for batch in self._batches():
            if batch.state is not BatchState.COMMITTED:
                yield f"batch {batch.batch_id} is {batch.state}"
        log = self.world.runtime.log
        ticks = len(everything(log, FlowTopics.of(self.flow().name).reentry))
        for stage, counts in self._counts().items():
            sent = ticks + (self.sent if self.topics[0] in stage.split("+") else len(everything(log, stage)))
            if counts["read"] != sent or sum(counts[place] for place in BY_BATCH) != sent:
                yield f"{stage}: {sent} records were sent, and the ledger has {dict(counts)}"
            if counts["forfeited"] and not self._may_give_up():
                yield f"{stage}: {counts['forfeited']} records were given up"

    def _may_give_up(self) -> bool:
        """The stages of a chain die together: when one dies in a safe place, the other may be anywhere."""
        is_safe = self.case.point in NOTHING_GIVEN_UP and not self.is_walk
        is_alone = self.case.shape.stages == 1
        return self.case.strategy is Strategy.AT_MOST_ONCE and not (is_safe and is_alone)

    def _batches(self) -> list[Batch]:
        return [batch for batch in self.world.batches(self.flow()) if batch.state is not BatchState.SUPERSEDED]

    def _counts(self) -> dict[str, Counter[str]]:
        """By stage."""
        found: dict[str, Counter[str]] = {}
        for batch in self._batches():
            counts = found.setdefault(batch.stage, Counter())
            for name, value in batch.counts.items():
                counts[name] += value if isinstance(value, int) else sum(value.values())
        return found


def _number(text: bytes) -> int:
    """Also of a text that is no JSON."""
    try:
        document = json.loads(text)
        return int(document.get("one", document)["n"])
    except ValueError:
        return int(text.removeprefix(b'{"n": ').rstrip(b","))


def other_than(target: Target, home: Path, sqlite: Callable[[Path], Target], files: Callable[[Path], Target]) -> Target:
    return files(home) if target.may_refuse else sqlite(home)
