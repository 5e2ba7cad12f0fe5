"""Calls back what was sent to a re-entry topic and not read there, for example because its flow does not run.

A record in a topic cannot be taken out of it. So its stage is told to pass over it (`flow.records.reentry`), which is
safe only while no batch has read it. 12 and 13 of docs/explanation/desk.md.

`RouteCheck` asks before any move whether a record has a way back: its flow and stage, and the topic that it has to go
to. A case that is *replaying* into a topic that is gone would wait forever.
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
    """Looks for unread records outside of a transaction, and calls them back in one."""

    def __init__(self, database: Database, log: Callable[[], Log]) -> None:
        self._database = database
        self._log = log
        self._cases = CaseStore(database)
        self._outbox = OutboxStore(database)
        self._progress = ReadProgress(database)
        self._cancelled = CancelledReplays(database)

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
            stops, keeps_state = self._progress.stops_now(tx, flow, stage), self._progress.keeps_state(tx, flow, stage)
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
            stops = self._progress.stops(tx, flow, stage)
            still = [
                case for case in some if isinstance(at := looked.get(case.id), Unread) and at.is_still(case, stops)
            ]
            self._cancelled.add(tx, flow, ((case.id, case.ticket) for case in still))
            unread += [case.id for case in still]
        return unread


def _by_stage(cases: Iterable[Case]) -> dict[tuple[str, str], list[Case]]:
    """In one order, so that two never wait for each other in a circle."""
    found: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        found[case.flow, case.stage].append(case)
    return dict(sorted(found.items()))


class RouteSubject(Protocol):
    """As much of a case as an action needs."""

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
    """Checks routes and remembers the answers, since each costs a request to the log. Made for each piece of work."""

    def __init__(self, database: Database, log: Callable[[], Log]) -> None:
        self._database = database
        self._stages = StageStore(database)
        self._log = log
        self._known: dict[ReplayRoute, str | None] = {}

    def unknown(self, routes: Iterable[ReplayRoute]) -> list[ReplayRoute]:
        """The routes that were not checked yet."""
        return [route for route in dict.fromkeys(routes) if route not in self._known]

    def ask(self, routes: Iterable[ReplayRoute]) -> None:
        """Find out about them. Outside of a transaction: a log may take its time."""
        for route in self.unknown(routes):
            self._known[route] = self._refusal(route)

    def refusal(self, route: ReplayRoute) -> str | None:
        """Why nothing can go there; None if it can."""
        return self._known[route]

    def _refusal(self, route: ReplayRoute) -> str | None:
        try:
            if route.source is not None:
                self._log().topic(route.source)
                return None
            with self._database.read() as tx:
                self._stages.read(tx, route.flow, route.stage)
            self._log().topic(FlowTopics.of(route.flow).reentry)
        except UnknownFlow:
            return f"there is no stage {route.stage} of a flow {route.flow} here any more that could read it"
        except UnknownTopic as error:
            return f"the topic {error.name} is gone, so that it has nowhere to go"
        return None


def route_back(case: RouteSubject) -> ReplayRoute:
    return ReplayRoute(case.flow, case.stage)


def route_to_source(case: RouteSubject) -> ReplayRoute:
    return ReplayRoute(case.flow, case.stage, case.topic)
