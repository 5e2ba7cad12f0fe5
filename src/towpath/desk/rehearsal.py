"""Rehearsal: what would happen to the cases of a group if they were replayed now, without side effects.

The given flow runs on the records of the cases, on Spark. No sink is touched; no topic, position or row is written.
What a sink would refuse cannot be seen, and the result says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from towpath.core.events import Event, EventKind, Events
from towpath.db import Database
from towpath.desk.cases.model import ERROR, Body, Case, CaseSelection, CaseState
from towpath.desk.cases.store import CaseStore
from towpath.desk.groups.model import Fingerprint
from towpath.desk.groups.store import GroupStore
from towpath.errors import CannotRehearse
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.records.reentry import STAGE, reentry_record
from towpath.flow.stage.store import StageStore
from towpath.log.record import NewRecord, Record
from towpath.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.flow.flow import Flow
    from towpath.flow.run.rehearsal import StageRehearsal


PORTION = 1_000  # records that are tried at once
PORTION_BYTES = 16 << 20
BODIES = 100  # that are read at once
EXAMPLES = 3  # of each verdict
MOST_CASES = 100_000


class RehearsalVerdict(StrEnum):
    """What would happen to a case."""

    LOADS = "would load"
    FILTERED = "would be filtered"
    SAME = "would fail the same way"
    OTHERWISE = "would fail otherwise"
    UNTRIED = "was not tried"


PASSING = frozenset({RehearsalVerdict.LOADS, RehearsalVerdict.FILTERED})


@dataclass(frozen=True, slots=True)
class Example:
    """One case, and what happened to it."""

    case: Case
    said: str


@dataclass(slots=True)
class Rehearsed:
    """The result of a rehearsal. `passing` are the cases as they were when they were tried."""

    group: int
    flow: str
    version: str
    counts: Counter[RehearsalVerdict] = field(default_factory=Counter)
    examples: dict[RehearsalVerdict, list[Example]] = field(default_factory=dict)
    passing: list[Case] = field(default_factory=list)
    behind_sinks: int = 0  # would load, but a sink has refused them before, and would not be asked now
    is_cut: bool = False  # there are more cases than were tried

    def add(self, case: Case, verdict: RehearsalVerdict, said: str = "") -> None:
        self.counts[verdict] += 1
        if len(shown := self.examples.setdefault(verdict, [])) < EXAMPLES:
            shown.append(Example(case, said))
        if verdict in PASSING:
            self.passing.append(case)
        self.behind_sinks += verdict is RehearsalVerdict.LOADS and case.output is not None

    @property
    def cases(self) -> int:
        return self.counts.total()

    @property
    def notes(self) -> list[str]:
        """What a reader of the figures has to know."""
        said = ["sinks were not asked: what they would refuse is not seen"]
        if self.behind_sinks:
            said.append(f"{self.behind_sinks} of those that would load were refused by a sink before")
        if self.is_cut:
            said.append(f"only the newest {self.cases} cases were tried")
        return said

    def to_json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "flow": self.flow,
            "version": self.version,
            "cases": self.cases,
            "counts": {verdict.name.lower(): self.counts[verdict] for verdict in RehearsalVerdict},
            "examples": {
                verdict.name.lower(): [
                    {"case": each.case.id, "number": each.case.seq, "input": each.case.input, "said": each.said}
                    for each in shown
                ]
                for verdict, shown in self.examples.items()
            },
            "notes": self.notes,
        }


class Rehearsal:
    """Tries the open cases of groups. Loads Spark when it has something to try."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        events: Events,
        spark: Callable[[], SparkSession],
        read_blob: Callable[[str], bytes],
    ) -> None:
        self._settings = settings
        self._database = database
        self._events = events
        self._spark = spark
        self._read_blob = read_blob
        self._cases = CaseStore(database)
        self._groups = GroupStore(database)
        self._stages = StageStore(database)

    def flow_of(self, group: int) -> str:
        """The name of the flow whose cases a group has; raises `UnknownGroup`."""
        with self._database.read() as tx:
            return self._groups.read(tx, group).flow

    def rehearse(
        self,
        group: int,
        flow: Flow,
        *,
        most: int = MOST_CASES,
        passes_effects: bool = False,
        tick: Callable[[int], None] = lambda done: None,
    ) -> Rehearsed:
        """Try the open cases of a group in a version of their flow; `tick` is told how many are done."""
        if (name := self.flow_of(group)) != flow.name:
            raise CannotRehearse(f"group {group} is of the flow {name}, not of {flow.name}")
        found = Rehearsed(group, flow.name, flow.version)
        stages: dict[tuple[str, str], StageRehearsal] = {}
        for cases in self._portions(group, most):
            for key, some in _by_stage(cases).items():
                if key not in stages:
                    stages[key] = self._stage(flow, *key, passes_effects=passes_effects)
                self._try(found, stages[key], some)
            tick(found.cases)
        with self._database.read() as tx:
            found.is_cut = self._cases.count(tx, _open(group), most=found.cases + 1) > found.cases
        self._events.publish(Event(EventKind.GROUP_REHEARSED, str(group), data=found.to_json()["counts"]))
        return found

    def unchanged(self, rehearsed: Rehearsed) -> list[str]:
        """Of the cases that would pass those that are still as they were tried, by id."""
        ids: list[str] = []
        for begin in range(0, len(rehearsed.passing), PORTION):
            tried = rehearsed.passing[begin : begin + PORTION]
            with self._database.read() as tx:
                now = self._cases.some(tx, [case.id for case in tried])
            ids += [case.id for case in tried if _is_same(case, now.get(case.id))]
        return ids

    def _portions(self, group: int, most: int) -> Iterator[list[Case]]:
        before: int | None = None
        left = most
        while left > 0:
            with self._database.read() as tx:
                cases = self._cases.page(tx, _open(group), min(PORTION, left), before)
            if not cases:
                return
            left -= len(cases)
            before = cases[-1].seq
            yield cases

    def _stage(self, flow: Flow, stage: str, topic: str, *, passes_effects: bool) -> StageRehearsal:
        from towpath.flow.run.rehearsal import StageRehearsal, rehearsed_stage  # loads pyspark

        with self._database.read() as tx:
            topics = self._stages.read(tx, flow.name, stage).topics
        tried = rehearsed_stage(flow, stage, topic, passes_effects=passes_effects)
        return StageRehearsal(self._spark(), self._settings, flow, tried, topics)

    def _try(self, found: Rehearsed, stage: StageRehearsal, cases: Sequence[Case]) -> None:
        """Try some cases of a stage, no more at once than fit into memory with ease."""
        waiting: list[tuple[Case, NewRecord]] = []
        size = 0
        for case, record in self._records(cases, stage.stage.name):
            if isinstance(record, str):
                found.add(case, RehearsalVerdict.UNTRIED, record)
                continue
            size += len(record.value or b"")
            if waiting and size > PORTION_BYTES:
                _tell(found, stage, waiting)
                waiting, size = [], len(record.value or b"")
            waiting.append((case, record))
        if waiting:
            _tell(found, stage, waiting)

    def _records(self, cases: Sequence[Case], stage: str) -> Iterator[tuple[Case, NewRecord | str]]:
        """The records that a replay would send, to the stage that is tried; or why there is none."""
        for begin in range(0, len(cases), BODIES):
            some = cases[begin : begin + BODIES]
            with self._database.read() as tx:
                bodies = self._cases.bodies(tx, [case.id for case in some])
            for case in some:
                yield case, self._record(case, bodies.get(case.id), stage)

    def _record(self, case: Case, body: Body | None, stage: str) -> NewRecord | str:
        if case.kind != ERROR:
            return f"a {case.kind} has no record"
        if body is None:
            return "its body is not kept any more"
        try:
            value = body.read(self._read_blob)
            error = Record("", 0, 0, 0, case.key, value, body.headers)
            back = reentry_record(error, case.id, case.next_attempt)
        except (OSError, KeyError) as problem:
            return f"its record cannot be made: {problem}"
        headers = tuple((name, stage.encode() if name == STAGE else text) for name, text in back.headers)
        return NewRecord(back.value, back.key, headers)


def _tell(found: Rehearsed, stage: StageRehearsal, cases: Sequence[tuple[Case, NewRecord]]) -> None:
    tried = stage.run([record for _, record in cases])
    for (case, _), each in zip(cases, tried, strict=True):
        if each is None:
            found.add(case, RehearsalVerdict.UNTRIED, "there was no time left to find the record that ends the job")
        elif each.failure is not None:
            verdict = RehearsalVerdict.SAME if _is_same_way(case, each.failure) else RehearsalVerdict.OTHERWISE
            found.add(case, verdict, f"{each.failure.step}: {each.failure.exception}: {each.failure.message}")
        elif each.filtered_by is not None:
            found.add(case, RehearsalVerdict.FILTERED, f"by {each.filtered_by}")
        else:
            found.add(case, RehearsalVerdict.LOADS)


def _is_same_way(case: Case, failure: RecordFailure) -> bool:
    """Whether it fails for the same cause: frames do not count, since files and functions may be named anew."""
    before = RecordFailure(ErrorCode(case.code), case.step, case.exception, case.message)
    return _cause(before) == _cause(failure)


def _cause(failure: RecordFailure) -> tuple[int, str, str, str]:
    found = Fingerprint.of(failure)
    return found.code, found.step, found.exception, found.title


def _is_same(tried: Case, now: Case | None) -> bool:
    if now is None or now.state is not CaseState.OPEN:
        return False
    return (tried.attempts, tried.edit, tried.ticket) == (now.attempts, now.edit, now.ticket)


def _by_stage(cases: Sequence[Case]) -> dict[tuple[str, str], list[Case]]:
    found: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        found.setdefault((case.stage, case.topic), []).append(case)
    return found


def _open(group: int) -> CaseSelection:
    return CaseSelection(group=group, states=(CaseState.OPEN,))
