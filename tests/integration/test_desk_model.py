"""Any interleaving of batches, intakes, replays, resets and crashes: every record stays in exactly one place."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from uuid import uuid4

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.desk import check_tallies, rows
from tests.support.desk_life import FATES, Life
from tests.support.quiet import Quiet

from towpath.core import crash
from towpath.core.crash import Armed, Crashed, CrashPoint
from towpath.desk.cases.model import CaseState
from towpath.desk.intake.ingest import ReadPurpose
from towpath.flow.delivery.ledger import Batch
from towpath.flow.records.errors import ErrorRecord
from towpath.flow.records.reentry import ATTEMPT, CORRELATION, said_by
from towpath.log import open_log
from towpath.settings import LogSettings, Settings

fates = st.sampled_from(FATES)
INTAKE_POINTS = [
    CrashPoint.DESK_ERRORS_BEFORE_COMMIT,
    CrashPoint.DESK_ERRORS_AFTER_COMMIT,
    CrashPoint.DESK_OUTCOMES_BEFORE_COMMIT,
    CrashPoint.DESK_OUTCOMES_AFTER_COMMIT,
]


class DeskMachine(RuleBasedStateMachine):
    """One flow. A batch is in one of four phases; whatever the desk does comes in between."""

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        path = Path(self.directory.name)
        self.quiet = Quiet.open(
            Settings(
                database={"url": f"sqlite:///{path}/towpath.db", "synchronous": "normal"},
                desk={"directory": f"{path}/desk"},
                flow={"directory": f"{path}/flows"},
            )
        )
        self.log = open_log(LogSettings(url=f"sqlite:///{path}/log.db"), self.quiet.database)
        self.life = Life(self.quiet, self.log)
        self.batch: Batch | None = None
        self.decided: dict[tuple[str, int, int], str] = {}
        self.is_told = False
        self.arrived = 0
        self.has_reset = False

    # The flow

    @rule(values=st.lists(fates, min_size=1, max_size=3))
    def arrive(self, values: list[str]) -> None:
        self.life.send(*values)
        self.arrived += len(values)

    @precondition(lambda self: self.batch is None)
    @rule(data=st.data())
    def begin_batch(self, data: st.DataObject) -> None:
        self.batch = self.life.snapshot()
        self.decided = self.life.decide(self.batch, lambda: data.draw(fates))
        self.is_told = False

    @precondition(lambda self: self.batch is not None)
    @rule()
    def tell(self) -> None:
        """Once, or once more after a crash."""
        assert self.batch is not None
        self.life.tell_errors(self.batch, self.decided)
        self.life.tell_outcomes(self.batch, self.decided)
        self.is_told = True

    @precondition(lambda self: self.batch is not None and self.is_told)
    @rule()
    def commit(self) -> None:
        assert self.batch is not None
        self.life.finish(self.batch, self.decided)
        self.batch = None

    @precondition(lambda self: self.batch is None and self.life.next_batch > 0)
    @rule()
    def reset(self) -> None:
        self.life.begin(self.life.stage, {0: 0, 1: 0})
        self.has_reset = True

    # The desk

    @rule(reading=st.sampled_from(list(ReadPurpose)), most=st.integers(1, 3))
    def take(self, reading: ReadPurpose, most: int) -> None:
        self.life.intake._most = most
        self.life.take(reading)

    @rule(point=st.sampled_from(INTAKE_POINTS), passes=st.integers(1, 3))
    def take_and_die(self, point: CrashPoint, passes: int) -> None:
        self.life.intake._most = 1
        once = Path(self.directory.name, uuid4().hex)
        crash.arm(Armed(f"{point}:{passes}", once=once, victim=0))
        try:
            self.life.take()
        except Crashed:
            pass
        finally:
            crash.arm(None)

    @rule(data=st.data(), delay_s=st.sampled_from([None, 60.0]))
    def replay(self, data: st.DataObject, delay_s: float | None) -> None:
        found = self.life.all_cases(CaseState.OPEN)
        if found:
            self.life.replay([data.draw(st.sampled_from(found))], delay_s)

    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        found = self.life.all_cases(CaseState.OPEN, CaseState.WAITING)
        if found:
            self.life.abandon([data.draw(st.sampled_from(found))])

    @rule(data=st.data())
    def resend(self, data: st.DataObject) -> None:
        found = self.life.all_cases(CaseState.OPEN)
        if found:
            self.life.resend([data.draw(st.sampled_from(found))])

    @rule()
    def relay(self) -> None:
        self.life.relay()

    @rule()
    def release(self) -> None:
        self.life.release()

    # What always holds

    @invariant()
    def every_record_is_in_one_place(self) -> None:
        if not hasattr(self, "life"):
            return
        verdict = self.life.audit()
        assert verdict.problems == []
        assert verdict.balance.difference == 0
        sent_anew = rows(self.life.database, "select count(*) from desk_case where state = 'resent'")[0][0]
        if not self.has_reset:
            found = verdict.balance
            assert (found.arrived, found.again, found.returned) == (self.arrived + sent_anew, 0, 0)

    @invariant()
    def tallies_and_attempts_are_in_step(self) -> None:
        if hasattr(self, "life"):
            check_tallies(self.life.database)

    @invariant()
    def every_error_record_is_one_attempt_or_a_repeat(self) -> None:
        if not hasattr(self, "life"):
            return
        database = self.life.database
        found = rows(database, "select position, records, repeats from desk_position where kind = 'errors'")
        if not found:
            return
        ((position, records, repeats),) = found
        told = list(self.log.read(self.life.topics.errors, 0, 0, position))
        assert (len(told), len(told) - repeats) == (records, rows(database, "select count(*) from desk_attempt")[0][0])
        kept = Counter(offset for (offset,) in rows(database, "select error_offset from desk_attempt"))
        assert set(kept.values()) <= {1}
        # The first telling of a failure is never taken for a repeat, unless a reset has made a stage read a try again.
        first: dict[tuple[object, ...], int] = {}
        for record in told:
            read = ErrorRecord.read(record)
            first.setdefault((read.topic, read.partition, read.offset, read.hash), record.offset)
        if not self.has_reset:
            assert set(first.values()) == set(kept)

    @invariant()
    def nothing_is_sent_twice(self) -> None:
        if hasattr(self, "life"):
            sent = (said_by(record.headers) for record in self.log.read(self.life.topics.reentry, 0, 0))
            tries = Counter((said[CORRELATION], said[ATTEMPT]) for said in sent)
            assert set(tries.values()) <= {1}

    def teardown(self) -> None:
        if hasattr(self, "life"):
            self.log.close()
            self.quiet.close()
            self.directory.cleanup()


TestDesk = DeskMachine.TestCase
TestDesk.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
