"""Takes a portion of an error topic in: acts 2 to 4 of docs/explanation/desk.md.

`sort` decides which failures are new cases, which belong to a known case, and which are repeats. Large bodies become
files before any row names them. The table `desk_position` says how far the desk is in topics of flows; it moves in
the transaction that writes what was made of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from towpath.desk.replay.outbox import TOWPATH, NewOutboxItem, OutboxWriter, Parking
from towpath.errors import DatabaseUnavailable
from towpath.log.record import Record

FAILED_AGAIN = "it has failed again"


class ErrorIngest:
    """Takes portions in, each in one transaction with the position that comes after it."""

    def __init__(self, database: Database, bodies: Bodies, grouping: GroupAssigner, editor: AutoEditor | None) -> None:
        self._database = database
        self._bodies = bodies
        self._grouping = grouping
        self._editor = editor
        self._cases = CaseStore(database)
        self._attempts = AttemptStore(database)
        self._positions = DeskPositionStore(database)
        self._policies = PolicyStore(database)
        self._sends = OutboxWriter(database)
        self._edits = EditStore(database)
        self._parking = Parking(database)

    def take(self, at: DeskPosition, errors: Sequence[ParsedError], to: int) -> IngestResult:
        """Take failures in, and go on from there to `to`."""
        with self._bodies.kept(errors) as kept:
            with self._database.transaction() as tx:
                self._positions.move(tx, at, to, len(errors))
                found = self._sort(tx, errors)
                self._write(tx, at, found, kept)
                crash.here(CrashPoint.DESK_ERRORS_BEFORE_COMMIT)
            crash.here(CrashPoint.DESK_ERRORS_AFTER_COMMIT)
        return IngestResult(len(found.new), len(found.again), found.repeats)

    def _sort(self, tx: Transaction, errors: Sequence[ParsedError]) -> SortedErrors:
        wanted = sorted({each.correlation for each in errors if is_case_id(each.correlation)})
        known = self._cases.lock(tx, wanted)
        there = self._attempts.there(tx, [each.case_id for each in errors])
        return sort(errors, known, there, self._attempts.batches_of(tx, known))

    def _write(self, tx: Transaction, at: DeskPosition, found: SortedErrors, kept: Mapping[str, StoredBody]) -> None:
        now, policies = self._database.now(), self._policies.policies(tx)
        every = [*found.new, *(error for error, _ in found.again)]
        leads = self._grouping.of(tx, at.flow, every)
        self._attempts.keep_traces(tx, {each.trace_id: each.trace for each in every if each.trace_id is not None})
        keys = {each.key_hash for each in found.new if each.key_hash is not None}
        last = self._parking.behind(tx, at.flow, keys)
        router = CaseRouter(tx, at.flow, policies, self._sends, self._editor, now, last)
        queued = self._open(tx, found.new, kept, leads, router)
        queued += self._fail_again(tx, found.again, leads, router)
        self._sends.queue(tx, at.flow, queued)
        self._positions.count_repeats(tx, at, found.repeats)

    def _open(
        self,
        tx: Transaction,
        new: Sequence[ParsedError],
        kept: Mapping[str, StoredBody],
        leads: Mapping[str, int],
        router: CaseRouter,
    ) -> list[NewOutboxItem]:
        """New cases; returns what is to be sent of them."""
        cases, queued, made = [], [], []
        for error in new:
            body = kept.get(error.case_id)
            is_lost = body is not None and body.blob is None
            route = OPEN if is_lost else router.first_route(error)
            case = case_of(error, body, leads[error.fingerprint.text], route)
            cases.append(case)
            if route.is_sent:
                queued.append(NewOutboxItem(case.id, case.ticket, 2, route.lane, route.due_at))
            if route.mended is not None:
                made.append(RuleEdit(case.id, case.edit, 1, route.mended))
        self._cases.insert(tx, cases)
        self._mend(tx, made)
        return queued

    def _fail_again(
        self, tx: Transaction, again: Sequence[tuple[ParsedError, Case]], leads: Mapping[str, int], router: CaseRouter
    ) -> list[NewOutboxItem]:
        """Known cases get one more attempt; returns what is to be sent of them."""
        self._cases.fail_again(tx, [attempt_of(error, case, leads[error.fingerprint.text]) for error, case in again])
        self._attempts.set_headers(tx, {case.id: error.headers for error, case in again if error.headers is not None})
        moves: dict[CaseRoute, list[Case]] = {}
        made: list[RuleEdit] = []
        for error, case in again:
            if case.state is CaseState.REPLAYING:
                route = router.route(error, case.attempts + 1, is_mended=case.edit > 0)
                if route.mended is not None:
                    made.append(RuleEdit(case.id, self._edits.last(tx, case.id) + 1, case.attempts + 1, route.mended))
                    self._go_on_with(tx, error, case, made[-1])
                moves.setdefault(route._replace(mended=None), []).append(case)
        self._mend(tx, made)
        return [queued for route, cases in moves.items() for queued in self._move(tx, route, cases)]

    def _move(self, tx: Transaction, route: CaseRoute, cases: Sequence[Case]) -> list[NewOutboxItem]:
        ids = [case.id for case in cases]
        if route.state is CaseState.REPLAYING:
            self._cases.raise_tickets(tx, ids)
        else:
            self._cases.move(
                tx,
                ids,
                route.state,
                frm=(CaseState.REPLAYING,),
                who=route.approved_by or TOWPATH,
                why=FAILED_AGAIN,
                ticket=route.is_sent,
                lane=route.lane,
                due_at=route.due_at,
                rule=route.rule,
            )
        if route.state is CaseState.IGNORED:
            self._parking.release(tx, ids)
        if not route.is_sent:
            return []
        return [NewOutboxItem(case.id, case.ticket + 1, case.attempts + 2, route.lane, route.due_at) for case in cases]

    def _go_on_with(self, tx: Transaction, error: ParsedError, case: Case, made: RuleEdit) -> None:
        """A record that has failed before is mended now, and goes back as what it is then."""
        self._cases.set_edit(tx, case.id, made.edit, frm_edit=case.edit)
        if error.headers is not None:
            self._attempts.set_headers(tx, {case.id: marked(error.headers, made.mended)})

    def _mend(self, tx: Transaction, made: Sequence[RuleEdit]) -> None:
        for each in made:
            self._edits.add(tx, each.case_id, each.edit, each.mended.value, who=each.mended.who, why=each.mended.why)
        if made and self._editor is not None:
            self._editor.made(tx, made)


class IngestResult(NamedTuple):
    """How many failures of a portion were new, known, or told before."""

    new: int = 0
    again: int = 0
    repeats: int = 0


def read_portion(
    at: DeskPosition, records: Sequence[Record], others: Collection[str] = (), fault: str = ""
) -> list[ParsedError]:
    """The failures of a flow in these records. `others` are flows with the same error topic: theirs are left to them.

    `fault` says why none of the records could be taken in as what it is: each is a stray then.
    """
    readers = (at.flow, *others)
    read = (_read(record, at, readers, fault) for record in records)
    return [each for each in read if each.flow == at.flow]


def _read(record: Record, at: DeskPosition, readers: Collection[str], fault: str) -> ParsedError:
    """Parse a record. A stray, which no reader of the topic has written, goes to the first of the readers."""
    error = read_stray(record, at.topic_id, fault) if fault else parse_error(record, at.topic_id)
    if error.kind != STRAY and error.flow not in readers:
        error = read_stray(record, at.topic_id, f"an error of flow {error.flow!r}, which has never run here")
    return error._replace(flow=min(readers)) if error.kind == STRAY else error


def sort(
    errors: Iterable[ParsedError],
    known: Mapping[str, Case],
    there: Collection[str],
    batches: Collection[tuple[str, str]],
) -> SortedErrors:
    """Put each to its case.

    `known` are the cases whose ids came as correlation ids, `there` the ids of new ones that have a case already, and
    `batches` the hashes of the batches in which known ones have failed, each with the id of its case.
    """
    new: list[ParsedError] = []
    again: dict[str, tuple[ParsedError, Case]] = {}
    seen, repeats = set(there), 0
    for each in errors:
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


class SortedErrors(NamedTuple):
    """Each failure is in one of the three."""

    new: list[ParsedError]
    again: list[tuple[ParsedError, Case]]  # with the case as it was before
    repeats: int


def _fits(error: ParsedError, case: Case) -> bool:
    """What somebody else has sent under the id of a case is not that case."""
    return error.flow == case.flow and error.stage == case.stage and error.kind == case.kind != GAP


def _is_repeat(
    error: ParsedError, case: Case, batches: Collection[tuple[str, str]], again: Mapping[str, tuple[ParsedError, Case]]
) -> bool:
    """Told before in the same batch, or read again, after a reset, by a later one: a try counts once."""
    return (case.id, error.hash) in batches or error.attempt <= case.attempts or case.id in again


def case_of(error: ParsedError, body: StoredBody | None, group: int, route: CaseRoute) -> NewCase:
    """The case of a first failure; `body` is given when it is not in the record."""
    code, step, exception, message, _ = error.failure
    record = error.record
    value, blob, size = (record.value, None, len(record.value or b"")) if body is None else (None, *body)
    is_ignored = route.state is CaseState.IGNORED
    return NewCase(
        error.case_id,
        error.flow,
        error.stage,
        error.kind,
        group,
        error.fingerprint.text,
        route.state,
        int(code),
        step,
        exception,
        message,
        error.output,
        error.topic,
        error.topic_id,
        error.partition,
        error.offset,
        error.stop,
        record.key,
        error.hash,
        record.topic,
        record.partition,
        record.offset,
        error.failed_at,
        size,
        value,
        blob,
        error.headers if route.mended is None or error.headers is None else marked(error.headers, route.mended),
        error.trace_id,
        error.version,
        error.process,
        key_hash=error.key_hash,
        ticket=int(route.is_sent),
        lane=route.lane,
        due_at=route.due_at,
        behind=route.behind,
        rule=route.rule,
        edit=int(route.mended is not None),
        settled_by=route.approved_by if is_ignored else None,
        settled_why=f"by rule {route.rule}" if is_ignored else None,
    )


def attempt_of(error: ParsedError, case: Case, group: int) -> NewAttempt:
    """The next failure of a known case."""
    code, step, exception, message, _ = error.failure
    return NewAttempt(
        case.id,
        case.attempts + 1,
        group,
        error.fingerprint.text,
        int(code),
        step,
        exception,
        message,
        error.output,
        error.trace_id,
        error.hash,
        error.version,
        error.process,
        error.record.topic,
        error.record.partition,
        error.record.offset,
        error.failed_at,
    )


class Bodies:
    """Puts large bodies away before anything names them."""

    def __init__(self, blobs: Blobs, flow_blobs: Callable[[str], Path], large_bytes: int) -> None:
        """`flow_blobs` says where a flow puts what is too large for its error topic."""
        self._blobs = blobs
        self._flow_blobs = flow_blobs
        self._large_bytes = large_bytes

    @contextmanager
    def kept(self, errors: Iterable[ParsedError]) -> Iterator[dict[str, StoredBody]]:
        """The large ones by the id of their case. Nothing of it is swept up until the block ends."""
        large = [each for each in errors if each.blob is not None or len(each.record.value or b"") > self._large_bytes]
        if not large:
            yield {}
            return
        with self._blobs.held():
            kept = {each.case_id: self._keep(each) for each in large}
            crash.here(CrashPoint.DESK_BODIES_KEPT)
            yield kept

    def _keep(self, error: ParsedError) -> StoredBody:
        value = error.record.value or b""
        if error.blob is None:
            return StoredBody(self._blobs.keep(value), len(value))
        if not self._blobs.adopt(error.blob, self._flow_blobs(error.flow)):
            return StoredBody(None, 0)
        return StoredBody(error.blob, self._blobs.size(error.blob))


class StoredBody(NamedTuple):
    """A body that is a file; or that is lost, because the file that the flow had put it into is not there."""

    blob: str | None
    size: int


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
        """Count records that had been read before."""
        if repeats:
            tx.run(self._sql["count_repeats"], {**_where(position), "repeats": repeats})


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


class ReadPurpose(StrEnum):
    """What a topic is read for."""

    ERRORS = "errors"
    OUTCOMES = "outcomes"


def _where(position: DeskPosition) -> dict[str, str | int]:
    return {"flow": position.flow, "topic_id": position.topic_id, "partition": position.partition}
