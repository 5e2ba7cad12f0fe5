"""Audits a flow: reads ledger, log and sinks, and hands what it has read to the checks.

- `Audit` counts the records themselves and does not take the ledger's word. With the flow's file, it also reads what
  the sinks hold.
- `audit_within` is for a caller who waits for the answer: it does not begin when there is too much to read, and gives
  up in time. `towpath audit` has no such bounds.
- `ledger_balance` reads no record: cheap, and no proof. It says whether the ledger agrees with itself, and what the
  desk adds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from towpath.db import Database, Queries, Transaction
from towpath.errors import LogError
from towpath.flow.audit.balance import AuditVerdict, BalanceBuilder, OutputVerdict, Proof, Settlement, check_chain
from towpath.flow.audit.errors import ErrorsFound, check_errors, read_errors, returned_to
from towpath.flow.audit.expected import ExpectedIds, VersionCheck
from towpath.flow.audit.outputs import OutputCheck, take_ids
from towpath.flow.audit.rows import Problem, StageRows, Unproven, segments_of
from towpath.flow.audit.view import Progress, RecordCounter, TopicState, in_flight, take_view, topic_state
from towpath.flow.delivery.ids import DeliveryIds
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.delivery.places import BY_BATCH, PlaceSource, RecordPlace, counts_of
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.flow import Flow
from towpath.flow.graph.nodes import Output
from towpath.flow.sinks.index.reader import IndexedDocument, IndexReader
from towpath.flow.sinks.index.sink import INPUT, IndexSink
from towpath.flow.sinks.sink import SinkReach, SinkReader, UnreadableSink, Versioned
from towpath.flow.stage.status import stage_statuses
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log

OWN_IDS = "its ids are the flow's own: which ones there should be, only its steps could say"
BLIND = "what was a duplicate nobody can say: records are deleted since, or senders are forgotten after a time"
NEWEST_OF_ID = "every record's id is there; the newest record of an id takes the place of the older ones"
MOST_BATCHES = 50_000  # the whole ledger of a flow is held in memory
MOST_OFFSETS = 2_000_000
Telling = Callable[[str], Progress]  # given what is being read, where to tell how far it has come


def _quiet(what: str) -> Progress:
    return lambda done: None


@dataclass(slots=True)
class Audit:
    """One audit of one flow. With `deep`, the flow as its file has it, also of what its sinks hold."""

    database: Database
    log: Log
    flow: str
    deep: Flow | None = None
    error_topic: str | None = None
    places: PlaceSource | None = None
    telling: Telling = _quiet
    _problems: list[Problem] = field(default_factory=list)
    _unproven: list[Unproven] = field(default_factory=list)

    def run(self) -> AuditVerdict:
        name = self.error_topic or (self.deep.error_topic if self.deep is not None else None)
        view = take_view(self.database, self.log, self.flow, FlowTopics.of(self.flow, name).errors, self.places)
        for stage in view.stages:
            self._take(check_chain(stage))
        errors = read_errors(self.log, view, self.telling("errors read"))
        self._take(check_errors(errors))
        builder = BalanceBuilder(view, RecordCounter(self.log, self.telling("counted")).count(view), errors)
        self._take(builder.run())
        if self.places is not None and view.holdings is not None:
            self._take(Settlement(self.log, view, errors, self.places, view.holdings).run(builder.balance))
        outputs = [verdict for stage in view.stages for verdict in self._outputs(stage, errors)]
        told = {
            "repeats": errors.repeats,
            "of_open_batches": errors.uncommitted,
            "of_later_batches": errors.later,
        }
        batches = sum(1 for stage in view.stages for _ in stage.committed)
        return AuditVerdict(self.flow, batches, builder.balance, outputs, self._problems, self._unproven, told)

    def _take(self, found: Iterable[Problem | Unproven]) -> None:
        for each in found:
            if isinstance(each, Problem):
                self._problems.append(each)
            else:
                self._unproven.append(each)

    # Outputs

    def _outputs(self, stage: StageRows, errors: ErrorsFound) -> list[OutputVerdict]:
        names = sorted({name for batch in stage.committed for name in batch.outputs})
        declared = {output.name: output for output in self.deep.outputs} if self.deep is not None else {}
        return [self._output(stage, name, declared.get(name), errors) for name in names]

    def _output(self, stage: StageRows, name: str, output: Output | None, errors: ErrorsFound) -> OutputVerdict:
        delivered = sum(batch.delivered(name) for batch in stage.committed)
        if self.deep is None:
            return OutputVerdict(stage.name, name, delivered)
        if output is None:
            why = "the flow file has no output of this name"
            return OutputVerdict(stage.name, name, delivered, Proof.NOT_PROVABLE, why=why)
        from towpath.flow.sinks.registry import open_reader  # sinks need their own packages

        ids = DeliveryIds(stage.flow, stage.name, name)
        reader = open_reader(output.sink, self.log, stage.topics, ids, self.deep.delivery)
        if isinstance(reader, UnreadableSink):
            return OutputVerdict(stage.name, name, delivered, Proof.NOT_PROVABLE, why=reader.why)
        try:
            if isinstance(reader, IndexReader):
                return self._by_versions(stage, output, delivered, reader, errors)
            return self._by_ids(stage, name, delivered, reader, errors)
        finally:
            reader.close()

    def _by_ids(
        self, stage: StageRows, name: str, delivered: int, reader: SinkReader, errors: ErrorsFound
    ) -> OutputVerdict:
        found = take_ids(reader, self.telling(f"read back from {name}"))
        segments = segments_of(list(stage.batches), self._beyond(stage), returned_to(self.log, stage))
        check = OutputCheck(stage, name, segments, reader, errors)
        before = len(self._problems)
        self._take(check.run(found))
        proof, why = (Proof.PARTLY, reader.why_part) if reader.reach is SinkReach.PART else (Proof.PROVEN, "")
        proof = Proof.WRONG if len(self._problems) > before else proof
        return OutputVerdict(stage.name, name, delivered, proof, check.found, check.matched.repeats, why)

    def _by_versions(
        self, stage: StageRows, output: Output, delivered: int, reader: IndexReader, errors: ErrorsFound
    ) -> OutputVerdict:
        from towpath.flow.sinks.template import starred

        sink, before = output.sink, len(self._problems)
        expected = ExpectedIds.of(stage, output)
        if expected is not None:
            expected.read(self.log, errors, self.telling(f"expected in {output.name}"))
        reader.refresh(starred(sink.target))
        by_input = isinstance(sink, IndexSink) and sink.version == INPUT
        check = VersionCheck(stage, output.name, self._beyond(stage), by_input)
        self._take(check.run(_seen(reader.scan(starred(sink.target)), expected)))
        self._take(expected.problems() if expected is not None else ())
        proof = Proof.WRONG if len(self._problems) > before else Proof.PARTLY
        why = OWN_IDS if expected is None else BLIND if expected.is_blind else NEWEST_OF_ID
        return OutputVerdict(stage.name, output.name, delivered, proof, check.found, why=why)

    def _beyond(self, stage: StageRows) -> list[OffsetRange]:
        """What was delivered since the view was taken comes from records that are in the topics by now."""
        topics: dict[str, TopicState] = {name: topic_state(self.log, name) for name in stage.topics}
        return in_flight(stage, topics)


def _seen(documents: Iterable[IndexedDocument], expected: ExpectedIds | None) -> Iterator[Versioned]:
    """The documents, each told to whoever expects some."""
    for one in documents:
        if expected is not None:
            expected.see(one.id, one.version)
        yield Versioned(one.version, f"{one.id} of {one.target}")


def audit_within(
    database: Database, log: Log, flow: str, within_s: float, error_topic: str | None, places: PlaceSource | None
) -> BoundedVerdict:
    """Count the records of a flow, if that can be done in time; raises `UnknownFlow`."""
    stage_statuses(database, flow)
    anyway = f"towpath audit {flow}"
    until = time.monotonic() + within_s

    def telling(what: str) -> Progress:
        def progress(done: int) -> None:
            if time.monotonic() >= until:
                raise _OutOfTime()

        return progress

    try:
        if within_s <= 0:
            return BoundedVerdict(None, "nothing was counted, as was asked for")
        if _count_batches(database, flow) > MOST_BATCHES:
            return BoundedVerdict(None, f"it has more than {MOST_BATCHES:,} batches; to count all the same: {anyway}")
        offsets = _count_offsets(database, log, flow, error_topic)
        if offsets > MOST_OFFSETS:
            return BoundedVerdict(None, f"up to {offsets:,} records would have to be read; to do that: {anyway}")
        return BoundedVerdict(Audit(database, log, flow, None, error_topic, places, telling).run())
    except _OutOfTime:
        return BoundedVerdict(None, f"it takes longer than {within_s:g} s; without a limit: {anyway}")
    except LogError as error:
        return BoundedVerdict(None, f"the topics cannot be read: {error}")


class BoundedVerdict(NamedTuple):
    """A verdict, or why there is none."""

    verdict: AuditVerdict | None
    why: str = ""


class _OutOfTime(Exception):
    """It takes too long."""


def _count_batches(database: Database, flow: str) -> int:
    """No further than one beyond the most."""
    sql = Queries("towpath.flow.audit", "audit", database.dialect)
    with database.read() as tx:
        [(count,)] = tx.rows(sql["count_batches"], {"flow": flow, "most": MOST_BATCHES + 1})
    return int(count)


def _count_offsets(database: Database, log: Log, flow: str, error_topic: str | None) -> int:
    own = FlowTopics.of(flow, error_topic)
    names = {own.errors, *(name for look in stage_statuses(database, flow) for name in look.stage.topics)}
    found = [topic_state(log, name) for name in names]
    return sum(end - each.starts.get(number, 0) for each in found for number, end in each.ends.items())


def ledger_balance(database: Database, flow: str, places: PlaceSource | None = None) -> LedgerBalance:
    """Raises `UnknownFlow`."""
    found = stage_statuses(database, flow)
    ledger = Ledger(database)
    total: Counter[str] = Counter()
    with database.read() as tx:
        for counts in ledger.totals(tx, flow).values():
            total.update(counts_of(counts))
        gaps = ledger.gaps(tx, flow)
        desk = _desk(tx, flow, places)
    lags = [look.stage.sample["lag"] for look in found if "lag" in look.stage.sample]
    return LedgerBalance(
        total["read"],
        {place: total[place] for place in BY_BATCH if total[place]},
        desk,
        sum(lags) if len(lags) == len(found) else None,
        sum(gap.stop - gap.start for gap in gaps),
    )


@dataclass(frozen=True, slots=True)
class LedgerBalance:
    """Figures in records, of all stages. What failed is counted once more at the desk, which has come to it."""

    read: int
    places: Mapping[RecordPlace, int]  # where batches have put what they read
    desk: Mapping[RecordPlace, int] = field(default_factory=dict)  # where those are now that have failed
    lag: int | None = None  # offsets that were not read when the stages last looked; None: not known
    skipped: int = 0  # offsets: at most so many records

    @property
    def difference(self) -> int:
        """Not 0: the ledger contradicts itself."""
        return self.read - sum(self.places.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "places": dict(self.places),
            "difference": self.difference,
            "desk": dict(self.desk),
            "in_flight_at_most": self.lag,
            "skipped_at_most": self.skipped,
        }


def _desk(tx: Transaction, flow: str, places: PlaceSource | None) -> dict[RecordPlace, int]:
    holdings = None if places is None else places.holdings(tx, flow)
    found: Counter[RecordPlace] = Counter()
    for (_, place), count in () if holdings is None else holdings.places.items():
        found[place] += count
    return {place: found[place] for place in RecordPlace if found[place]}
