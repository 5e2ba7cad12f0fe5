"""A flow's topics and cases, for tests of what leaves the desk: on either database, with either log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.logs import everything

from towpath.core.clock import MICROS
from towpath.desk.cases.model import Case, CaseSelection, CaseState, NewCase, case_id
from towpath.desk.cases.store import CaseStore
from towpath.desk.groups.store import GroupStore
from towpath.desk.replay.lane import lane_topic
from towpath.desk.replay.outbox import OutboxWriter, ReplayContext
from towpath.desk.replay.relay import Relay
from towpath.desk.replay.replayer import Replayer
from towpath.flow.records.errors import PREFIX
from towpath.flow.records.reentry import ATTEMPT, CORRELATION, said_by
from towpath.flow.topics import FlowTopics
from towpath.log import Log, Record
from towpath.log.record import encode_headers
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

SOURCE = "orders"
STAGE = "main"
ROUNDS = 100


@dataclass
class Company:
    """All processes of a test."""

    members: list[Sent] = field(default_factory=list)
    shifted_s: float = 0.0
    made: int = 0  # cases


def _are_together(one: Runtime, other: Runtime) -> bool:
    return abs(one.database.now() - other.database.now()) < MICROS


def _are_all_seen(log: Log, topic: str, partition: int) -> bool:
    return next(iter(log.undecided(topic, partition)), None) is None


@dataclass
class Sent:
    """One flow with cases, and a relay and a replayer that run when they are told to."""

    runtime: Runtime
    flow: str
    parts: ReplayContext
    company: Company
    relay: Relay = field(init=False)
    replayer: Replayer = field(init=False)

    def __post_init__(self) -> None:
        self.relay, self.replayer = Relay(self.parts), Replayer(self.parts)
        self.cases = CaseStore(self.runtime.database)
        self.sends = OutboxWriter(self.runtime.database)

    @classmethod
    def on(cls, runtime: Runtime, flow: str, company: Company | None = None) -> Sent:
        made = cls(runtime, flow, sending_parts(runtime), company or Company())
        made.company.members.append(made)
        return made

    @property
    def source(self) -> str:
        return f"{self.flow}.{SOURCE}"

    def make_topics(self) -> None:
        FlowTopics.of(self.flow).ensure(self.runtime.log, 2)
        self.runtime.log.create_topic(self.source, 2, retention_s="never")

    # Cases

    def make(self, count: int, values: Sequence[bytes] | None = None, **more: Any) -> list[str]:
        """Open cases of records with keys, one after the other."""
        now = self.runtime.database.now()
        with self.runtime.database.transaction() as tx:
            [group] = [GroupStore(self.runtime.database).new(tx, self.flow, 9, "priced", "KeyError", "no", now).id]
            before = self.company.made
            bodies = [None] * count if values is None else values
            made = [self._case(before + n, group, bodies[n], **more) for n in range(count)]
            self.cases.insert(tx, made)
        return [case.id for case in made]

    def _case(self, number: int, group: int, value: bytes | None, **more: Any) -> NewCase:
        self.company.made = number + 1
        body = value if value else b'{"n": %d}' % number
        said = {"stage": STAGE, "topic": self.source, "topic-id": "id", "partition": "0", "offset": str(number)}
        ours = tuple((PREFIX + name, text.encode()) for name, text in {**said, "timestamp": "1"}.items())
        return NewCase(
            **{
                "id": case_id(number, self.flow, number),
                "flow": self.flow,
                "stage": STAGE,
                "kind": "error",
                "group_id": group,
                "fingerprint": "f",
                "state": CaseState.OPEN,
                "code": 9,
                "step": "priced",
                "exception": "KeyError",
                "message": f"no price for {number}",
                "output": None,
                "topic": self.source,
                "topic_id": "id",
                "partition": 0,
                "offset": number,
                "stop": None,
                "key": b"k%d" % (number % 5),
                "hash": "h",
                "error_topic": f"{self.flow}.errors",
                "error_partition": 0,
                "error_offset": number,
                "failed_at": self.runtime.database.now(),
                "body_bytes": len(body),
                "value": body,
                "headers": encode_headers((("own", b"x"), *ours)),
                **more,
            }
        )

    def read(self, id: str) -> Case:
        with self.runtime.database.glance() as tx:
            return self.cases.read(tx, id)

    def body(self, id: str) -> bytes:
        """What the record of a case was."""
        return b'{"n": %d}' % self.read(id).offset

    def states(self) -> dict[str, int]:
        """How many cases there are in each state, by their rows; the tallies must say the same."""
        with self.runtime.database.read() as tx:
            found = Counter(str(case.state) for case in self.cases.page(tx, CaseSelection(flow=self.flow), 10_000))
        return dict(found)

    def replay(self, ids: Collection[str], delay_s: float | None = None, **more: Any) -> list[str]:
        with self.runtime.database.transaction() as tx:
            cases = [self.cases.read(tx, id) for id in ids]
            live = (CaseState.OPEN, CaseState.WAITING)
            return self.sends.replay(tx, cases, delay_s=delay_s, frm=live, who="ann", why="again", **more)

    def resend(self, ids: Collection[str]) -> list[str]:
        with self.runtime.database.transaction() as tx:
            return self.sends.resend(tx, [self.cases.read(tx, id) for id in ids], who="ann", why="from the start")

    def recall(self, ids: Collection[str]) -> list[str]:
        with self.runtime.database.transaction() as tx:
            return self.sends.recall(tx, ids, who="ann", why="not yet")

    # Work

    def run_relay(self) -> int:
        """Until the outbox is empty, and every reader sees what was sent."""
        done = _until_nothing(self.relay.run_once)
        self.settle()
        return done

    def run_replayer(self) -> int:
        """Until nothing that is due is left, and every reader sees what has gone."""
        done = _until_nothing(self.replayer.run_once)
        self.settle()
        return done

    def work(self) -> int:
        """Relay and replayer until there is nothing to do; returns how much that was."""
        return _until_nothing(self.relay.run_once) + _until_nothing(self.replayer.run_once)

    def settle(self) -> None:
        """Kafka shows a committed transaction a moment after its commit."""
        log = self.runtime.log
        names = {lane_topic(self.flow), FlowTopics.of(self.flow).reentry, self.source}
        for topic in [each for each in log.topics() if each.name in names]:
            for number in range(topic.partitions):
                wait_until(partial(_are_all_seen, log, topic.name, number), what=f"all of {topic.name} to be seen")

    def shift(self, seconds: float) -> None:
        """It is so much later than when the test began, in every process."""
        self.runtime.database.shift_clock(seconds - self.company.shifted_s)
        self.company.shifted_s = seconds
        for other in self.company.members:
            wait_until(partial(_are_together, self.runtime, other.runtime), what="the time in all processes")

    # What is there

    def outbox(self) -> int:
        with self.runtime.database.glance() as tx:
            return sum(self.parts.outbox.counts(tx).values())

    def in_reentry(self) -> list[Record]:
        return everything(self.runtime.log, FlowTopics.of(self.flow).reentry)

    def in_lanes(self) -> list[Record]:
        return everything(self.runtime.log, lane_topic(self.flow))

    def in_source(self) -> list[Record]:
        return everything(self.runtime.log, self.source)

    def came_back(self) -> list[tuple[str, int]]:
        """Case and attempt of every record in the re-entry topic, sorted."""
        said = [said_by(record.headers) for record in self.in_reentry()]
        return sorted((each[CORRELATION], int(each[ATTEMPT])) for each in said)


def sending_parts(runtime: Runtime) -> ReplayContext:
    return ReplayContext(
        runtime.settings,
        runtime.database,
        runtime.events,
        runtime.event_log,
        log=runtime.log,
        process=runtime.process,
        blob=lambda name: Path(runtime.settings.desk.directory, name).read_bytes(),
    )


def _until_nothing(round_: Callable[[], Any]) -> int:
    total = 0
    for _ in range(ROUNDS):
        done: int = round_().done
        total += done
        if not done:
            return total
    raise AssertionError(f"there was still something to do after {ROUNDS} rounds")


@pytest.fixture(params=["sqlite", "kafka"])
def log_settings(request: pytest.FixtureRequest, tmp_path: Path, database_settings: dict[str, Any]) -> dict[str, Any]:
    """The `[log]` settings of each log in turn, beside each database."""
    if request.param == "kafka":
        kafka = request.getfixturevalue("kafka")
        return {"url": kafka.url, "namespace": f"t{uuid4().hex[:12]}", "timeout_s": 20.0}
    is_embedded = database_settings["url"].startswith("sqlite")
    return {"url": "embedded" if is_embedded else f"sqlite:///{tmp_path}/log.db"}


@pytest.fixture
def make_sent(
    make_runtime: Callable[..., Runtime], log_settings: dict[str, Any], tmp_path: Path
) -> Iterator[Callable[..., Sent]]:
    """Opens processes, as far as they can tell, that work for one flow."""
    flow = f"t-{uuid4().hex[:12]}"
    company = Company()

    def make(**sections: Any) -> Sent:
        desk = {"directory": str(tmp_path / "desk"), **sections.pop("desk", {})}
        sent = Sent.on(make_runtime(log=log_settings, desk=desk, **sections), flow, company)
        if len(company.members) == 1:
            sent.make_topics()
        return sent

    yield make
    for sent in company.members:
        sent.relay.on_stop()
        sent.replayer.on_stop()


@pytest.fixture
def sent(make_sent: Callable[..., Sent]) -> Sent:
    return make_sent()
