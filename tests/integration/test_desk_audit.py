"""The audit with a desk: every record is in one place at every step of a case's life, and what is lost is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.desk_life import Life
from tests.support.quiet import Quiet

from towpath.desk.background import open_case_janitor
from towpath.desk.cases.model import CaseState
from towpath.desk.intake.ingest import ReadPurpose
from towpath.flow.audit.rows import ProblemKind
from towpath.log import Log, open_log
from towpath.settings import LogSettings


@pytest.fixture
def log(quiet: Quiet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Topics in a file of their own: the database may be PostgreSQL."""
    monkeypatch.chdir(tmp_path)
    opened = open_log(LogSettings(url=f"sqlite:///{tmp_path}/log.db"), quiet.database)
    yield opened
    opened.close()


@pytest.fixture
def life(quiet: Quiet, log: Log) -> Life:
    return Life(quiet, log)


def test_a_case_from_its_failure_to_its_end(life: Life) -> None:
    life.send("failed", "loaded", "filtered")
    assert life.places() == {"in flight": 3}
    life.run_batch()
    assert life.places() == {"loaded": 1, "filtered": 1, "failed": 1}
    life.take()
    assert life.places() == {"loaded": 1, "filtered": 1, "open": 1}
    life.replay(life.all_cases())
    assert life.places() == {"loaded": 1, "filtered": 1, "replaying": 1}
    life.relay()
    assert life.places() == {"loaded": 1, "filtered": 1, "replaying": 1}
    life.run_batch("failed")
    assert life.places() == {"loaded": 1, "filtered": 1, "failed": 1}  # the desk does not know yet
    life.take()
    assert life.places() == {"loaded": 1, "filtered": 1, "open": 1}
    life.replay(life.all_cases(), delay_s=60)
    assert life.places() == {"loaded": 1, "filtered": 1, "waiting": 1}
    life.relay()
    life.release()
    assert life.places() == {"loaded": 1, "filtered": 1, "replaying": 1}
    life.run_batch("loaded")
    assert life.places() == {"loaded": 2, "filtered": 1}  # the desk does not know yet
    life.take()
    assert life.places() == {"loaded": 2, "filtered": 1}
    assert [case.state for case in life.all_cases()] == [CaseState.RESOLVED]
    found = life.audit().balance
    assert (found.arrived, found.again, found.returned) == (3, 0, 0)


def test_the_desk_knows_of_a_batch_that_is_not_committed(life: Life) -> None:
    life.send("failed", "failed")
    batch = life.snapshot()
    fates = life.decide(batch, lambda: "loaded")
    life.tell_errors(batch, fates)
    life.take()
    assert life.places() == {"in flight": 2}
    life.tell_errors(batch, fates)  # cut off, and told again
    life.take()
    assert life.places() == {"in flight": 2}
    life.finish(batch, fates)
    assert life.places() == {"open": 2}
    life.replay(life.all_cases())
    life.relay()
    batch = life.snapshot()
    left = ["loaded", "failed"]
    fates = life.decide(batch, lambda: left.pop(0))
    life.tell_errors(batch, fates)
    life.tell_outcomes(batch, fates)
    life.take()
    assert sorted(case.state for case in life.all_cases()) == ["open", "resolved"]
    assert life.places() == {"replaying": 1, "open": 1}
    life.finish(batch, fates)
    assert life.places() == {"loaded": 1, "open": 1}


def test_what_persons_and_rules_dismiss(life: Life) -> None:
    life.send("failed", "failed", "failed")
    life.run_batch()
    life.take()
    first, second, _ = life.all_cases()
    life.abandon([first])
    life.resend([second])
    assert life.places() == {"abandoned": 1, "replaying": 1, "open": 1}
    life.relay()
    assert life.places() == {"abandoned": 1, "resent": 1, "open": 1, "in flight": 1}
    life.run_batch()
    assert life.places() == {"abandoned": 1, "resent": 1, "open": 1, "loaded": 1}


def test_what_was_forgotten_is_still_counted(life: Life) -> None:
    life.send("failed", "failed", "failed")
    life.run_batch()
    life.take()
    first, second, _ = life.all_cases()
    life.abandon([first])
    life.replay([second])
    life.relay()
    life.run_batch("loaded")
    life.take()
    before = life.places()
    life.database.shift_clock(60 * 86400)
    runtime = life.quiet.runtime
    assert open_case_janitor(runtime.settings, life.database, runtime.events, runtime.event_log).clean() == 2
    assert life.places() == before == {"abandoned": 1, "open": 1, "loaded": 1}


def test_a_reset_makes_a_stage_read_again_what_came_back(life: Life) -> None:
    life.send("failed", "loaded")
    life.run_batch()
    life.take()
    life.replay(life.all_cases())
    life.relay()
    life.run_batch("loaded")
    life.take()
    life.begin(life.stage, {0: 0, 1: 0})
    life.places()
    life.run_batch("failed")  # both records and the one that came back: this time it fails
    assert life.places() == {"loaded": 3, "failed": 2}
    life.take()
    assert life.places() == {"loaded": 3, "open": 2}
    found = life.audit().balance
    assert (found.arrived, found.again, found.returned) == (2, 2, 1)


def test_gaps_are_skipped_and_no_case_counts_for_them(life: Life) -> None:
    from towpath.flow.delivery.positions import OffsetRange

    life.send("loaded", "loaded", "loaded")
    life.log.delete_before(life.name, {0: 2})
    batch = life.snapshot()
    gap = OffsetRange(life.name, life.topic.id, 0, 0, 2)
    life.add_gap(batch, gap)
    life.read_by = lambda batch: list(life.log.read(life.name, 0, 2, 3))  # type: ignore[method-assign]
    life.finish(batch, life.decide(batch, lambda: "loaded"))
    life.take()
    (case,) = life.all_cases()
    assert (case.kind, life.places(), life.audit().balance.skipped) == ("gap", {"loaded": 1}, 2)
    life.abandon([case])
    assert (life.places(), life.audit().balance.skipped) == ({"loaded": 1}, 2)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("delete from desk_case where seq = (select min(seq) from desk_case)", ProblemKind.PLACES),
        ("delete from desk_attempt where case_id = (select id from desk_case order by seq limit 1)", ProblemKind.TAKEN),
        ("update desk_case set state = 'resolved', settled_at = 1 where state = 'open'", ProblemKind.PLACES),
        ("update desk_position set position = position + 1 where kind = 'errors'", ProblemKind.TAKEN),
        ("update desk_position set records = records + 1 where kind = 'errors'", ProblemKind.TAKEN),
    ],
)
def test_what_somebody_has_changed_behind_the_desk_is_found(life: Life, statement: str, kind: ProblemKind) -> None:
    life.send("failed", "failed", "loaded")
    life.run_batch()
    life.take()
    life.send("failed")
    life.run_batch()
    assert life.places() == {"open": 2, "loaded": 1, "failed": 1}
    life.sql(statement)
    assert kind in {each.kind for each in life.audit().problems}


def test_errors_that_the_desk_has_not_come_to(life: Life) -> None:
    life.send("failed")
    life.run_batch()
    life.take(ReadPurpose.ERRORS)
    life.send("failed", "failed")
    life.run_batch()
    assert life.places() == {"open": 1, "failed": 2}


def test_an_error_topic_of_another_name_is_found_by_what_the_code_said(quiet: Quiet) -> None:
    policies = quiet.runtime.policies
    policies.declare("shop", "our-errors", [])
    assert policies.error_topic("shop") == "our-errors"
    assert policies.error_topic("other") is None
