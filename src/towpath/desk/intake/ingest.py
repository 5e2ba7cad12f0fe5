"""Takes a portion of an error topic in: acts 2 to 4 of docs/explanation/desk.md.

Which failures are new cases, which belong to one that is known, and which were told before. Pure.

From what was told to rows: a new case, or one more attempt of a known one. Pure.

Where the body of an error record goes: into a row, or into a file when it is too large for one.

The table `desk_position`: how far the desk is in topics of flows. Moves with what was made of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.db import Database, Queries, Transaction
from towpath.desk.cases.blobs import Blobs
from towpath.desk.cases.model import GAP, STRAY, Case, CaseState, NewAttempt, NewCase
from towpath.desk.cases.store import AttemptStore, CaseStore, is_case_id
from towpath.desk.edits import EditStore
from towpath.desk.intake.decision import OPEN, CaseRoute, CaseRouter, GroupAssigner
from towpath.desk.intake.error_reader import ParsedError, parse_error, read_stray
from towpath.desk.policies.rules import AutoEditor, RuleEdit, marked
from towpath.desk.policies.store import PolicyStore
from towpath.desk.replay.outbox import NewOutboxItem, OutboxWriter, Parking
from towpath.errors import DatabaseUnavailable
from towpath.log.record import Record


class SortedErrors(NamedTuple):
    """All that was told is in one of the three."""

    new: list[ParsedError]
    again: list[tuple[ParsedError, Case]]  # with the case as it was before
    repeats: int


def sort(
    told: Iterable[ParsedError], known: Mapping[str, Case], there: Collection[str], batches: Collection[tuple[str, str]]
) -> SortedErrors:
    """Put each to its case.

    `known` are the cases whose ids came as correlation ids, `there` the ids of new ones that have a case already, and
    `batches` the hashes of the batches in which known ones have failed, each with the id of its case.
    """
    new: list[ParsedError] = []
    again: dict[str, tuple[ParsedError, Case]] = {}
    seen, repeats = set(there), 0
    for each in told:
        case = known.get(each.correlation)
        if case is not None and not _fits(each, case):
            case = None
        if case is not None and _is_repeat(each, case, batches, again):
            repeats += 1
        elif case is not None and not case.state.is_settled:
            again[case.id] = (each, case)
        elif each.case_id in seen:
            repeats += 1
        else:
            seen.add(each.case_id)
            new.append(each)
    return SortedErrors(new, list(again.values()), repeats)


def _fits(told: ParsedError, case: Case) -> bool:
    """What somebody else has sent under the id of a case is not that case."""
    return told.flow == case.flow and told.stage == case.stage and told.kind == case.kind != GAP


def _is_repeat(
    told: ParsedError, case: Case, batches: Collection[tuple[str, str]], again: Mapping[str, tuple[ParsedError, Case]]
) -> bool:
    """Told before in the same batch, or read again, after a reset, by a later one: a try counts once."""
    return (case.id, told.hash) in batches or told.attempt <= case.attempts or case.id in again


def case_of(told: ParsedError, body: StoredBody | None, group: int, way: CaseRoute) -> NewCase:
    """The case of a first failure; `body` is given when it is not in the record."""
    code, step, exception, message, _ = told.failure
    record = told.record
    value, blob, size = (record.value, None, len(record.value or b"")) if body is None else (None, *body)
    is_ignored = way.state is CaseState.IGNORED
    return NewCase(
        told.case_id,
        told.flow,
        told.stage,
        told.kind,
        group,
        told.fingerprint.text,
        way.state,
        int(code),
        step,
        exception,
        message,
        told.output,
        told.topic,
        told.topic_id,
        told.partition,
        told.offset,
        told.stop,
        record.key,
        told.hash,
        record.topic,
        record.partition,
        record.offset,
        told.failed_at,
        size,
        value,
        blob,
        told.headers if way.mended is None or told.headers is None else marked(told.headers, way.mended),
        told.trace_id,
        told.version,
        told.process,
        key_hash=told.key_hash,
        ticket=int(way.is_sent),
        lane=way.lane,
        due_at=way.due_at,
        behind=way.behind,
        rule=way.rule,
        edit=int(way.mended is not None),
        settled_by=way.approved_by if is_ignored else None,
        settled_why=f"by rule {way.rule}" if is_ignored else None,
    )


def attempt_of(told: ParsedError, case: Case, group: int) -> NewAttempt:
    """The next failure of a known case."""
    code, step, exception, message, _ = told.failure
    return NewAttempt(
        case.id,
        case.attempts + 1,
        group,
        told.fingerprint.text,
        int(code),
        step,
        exception,
        message,
        told.output,
        told.trace_id,
        told.hash,
        told.version,
        told.process,
        told.record.topic,
        told.record.partition,
        told.record.offset,
        told.failed_at,
    )


WHO = "towpath"
FAILED_AGAIN = "it has failed again"


class IngestResult(NamedTuple):
    """What a portion has come to."""

    new: int = 0
    again: int = 0
    repeats: int = 0


def read_portion(
    at: DeskPosition, records: Sequence[Record], others: Collection[str] = (), fault: str = ""
) -> list[ParsedError]:
    """What is told to a flow. `others` are flows that have the same error topic: what is theirs is left to them.

    `fault` says why none of the records could be taken in as what it is: each is a stray then.
    """
    readers = (at.flow, *others)
    read = (_read(record, at, readers, fault) for record in records)
    return [each for each in read if each.flow == at.flow]


@dataclass(slots=True)
class ErrorIngest:
    """Takes portions in, each in one transaction with the position that comes after it."""

    database: Database
    bodies: Bodies
    grouping: GroupAssigner
    mender: AutoEditor
    cases: CaseStore
    attempts: AttemptStore
    positions: DeskPositionStore
    policies: PolicyStore
    sends: OutboxWriter
    edits: EditStore
    parking: Parking

    def take(self, at: DeskPosition, told: Sequence[ParsedError], to: int) -> IngestResult:
        """Take in what was told, and go on from there to `to`."""
        with self.bodies.kept(told) as kept:
            with self.database.transaction() as tx:
                self.positions.move(tx, at, to, len(told))
                found = self._sort(tx, told)
                self._write(tx, at, found, kept)
                crash.here(CrashPoint.DESK_ERRORS_BEFORE_COMMIT)
            crash.here(CrashPoint.DESK_ERRORS_AFTER_COMMIT)
        return IngestResult(len(found.new), len(found.again), found.repeats)

    def _sort(self, tx: Transaction, told: Sequence[ParsedError]) -> SortedErrors:
        wanted = sorted({each.correlation for each in told if is_case_id(each.correlation)})
        known = self.cases.lock(tx, wanted)
        there = self.attempts.there(tx, [each.case_id for each in told])
        return sort(told, known, there, self.attempts.batches_of(tx, known))

    def _write(self, tx: Transaction, at: DeskPosition, found: SortedErrors, kept: Mapping[str, StoredBody]) -> None:
        now, policies = self.database.now(), self.policies.policies(tx)
        every = [*found.new, *(told for told, _ in found.again)]
        leads = self.grouping.of(tx, at.flow, every)
        self.attempts.keep_traces(tx, {each.trace_id: each.trace for each in every if each.trace_id is not None})
        keys = {each.key_hash for each in found.new if each.key_hash is not None}
        last = self.parking.behind(tx, at.flow, keys)
        deciding = CaseRouter(tx, at.flow, policies, self.sends, self.mender, now, last)
        queued = self._open(tx, found.new, kept, leads, deciding)
        queued += self._fail_again(tx, found.again, leads, deciding)
        self.sends.queue(tx, at.flow, queued)
        self.positions.count_repeats(tx, at, found.repeats)

    def _open(
        self,
        tx: Transaction,
        new: Sequence[ParsedError],
        kept: Mapping[str, StoredBody],
        leads: Mapping[str, int],
        deciding: CaseRouter,
    ) -> list[NewOutboxItem]:
        """New cases; returns what is to be sent of them."""
        cases, queued, made = [], [], []
        for told in new:
            body = kept.get(told.case_id)
            is_lost = body is not None and body.blob is None
            way = OPEN if is_lost else deciding.first_way(told)
            case = case_of(told, body, leads[told.fingerprint.text], way)
            cases.append(case)
            if way.is_sent:
                queued.append(NewOutboxItem(case.id, case.ticket, 2, way.lane, way.due_at))
            if way.mended is not None:
                made.append(RuleEdit(case.id, case.edit, 1, way.mended))
        self.cases.insert(tx, cases)
        self._mend(tx, made)
        return queued

    def _fail_again(
        self, tx: Transaction, again: Sequence[tuple[ParsedError, Case]], leads: Mapping[str, int], deciding: CaseRouter
    ) -> list[NewOutboxItem]:
        """Known cases get one more attempt; returns what is to be sent of them."""
        self.cases.fail_again(tx, [attempt_of(told, case, leads[told.fingerprint.text]) for told, case in again])
        self.attempts.set_headers(tx, {case.id: told.headers for told, case in again if told.headers is not None})
        moves: dict[CaseRoute, list[Case]] = {}
        made: list[RuleEdit] = []
        for told, case in again:
            if case.state is CaseState.REPLAYING:
                way = deciding.way(told, case.attempts + 1, is_mended=case.edit > 0)
                if way.mended is not None:
                    made.append(RuleEdit(case.id, self.edits.last(tx, case.id) + 1, case.attempts + 1, way.mended))
                    self._go_on_with(tx, told, case, made[-1])
                moves.setdefault(way._replace(mended=None), []).append(case)
        self._mend(tx, made)
        return [queued for way, cases in moves.items() for queued in self._move(tx, way, cases)]

    def _move(self, tx: Transaction, way: CaseRoute, cases: Sequence[Case]) -> list[NewOutboxItem]:
        ids = [case.id for case in cases]
        if way.state is CaseState.REPLAYING:
            self.cases.raise_tickets(tx, ids)
        else:
            self.cases.move(
                tx,
                ids,
                way.state,
                frm=(CaseState.REPLAYING,),
                who=way.approved_by or WHO,
                why=FAILED_AGAIN,
                ticket=way.is_sent,
                lane=way.lane,
                due_at=way.due_at,
                rule=way.rule,
            )
        if way.state is CaseState.IGNORED:
            self.parking.release(tx, ids)
        if not way.is_sent:
            return []
        return [NewOutboxItem(case.id, case.ticket + 1, case.attempts + 2, way.lane, way.due_at) for case in cases]

    def _go_on_with(self, tx: Transaction, told: ParsedError, case: Case, made: RuleEdit) -> None:
        """A record that has failed before is mended now, and goes back as what it is then."""
        self.cases.set_edit(tx, case.id, made.edit, frm_edit=case.edit)
        if told.headers is not None:
            self.attempts.set_headers(tx, {case.id: marked(told.headers, made.mended)})

    def _mend(self, tx: Transaction, made: Sequence[RuleEdit]) -> None:
        for each in made:
            self.edits.add(tx, each.case_id, each.edit, each.mended.value, who=each.mended.who, why=each.mended.why)
        if made:
            self.mender.made(tx, made)


def _read(record: Record, at: DeskPosition, readers: Collection[str], fault: str) -> ParsedError:
    """What none of those who read the topic has written is for the first of them."""
    told = read_stray(record, at.topic_id, fault) if fault else parse_error(record, at.topic_id)
    if told.kind != STRAY and told.flow not in readers:
        told = read_stray(record, at.topic_id, f"an error of flow {told.flow!r}, which has never run here")
    return told._replace(flow=min(readers)) if told.kind == STRAY else told


class StoredBody(NamedTuple):
    """A body that is a file; or that is lost, because the file that the flow had put it into is not there."""

    blob: str | None
    size: int


class Bodies:
    """Puts large bodies away before anything names them."""

    def __init__(self, blobs: Blobs, flow_blobs: Callable[[str], Path], large_bytes: int) -> None:
        """`flow_blobs` says where a flow puts what is too large for its error topic."""
        self._blobs = blobs
        self._flow_blobs = flow_blobs
        self._large_bytes = large_bytes

    @contextmanager
    def kept(self, told: Iterable[ParsedError]) -> Iterator[dict[str, StoredBody]]:
        """The large ones by the id of their case. Nothing of it is swept up until the block ends."""
        large = [each for each in told if each.blob is not None or len(each.record.value or b"") > self._large_bytes]
        if not large:
            yield {}
            return
        with self._blobs.held():
            kept = {each.case_id: self._keep(each) for each in large}
            crash.here(CrashPoint.DESK_BODIES_KEPT)
            yield kept

    def _keep(self, told: ParsedError) -> StoredBody:
        value = told.record.value or b""
        if told.blob is None:
            return StoredBody(self._blobs.keep(value), len(value))
        if not self._blobs.adopt(told.blob, self._flow_blobs(told.flow)):
            return StoredBody(None, 0)
        return StoredBody(told.blob, self._blobs.size(told.blob))


class ReadPurpose(StrEnum):
    """What a topic is read for."""

    ERRORS = "errors"
    OUTCOMES = "outcomes"


class DeskPosition(NamedTuple):
    """Where the desk goes on in one partition, and what it has read there for the flow."""

    flow: str
    topic: str
    topic_id: str
    partition: int
    reading: ReadPurpose
    position: int
    records: int = 0
    repeats: int = 0


class DeskPositionStore:
    """Reads and moves positions inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk.intake", "positions", database.dialect)

    def of_flow(self, tx: Transaction, flow: str) -> list[DeskPosition]:
        rows = tx.rows(self._sql["positions"], {"flow": flow})
        return [
            DeskPosition(flow, topic, topic_id, partition, ReadPurpose(kind), *counts)
            for topic, topic_id, partition, kind, *counts in rows
        ]

    def begin(self, tx: Transaction, position: DeskPosition) -> None:
        """Nothing happens when another has begun with that partition."""
        flow, topic, topic_id, partition, reading, at, *_ = position
        said = {"flow": flow, "topic": topic, "topic_id": topic_id, "partition": partition, "kind": reading}
        tx.run(self._sql["begin_position"], {**said, "position": at})

    def move(self, tx: Transaction, position: DeskPosition, to: int, records: int = 0) -> None:
        """Go on from there; `DatabaseUnavailable` when another was faster: nothing of this transaction counts."""
        moved = {"from_position": position.position, "to": to, "records": records}
        if not tx.rows(self._sql["move_position"], {**_where(position), **moved}):
            raise DatabaseUnavailable(
                f"another intake has read {position.topic}/{position.partition} beyond {position.position}; "
                "nothing was written"
            )

    def count_repeats(self, tx: Transaction, position: DeskPosition, repeats: int) -> None:
        """Some of what was read had been told before."""
        if repeats:
            tx.run(self._sql["count_repeats"], {**_where(position), "repeats": repeats})


def _where(position: DeskPosition) -> dict[str, str | int]:
    return {"flow": position.flow, "topic_id": position.topic_id, "partition": position.partition}
