"""`towpath audit` and `towpath trace` on real stores: what is right is told so, what is wrong is found where it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.audited import FLOW, STAGE, TOPIC, Audited
from tests.support.cli import CommandLine
from tests.support.quiet import Quiet
from tests.support.sweep import sweep
from tests.support.tables import by_hand

from towpath.errors import UnknownPartition
from towpath.flow.audit.audit import Audit
from towpath.flow.audit.balance import AuditVerdict
from towpath.flow.audit.rows import Problem, ProblemKind
from towpath.flow.audit.trace import Trace, Tracer
from towpath.flow.audit.view import take_view
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.delivery.positions import OffsetRange
from towpath.log import Log, open_log
from towpath.settings import LogSettings


@pytest.fixture
def log(quiet: Quiet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Topics in a file of their own: the database may be PostgreSQL."""
    url = f"sqlite:///{tmp_path}/log.db"
    monkeypatch.setenv("TOWPATH_LOG__URL", url)
    opened = open_log(LogSettings(url=url), quiet.database)
    yield opened
    opened.close()


@pytest.fixture
def flow(quiet: Quiet, log: Log) -> Audited:
    return Audited(quiet, log)


def audit(flow: Audited, **options: Any) -> AuditVerdict:
    return Audit(flow.database, flow.log, FLOW, **options).run()


def trace(flow: Audited, partition: int, offset: int) -> Trace:
    [found] = Tracer(flow.database, flow.log, FLOW).trace(TOPIC, partition, offset)
    return found


def only(found: AuditVerdict, kind: ProblemKind) -> Problem:
    [problem] = [each for each in found.problems if each.kind is kind]
    return problem


# The balance


def test_a_flow_balances(flow: Audited) -> None:
    flow.run("loaded", "filtered", "failed", "loaded")
    flow.run("loaded", partition=1)
    flow.send("loaded", "failed", partition=1)
    found = audit(flow)
    assert found.problems == []
    assert found.is_balanced
    assert (found.balance.arrived, found.batches) == (7, 2)
    assert found.balance.places == {
        RecordPlace.LOADED: 3,
        RecordPlace.FILTERED: 1,
        RecordPlace.FAILED: 1,
        RecordPlace.IN_FLIGHT: 2,
    }
    assert [(each.output, each.delivered) for each in found.outputs] == [("out", 3)]


def test_a_batch_that_commits_while_the_audit_runs_is_no_error(flow: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row is not in the view, its errors are in the topic."""
    flow.run("loaded", "failed")

    def meanwhile(*given: Any) -> Any:
        view = take_view(*given)
        flow.run("failed", "loaded", "failed")
        errors = view.errors
        errors.ends.update(flow.log.ends(errors.name))
        return view

    monkeypatch.setattr("towpath.flow.audit.audit.take_view", meanwhile)
    found = audit(flow)
    assert found.problems == []
    assert found.errors == {"repeats": 0, "of_open_batches": 0, "of_later_batches": 2}


def test_an_open_batch_and_repeats_after_a_crash(flow: Audited) -> None:
    first = flow.run("loaded", "failed")
    flow.send_errors(first)
    flow.send("failed")
    flow.send_errors(flow.snapshot())
    found = audit(flow)
    assert found.problems == []
    assert found.errors == {"repeats": 1, "of_open_batches": 1, "of_later_batches": 0}
    assert found.balance.places[RecordPlace.IN_FLIGHT] == 1


def test_a_batch_that_was_given_up_by_a_reset(flow: Audited) -> None:
    flow.run("loaded", "failed")
    flow.send("failed")
    flow.send_errors(flow.snapshot())
    flow.begin(flow.stage, {0: 0, 1: 0})
    flow.run("loaded")
    found = audit(flow)
    assert found.problems == []
    assert (found.balance.arrived, found.balance.again) == (4, 2)
    assert found.balance.difference == 0


def test_what_retention_has_deleted_is_no_longer_provable(flow: Audited) -> None:
    flow.run("loaded", "failed", "loaded")
    flow.log.delete_before(TOPIC, {0: 2})
    found = audit(flow)
    assert found.is_balanced
    assert [each.records for each in found.unproven] == [3]
    assert "clicks/0 from 0 to 3" in found.unproven[0].why


def test_a_gap_is_skipped(flow: Audited) -> None:
    flow.send("loaded", "loaded", "loaded")
    flow.log.delete_before(TOPIC, {0: 2})
    batch = flow.snapshot()
    flow.add_gap(batch, OffsetRange(TOPIC, flow.topic.id, 0, 0, 2))
    flow.commit(batch)
    found = audit(flow)
    assert found.problems == []
    assert found.unproven == []
    assert (found.balance.arrived, found.balance.skipped) == (1, 2)
    assert trace(flow, 0, 1).place is RecordPlace.SKIPPED
    by_hand(flow.database, "delete from flow_gap")
    assert only(audit(flow), ProblemKind.GAP).places == (OffsetRange(TOPIC, flow.topic.id, 0, 0, 2),)


# Tampering

TAMPERINGS: dict[str, tuple[str, ProblemKind, int | None]] = {
    "first row": ("delete from flow_batch where batch_id = 0", ProblemKind.HOLE, 0),
    "middle row": ("delete from flow_batch where batch_id = 1", ProblemKind.HOLE, 1),
    "last row": ("delete from flow_batch where batch_id = 2", ProblemKind.STRANGE_ERROR, 2),
    "position": (
        "update flow_batch set positions = replace(positions, '[0,3]', '[0,2]') where batch_id = 0",
        ProblemKind.BREAK,
        1,
    ),
    "backwards": (
        "update flow_batch set positions = replace(positions, '[3,5]', '[5,3]') where batch_id = 1",
        ProblemKind.UNREADABLE_ROW,
        1,
    ),
    "hash": ("update flow_batch set hash = 'x' || substr(hash, 2) where batch_id = 1", ProblemKind.HASH, 1),
    "count": (
        "update flow_batch set counts = replace(counts, '\"loaded\": 1', '\"loaded\": 7') where batch_id = 2",
        ProblemKind.SUM,
        2,
    ),
    "totals": ("update flow_stage set totals = '{}'", ProblemKind.READ, None),
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_a_changed_ledger_is_found(flow: Audited, what: str) -> None:
    flow.run("loaded", "failed", "filtered")
    flow.run("loaded", "failed")
    flow.run("loaded", "failed")
    statement, kind, batch_id = TAMPERINGS[what]
    if flow.database.dialect == "postgres":
        statement = re.sub(
            r"replace\((positions|counts), (.*?)\) where", r"replace(\1::text, \2)::json where", statement
        )
    assert by_hand(flow.database, statement) == 1
    found = audit(flow)
    assert not found.is_balanced
    if what == "totals":
        assert {each.kind for each in found.problems} == {ProblemKind.TOTALS}
    else:
        assert batch_id in [each.batch_id for each in found.problems if each.kind is kind]


def test_a_missing_error_record_is_located(flow: Audited, log: Any) -> None:
    flow.run("loaded", "failed")
    batch = flow.run("loaded", "failed", "failed")
    log.delete_before(flow.topics.errors, {0: 2})
    found = audit(flow)
    assert [(each.batch_id, each.expected, each.found) for each in found.problems] == [
        (0, "1 records", "0"),
        (1, "2 records", "1"),
    ]
    assert found.problems[1].places == batch.positions.ranges[:1]
    assert found.balance.difference == 2


def test_foreign_records_in_the_error_topic(flow: Audited, log: Log) -> None:
    from towpath.log import NewRecord

    flow.run("loaded")
    log.append(flow.topics.errors, [NewRecord(b"what is this")])
    problem = only(audit(flow), ProblemKind.UNREADABLE_ERROR)
    assert problem.where == "-, page-views.errors/0/0"


# The command


def test_the_command_shows_a_balance(flow: Audited, variables: dict[str, str], command: CommandLine) -> None:
    flow.run("loaded", "filtered", "failed")
    flow.send("loaded")
    ran = command.ok("audit", FLOW)
    assert [line.split() for line in ran.lines[:7]] == [
        ["place", "records"],
        ["loaded", "1"],
        ["filtered", "1"],
        ["failed", "1"],
        ["in", "flight", "1"],
        ["together", "4"],
        ["arrived", "4"],
    ]
    assert FLOW in ran.lines[-1]
    shown = command.ok("audit", FLOW, "--json").json
    assert shown["is_balanced"] is True
    assert shown["places"] == {"loaded": 1, "filtered": 1, "failed": 1, "in flight": 1}


def test_the_command_shows_problems(flow: Audited, variables: dict[str, str], command: CommandLine) -> None:
    flow.run("loaded")
    flow.run("loaded", "loaded")
    by_hand(flow.database, "update flow_batch set counts = '{\"read\": 9}' where batch_id = 1")
    ran = command("audit", FLOW)
    assert ran.code == 1
    assert "clicks, generation 1, batch 1, clicks/0 from 1 to 3" in ran.out
    assert FLOW in ran.err


@pytest.mark.parametrize("words", [("audit", "nobody"), ("trace", "clicks/0/0", "--flow", "nobody")])
def test_an_unknown_flow(
    flow: Audited, variables: dict[str, str], command: CommandLine, words: tuple[str, ...]
) -> None:
    command(*words).refused(1, "'nobody'", "page-views")


# Trace


def test_the_way_of_each_record(flow: Audited) -> None:
    flow.run("loaded", "failed", "filtered")
    flow.run("loaded")
    flow.send("loaded", "loaded")
    failed = trace(flow, 0, 1)
    assert failed.place is RecordPlace.FAILED
    [seen] = failed.failures
    assert (seen.at, seen.record.failure.exception) == ("page-views.errors/0/0", "KeyError")
    assert [batch.batch_id for batch in failed.readings] == [0]
    assert [place for place in ("loaded", "filtered") if place not in trace(flow, 0, 0).now] == []
    assert trace(flow, 0, 3).place is RecordPlace.LOADED
    assert trace(flow, 0, 5).place is RecordPlace.IN_FLIGHT
    assert "clicks/0" in trace(flow, 0, 6).now
    with pytest.raises(UnknownPartition, match="5"):
        trace(flow, 5, 6)
    flow.snapshot()
    assert "batch 2 " in trace(flow, 0, 5).now


def test_trace_after_a_reset_goes_by_the_last_reading(flow: Audited) -> None:
    flow.run("failed")
    flow.begin(flow.stage, {0: 0, 1: 0})
    batch = flow.snapshot()
    key = (FLOW, STAGE, batch.generation, batch.batch_id)
    with flow.database.transaction() as tx:
        flow.ledger.commit(tx, *key, counts={"read": 1, "loaded": 1}, digests={})
    found = trace(flow, 0, 0)
    assert (found.place, [each.generation for each in found.readings]) == (RecordPlace.LOADED, [1, 2])
    assert len(found.failures) == 1


def test_the_trace_command(flow: Audited, variables: dict[str, str], command: CommandLine) -> None:
    flow.run("loaded", "failed")
    told = command.ok("trace", "clicks/0/1", "--flow", FLOW).lines
    assert told[0].startswith("clicks/0/1, ")
    assert "k1" in told[1]
    assert "failed" in told[-1]
    by_key = command.ok("trace", "clicks", "--key", "k1", "--flow", FLOW, "--json").json["items"]
    assert [(each["offset"], each["place"], each["failures"][0]["code"]) for each in by_key] == [(1, "failed", 9)]
    by_id = command.ok("trace", "--id", "clicks:0:0:1", "--flow", FLOW, "--json").json["items"]
    assert by_id == by_key


@sweep(
    ("words", "said"),
    [
        (("clicks",), "which record"),
        ((), "which record"),
        (("clicks/0/1", "--key", "k"), "which record"),
        (("--id", "no-place"), "place"),
        (("clicks", "--key", "nobody"), "clicks"),
    ],
)
def test_a_trace_of_nothing(
    flow: Audited, variables: dict[str, str], command: CommandLine, words: tuple[str, ...], said: str
) -> None:
    command("trace", *words, "--flow", FLOW).refused(2, said)


def test_a_topic_that_the_flow_does_not_read(flow: Audited, variables: dict[str, str], command: CommandLine) -> None:
    command("trace", "other/0/0", "--flow", FLOW).refused(1, "'other'", "clicks")
