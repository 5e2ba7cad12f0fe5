"""Calling back what was sent to a re-entry topic and was not read there: by a flow that does not run, for example.

What lies in a topic cannot be taken out of it. So its stage is told to pass over it (flow/recalled.py), which is safe
only while no batch has read it. 12 and 13 of docs/explanation/desk.md.

Whether there is a way back for a record: the flow and stage that it came from, and the topic that it has to go to.

Asked before anything is moved: a case that is *replaying* into a topic that is gone would wait for ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from towpath.db import Database, Transaction
from towpath.desk.cases.model import Case, CaseState
from towpath.desk.cases.store import CaseStore
from towpath.desk.replay.lane import lane_topic
from towpath.desk.replay.outbox import OutboxStore, OutboxTarget
from towpath.desk.replay.relay import relay_group
from towpath.errors import UnknownFlow, UnknownTopic
from towpath.flow.delivery.positions import Spot
from towpath.flow.records.reentry import CancelledReplays, Sent, said_by, sent_as
from towpath.flow.stage.store import ReadProgress, StageStore
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log

READ = (
    "its flow may have read it: what becomes of it will be told; if nothing comes, see that the flow and the desk run"
)
TO_SOURCE = "it is on its way to its source, where it counts as a new record"
KEPT = "its stage keeps state, which would get the record all the same; let the flow run"


class Unread(NamedTuple):
    """A record that no batch had read, and where batches must not have come since, by partition of the topic."""

    ticket: int
    limits: Mapping[Spot, int]

    def is_still(self, case: Case, stops: Mapping[Spot, int]) -> bool:
        is_covered = any(stops.get(spot, 0) > limit for spot, limit in self.limits.items())
        return case.ticket == self.ticket and not is_covered


class ReplayRecall:
    """Looks, outside of a transaction, and then calls back in one."""

    def __init__(self, database: Database, log: Callable[[], Log]) -> None:
        self._database = database
        self._log = log
        self._cases = CaseStore(database)
        self._outbox = OutboxStore(database)
        self._covered = ReadProgress(database)
        self._recalled = CancelledReplays(database)

    def look(self, ids: Sequence[str]) -> dict[str, Unread | str]:
        """12: of cases that are replaying, where their records are unread; or why they cannot be called back."""
        with self._database.read() as tx:
            cases = self._cases.some(tx, ids)
        found: dict[str, Unread | str] = {}
        for (flow, stage), some in _by_stage(cases.values()).items():
            found |= self._look(flow, stage, some)
        return found

    def _look(self, flow: str, stage: str, cases: Sequence[Case]) -> dict[str, Unread | str]:
        with self._database.read() as tx:
            stops, keeps_state = self._covered.stops_now(tx, flow, stage), self._covered.keeps_state(tx, flow, stage)
        if keeps_state:
            return {case.id: KEPT for case in cases}
        wanted = {(case.id, case.ticket): case for case in cases}
        # In this order: what the relay had not appended after the look at the ends can only lie behind them.
        ends = self._ends(flow)
        appended = self._appended(flow)
        places = self._places(flow, wanted, stops, ends)
        with self._database.read() as tx:
            queued = {(row.case_id, row.ticket): row for row in self._outbox.of_cases(tx, [case.id for case in cases])}
        found: dict[str, Unread | str] = {}
        for sent, case in wanted.items():
            row = queued.get(sent)
            if row is not None and row.target is OutboxTarget.SOURCE:
                found[case.id] = TO_SOURCE
            elif sent in places:
                found[case.id] = Unread(case.ticket, places[sent])
            elif row is not None and row.seq > appended:
                found[case.id] = Unread(case.ticket, ends)
            else:
                found[case.id] = READ
        return found

    def _ends(self, flow: str) -> dict[Spot, int]:
        topic = FlowTopics.of(flow).reentry
        try:
            id = self._log().topic(topic).id
            return {(id, number): end for number, end in self._log().ends(topic).items()}
        except UnknownTopic:
            return {}  # nothing can be read there

    def _appended(self, flow: str) -> int:
        """The number of the last row of the outbox that is in its topic."""
        return self._log().positions(relay_group(flow)).get((lane_topic(flow), 0), 0)

    def _places(
        self, flow: str, wanted: Mapping[Sent, Case], stops: Mapping[Spot, int], ends: Mapping[Spot, int]
    ) -> dict[Sent, dict[Spot, int]]:
        """Where records lie that no batch has covered: the offset at which one must not have come."""
        log, topic = self._log(), FlowTopics.of(flow).reentry
        starts = log.starts(topic) if ends else {}
        found: dict[Sent, dict[Spot, int]] = {}
        for (id, number), end in sorted(ends.items()):
            start = max(stops.get((id, number), 0), starts.get(number, 0))
            for record in log.read(topic, number, start, end) if start < end else ():
                sent = sent_as(said_by(record.headers))
                if sent is not None and sent in wanted:
                    found[sent] = {(id, number): record.offset}
                if len(found) == len(wanted):
                    return found
        return found

    def recall(self, tx: Transaction, cases: Mapping[str, Case], looked: Mapping[str, Unread | str]) -> list[str]:
        """13: those of which it is still so are not to be taken by their stage; returns these."""
        unread: list[str] = []
        for (flow, stage), some in _by_stage(cases.values()).items():
            stops = self._covered.stops(tx, flow, stage)
            still = [
                case for case in some if isinstance(at := looked.get(case.id), Unread) and at.is_still(case, stops)
            ]
            self._recalled.add(tx, flow, ((case.id, case.ticket) for case in still))
            unread += [case.id for case in still]
        return unread


def _by_stage(cases: Iterable[Case]) -> dict[tuple[str, str], list[Case]]:
    """In one order, so that two never wait for each other in a circle."""
    found: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        found[case.flow, case.stage].append(case)
    return dict(sorted(found.items()))


class RouteSubject(Protocol):
    """As much of a case as it takes to do something to it."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> CaseState: ...
    @property
    def flow(self) -> str: ...
    @property
    def stage(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def group_id(self) -> int: ...


class ReplayRoute(NamedTuple):
    """Where a record is to go: to its stage by way of the re-entry topic, or to a source."""

    flow: str
    stage: str
    source: str | None = None


class RouteCheck:
    """Remembers its answers, which cost a question to the log. Made anew for each piece of work."""

    def __init__(self, database: Database, log: Callable[[], Log]) -> None:
        self._database = database
        self._stages = StageStore(database)
        self._log = log
        self._known: dict[ReplayRoute, str | None] = {}

    def unknown(self, ways: Iterable[ReplayRoute]) -> list[ReplayRoute]:
        """Those that were not asked for yet."""
        return [way for way in dict.fromkeys(ways) if way not in self._known]

    def ask(self, ways: Iterable[ReplayRoute]) -> None:
        """Find out about them. Outside of a transaction: a log may take its time."""
        for way in self.unknown(ways):
            self._known[way] = self._refusal(way)

    def refusal(self, way: ReplayRoute) -> str | None:
        """Why nothing can go there; None if it can."""
        return self._known[way]

    def _refusal(self, way: ReplayRoute) -> str | None:
        try:
            if way.source is not None:
                self._log().topic(way.source)
                return None
            with self._database.read() as tx:
                self._stages.read(tx, way.flow, way.stage)
            self._log().topic(FlowTopics.of(way.flow).reentry)
        except UnknownFlow:
            return f"there is no stage {way.stage} of a flow {way.flow} here any more that could read it"
        except UnknownTopic as error:
            return f"the topic {error.name} is gone, so that it has nowhere to go"
        return None


def way_back(case: RouteSubject) -> ReplayRoute:
    return ReplayRoute(case.flow, case.stage)


def way_to_source(case: RouteSubject) -> ReplayRoute:
    return ReplayRoute(case.flow, case.stage, case.topic)
