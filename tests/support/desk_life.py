"""A flow with a desk behind it, made by hand step by step, without Spark: batches that read what comes back too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.audited import FLOW, ME, STAGE, Audited
from tests.support.desk import Heard, intake_of
from tests.support.quiet import Quiet

from towpath.db.database import Query
from towpath.desk.cases.model import Case, CaseSelection, CaseState
from towpath.desk.cases.store import CaseStore
from towpath.desk.intake.ingest import ReadPurpose
from towpath.desk.intake.service import DeskIntake
from towpath.desk.record_queries import DeskPlaceSource
from towpath.desk.replay.outbox import OutboxItem, OutboxStore, OutboxTarget, OutboxWriter
from towpath.flow.audit.audit import Audit
from towpath.flow.audit.balance import AuditVerdict
from towpath.flow.delivery.ids import batch_hash
from towpath.flow.delivery.ledger import Batch
from towpath.flow.delivery.positions import OffsetRange, Positions
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.records.errors import PREFIX, BatchName, error_records, names_of
from towpath.flow.records.reentry import CORRELATION, KIND, carried, reentry_record, said_by
from towpath.flow.worker.report import FailedRecord
from towpath.log import Log, NewRecord, Record

FAILURE = RecordFailure(ErrorCode.TRANSFORM_FAILED, "label", "KeyError", "'zz'")
FATES = ("loaded", "filtered", "failed")


class Life(Audited):
    """A record's value says what becomes of it; of one that comes back, `fate` does."""

    def __init__(self, quiet: Quiet, log: Log) -> None:
        self.reentry_at = 0
        super().__init__(quiet, log)
        self.quiet = quiet
        self.cases = CaseStore(self.database)
        self.sends = OutboxWriter(self.database)
        self.outbox = OutboxStore(self.database)
        self.intake: DeskIntake = intake_of(quiet.runtime, Heard())
        self.intake._log = lambda: log
        self.lane: list[OutboxItem] = []
        self.back: dict[tuple[int, str], str] = {}  # by batch and place in the re-entry topic: what became of it

    # The flow

    def begin(self, before: Any, starts: dict[int, int]) -> None:
        super().begin(before, starts)
        self.reentry_at = 0

    def snapshot(self) -> Batch:
        reentry = self.log.topic(self.topics.reentry)
        generation = self.stage.generation
        ends = self.log.ends(self.name)
        ranges = [OffsetRange(self.name, self.topic.id, number, self.at[number], end) for number, end in ends.items()]
        ranges.append(OffsetRange(reentry.name, reentry.id, 0, self.reentry_at, self.log.ends(reentry.name)[0]))
        positions = Positions.of(ranges)
        hash = batch_hash(self.flow, STAGE, generation, self.next_batch, positions)
        with self.database.transaction() as tx:
            return self.ledger.snapshot(tx, self.flow, STAGE, generation, self.next_batch, hash, positions)

    def decide(self, batch: Batch, fate: Callable[[], str]) -> dict[tuple[str, int, int], str]:
        """What becomes of each record of a batch."""
        return {
            (each.topic, each.partition, each.offset): (each.value or b"").decode()
            if each.topic == self.name
            else fate()
            for each in self.read_by(batch)
        }

    def tell_errors(self, batch: Batch, fates: dict[tuple[str, int, int], str]) -> None:
        failed = [
            FailedRecord(*record[:6], record.headers, FAILURE, None, None)
            for record in self.read_by(batch)
            if fates[record.topic, record.partition, record.offset] == "failed"
        ]
        ids = {self.name: self.topic.id, self.topics.reentry: self.log.topic(self.topics.reentry).id}
        told = error_records(failed, self.named(batch), ids, lambda one: carried(one.headers))
        self.log.append(self.topics.errors, list(told))

    def tell_outcomes(self, batch: Batch, fates: dict[tuple[str, int, int], str]) -> None:
        for record in self.read_by(batch):
            said = said_by(record.headers)
            if record.topic != self.name and said.get(CORRELATION):
                fate = fates[record.topic, record.partition, record.offset]
                details = {
                    "kind": KIND,
                    **names_of(self.named(batch)),
                    **carried(record.headers),
                    "fate": fate,
                    "step": "s",
                }
                headers = tuple((PREFIX + name, text.encode()) for name, text in details.items())
                self.log.append(self.topics.outcomes, [NewRecord(None, said[CORRELATION].encode(), headers)])

    def finish(self, batch: Batch, fates: dict[tuple[str, int, int], str]) -> None:
        """The batch is committed."""
        found = Counter(fates.values())
        counts: dict[str, Any] = {
            "read": len(fates),
            "loaded": found["loaded"],
            "filtered": {"views": found["filtered"]},
            "failed": {"9": found["failed"]},
            "delivered": {"out": found["loaded"]},
        }
        key = (batch.flow, batch.stage, batch.generation, batch.batch_id)
        with self.database.transaction() as tx:
            self.ledger.commit(tx, *key, counts=counts, digests={"out": {"0": "00" * 32}})
        for each in batch.positions:
            if each.topic == self.name:
                self.at[each.partition] = each.stop
            else:
                self.reentry_at = each.stop
        self.next_batch += 1

    def run_batch(self, *fates: str) -> None:
        """One batch from its snapshot to its commit; what comes back gets these fates in turn."""
        left = list(fates)
        batch = self.snapshot()
        decided = self.decide(batch, lambda: left.pop(0))
        self.tell_errors(batch, decided)
        self.tell_outcomes(batch, decided)
        self.finish(batch, decided)

    def read_by(self, batch: Batch) -> list[Record]:
        return [
            record
            for each in batch.positions
            if each.start < each.stop
            for record in self.log.read(each.topic, each.partition, each.start, each.stop)
        ]

    def named(self, batch: Batch) -> BatchName:
        return BatchName(self.flow, STAGE, "", batch.generation, batch.batch_id, batch.hash, ME)

    # The desk

    def take(self, *readings: ReadPurpose) -> int:
        """Take in what lies in some of the topics."""
        wanted = readings or tuple(ReadPurpose)
        return sum(self.intake._read(each) for each in self.intake.sources() if each.reading in wanted)

    def all_cases(self, *states: CaseState) -> list[Case]:
        with self.database.read() as tx:
            found = self.cases.page(tx, CaseSelection(states=states or None), 10_000)
        return sorted(found, key=lambda case: case.seq)

    def replay(self, cases: Sequence[Case], delay_s: float | None = None) -> None:
        with self.database.transaction() as tx:
            self.sends.replay(tx, cases, delay_s=delay_s, frm=(CaseState.OPEN,), who="ann", why="again")

    def resend(self, cases: Sequence[Case]) -> None:
        with self.database.transaction() as tx:
            self.sends.resend(tx, cases, who="ann", why="anew")

    def abandon(self, cases: Sequence[Case]) -> None:
        with self.database.transaction() as tx:
            ids = [case.id for case in cases]
            self.cases.move(tx, ids, CaseState.ABANDONED, who="ann", why="test data", ticket=True)

    def relay(self) -> None:
        """What the relay does, act by act: rows of the outbox go to their topics."""
        with self.database.read() as tx:
            rows = self.outbox.page(tx, self.flow, 0, 10_000)
        for row in rows:
            if row.is_wanted and row.target is OutboxTarget.LANE:
                self.lane.append(row)
            elif row.is_wanted and row.target is OutboxTarget.REENTRY:
                self._send_back(row.case_id, row.attempt)
            elif row.is_wanted:
                self.log.append(self.name, [NewRecord(b"loaded", partition=0)])
                with self.database.transaction() as tx:
                    self.cases.move(
                        tx, [row.case_id], CaseState.RESENT, frm=(CaseState.REPLAYING,), who="ann", why="anew"
                    )
        if rows:
            with self.database.transaction() as tx:
                self.outbox.delete(tx, self.flow, rows[-1].seq)

    def release(self) -> None:
        """What a replayer does when all in the lanes is due."""
        for row in self.lane:
            with self.database.transaction() as tx:
                case = self.cases.lock(tx, [row.case_id])[row.case_id]
                is_valid = case.ticket == row.ticket and case.state is CaseState.WAITING
                if is_valid:
                    self.cases.move(tx, [case.id], CaseState.REPLAYING, who="towpath", why="due")
            if is_valid:
                self._send_back(row.case_id, row.attempt)
        self.lane.clear()

    def _send_back(self, case_id: str, attempt: int) -> None:
        with self.database.read() as tx:
            case, body = self.cases.read(tx, case_id), self.cases.bodies(tx, [case_id])[case_id]
        error = Record("", 0, 0, 0, case.key, body.value, body.headers)
        self.log.append(self.topics.reentry, [reentry_record(error, case_id, attempt)._replace(partition=0)])

    # The audit

    def audit(self) -> AuditVerdict:
        return Audit(self.database, self.log, FLOW, places=DeskPlaceSource(self.database)).run()

    def places(self) -> dict[str, int]:
        found = self.audit()
        assert found.problems == []
        assert found.is_balanced, found.balance
        return {place.value: count for place, count in found.balance.places.items() if count}

    def sql(self, statement: str) -> None:
        with self.database.transaction() as tx:
            tx.run(Query("test", statement, uses_now=False), {})
