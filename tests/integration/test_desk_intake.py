"""Error records become cases, each once, with group, attempts, body and position in one transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.desk import (
    NO_CITY,
    DeskFlow,
    Heard,
    blob_names,
    check_tallies,
    desk_tables,
    intake_of,
    rows,
    take_all,
)

from towpath.desk.background import open_case_janitor
from towpath.desk.cases.blobs import blobs_of
from towpath.desk.cases.model import Case, CaseSelection, CaseState
from towpath.desk.cases.store import AttemptStore, CaseStore
from towpath.desk.groups.model import Archive, GroupState
from towpath.desk.groups.store import GroupStore
from towpath.desk.intake.service import _portion_of
from towpath.desk.janitor import CaseJanitor
from towpath.errors import DatabaseUnavailable
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.records.errors import PREFIX
from towpath.flow.records.reentry import reentry_record
from towpath.log.record import NewRecord, Record
from towpath.notify.model import NoticeKind
from towpath.runtime import Runtime

pytestmark = pytest.mark.usefixtures("tmp_cwd")


@pytest.fixture
def tmp_cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def desk(make_runtime: Callable[..., Runtime], database_settings: dict[str, Any], tmp_path: Path) -> Runtime:
    log = {"url": "embedded"}
    if not database_settings["url"].startswith("sqlite"):
        log = {"url": f"sqlite:///{tmp_path}/log.db"}
    return make_runtime(log=log)


@pytest.fixture
def flow(desk: Runtime) -> DeskFlow:
    return DeskFlow(desk)


def cases(runtime: Runtime) -> list[Case]:
    with runtime.database.read() as tx:
        return list(reversed(CaseStore(runtime.database).page(tx, CaseSelection(), 1000)))


def back(flow: DeskFlow, case: Case, attempt: int, value: bytes | None = None) -> Record:
    """The case's record as it lies in the re-entry topic, sent by whoever sends."""
    with flow.runtime.database.read() as tx:
        body = CaseStore(flow.runtime.database).bodies(tx, [case.id])[case.id]
    error = Record("", 0, 0, 0, case.key, body.value, body.headers)
    new = reentry_record(error, case.id, attempt, value)
    ((partition, offset),) = flow.runtime.log.append(flow.topics.reentry, [new])
    found = flow.runtime.log.record(flow.topics.reentry, partition, offset)
    assert found is not None
    return found


def send(flow: DeskFlow, *ids: str, frm: CaseState = CaseState.OPEN) -> None:
    with flow.runtime.database.transaction() as tx:
        store = CaseStore(flow.runtime.database)
        moved = store.move(tx, ids, CaseState.REPLAYING, frm=(frm,), who="ann", why="again", ticket=True)
    assert sorted(moved) == sorted(ids)


def test_an_error_record_becomes_a_case(desk: Runtime, flow: DeskFlow) -> None:
    headers = (("source", b"web"), ("signature", b"\xff\x00"))
    trace = 'Traceback:\n  File "/app/orders.py", line 7, in price\n    raise ValueError\nValueError: no city'
    flow.fail(17, failure=NO_CITY._replace(trace=trace), headers=headers, key=b"k1", output="index")
    assert take_all(intake_of(desk)) == 1
    (case,) = cases(desk)
    assert (case.flow, case.stage, case.kind, case.state, case.attempts) == ("shop", "main", "error", "open", 1)
    assert (case.code, case.step, case.exception, case.message) == (8, "priced", "ValueError", NO_CITY.message)
    assert (case.input, case.topic_id, case.key, case.output) == ("orders/0/17", "orders-id", b"k1", "index")
    assert (case.error_topic, case.error_partition, case.error_offset) == ("shop.errors", 0, 0)
    assert int(case.id[:8] + case.id[9:13], 16) == 1_000_017  # the time of the record that has failed
    with desk.database.read() as tx:
        body = CaseStore(desk.database).bodies(tx, [case.id])[case.id]
        (attempt,) = AttemptStore(desk.database).of_case(tx, case.id)
    assert body.value == b'{"n":17}'
    assert [header for header in body.headers if not header[0].startswith(PREFIX)] == list(headers)
    assert PREFIX + "trace" not in dict(body.headers)
    assert attempt.trace == trace.rpartition("\n")[0]
    assert (attempt.attempt, attempt.hash, attempt.process, attempt.version) == (1, "b0", "p1", "1")
    check_tallies(desk.database)


def test_a_record_that_goes_back_is_the_one_that_came(desk: Runtime, flow: DeskFlow) -> None:
    flow.fail(5, headers=(("a", b"b"),), key=b"k")
    take_all(intake_of(desk))
    (error,) = list(desk.log.read(flow.topics.errors, 0, 0))
    (case,) = cases(desk)
    sent = back(flow, case, 2)
    expected = reentry_record(error, case.id, 2)
    assert (sent.key, sent.value, sent.headers) == (expected.key, expected.value, expected.headers)


def test_what_is_told_twice_is_one_case(desk: Runtime, flow: DeskFlow) -> None:
    flow.fail(1, 2)
    take_all(intake_of(desk))
    flow.fail(1, 2, 3)
    flow.fail(1, hash="b7")  # the same record in another batch, after a reset
    take_all(intake_of(desk))
    assert [(case.offset, case.hash) for case in cases(desk)] == [(1, "b0"), (2, "b0"), (3, "b0"), (1, "b7")]
    assert rows(desk.database, "select records, repeats from desk_position where kind = 'errors'") == [(6, 2)]
    check_tallies(desk.database)


def test_what_fails_again_is_the_next_attempt_of_its_case(desk: Runtime, flow: DeskFlow) -> None:
    flow.fail(1)
    intake = intake_of(desk)
    take_all(intake)
    (case,) = cases(desk)
    send(flow, case.id)
    other = RecordFailure(ErrorCode.TRANSFORM_FAILED, "shipped", "KeyError", "'street'")
    record = back(flow, case, 2)
    flow.fail_again(record, other, "b1")
    flow.fail_again(record, other, "b1")  # told again after a crash
    flow.fail_again(record, NO_CITY, "b2")  # and read again after a reset
    take_all(intake)
    (case,) = cases(desk)
    assert (case.state, case.attempts, case.code, case.step, case.hash) == (CaseState.OPEN, 2, 9, "shipped", "b0")
    assert (case.input, case.error_offset) == ("orders/0/1", 1)
    with desk.database.read() as tx:
        past = AttemptStore(desk.database).of_case(tx, case.id)
    assert [(each.attempt, each.code, each.hash) for each in past] == [(1, 8, "b0"), (2, 9, "b1")]
    assert rows(desk.database, "select records, repeats from desk_position where kind = 'errors'") == [(4, 2)]
    check_tallies(desk.database)


@pytest.mark.parametrize(("fate", "step", "why"), [("loaded", "", "loaded"), ("filtered", "big", "filtered by big")])
def test_an_outcome_resolves_its_case(desk: Runtime, flow: DeskFlow, fate: str, step: str, why: str) -> None:
    flow.fail(1, 2)
    intake = intake_of(desk)
    take_all(intake)
    first, second = cases(desk)
    send(flow, first.id, second.id)
    record = back(flow, first, 2)
    flow.outcome(record, fate, step)
    flow.outcome(record, fate, step)
    take_all(intake)
    first, second = cases(desk)
    assert (first.state, first.settled_by, first.settled_why) == (CaseState.RESOLVED, "towpath", why)
    assert second.state is CaseState.REPLAYING
    assert first.settled_at is not None
    with desk.database.read() as tx:
        assert set(CaseStore(desk.database).bodies(tx, [first.id, second.id])) == {second.id}
    check_tallies(desk.database)


def test_an_outcome_of_another_attempt_says_nothing(desk: Runtime, flow: DeskFlow) -> None:
    flow.fail(1)
    intake = intake_of(desk)
    take_all(intake)
    (case,) = cases(desk)
    flow.outcome(back(flow, case, 2))  # of somebody else: it is in front of a person
    take_all(intake)
    send(flow, case.id)
    flow.outcome(back(flow, case, 3))
    flow.outcome(back(flow, case, 1))
    take_all(intake)
    assert [case.state for case in cases(desk)] == [CaseState.REPLAYING]


def test_a_settled_case_that_fails_once_more_is_a_new_case(desk: Runtime, flow: DeskFlow) -> None:
    """After a reset a stage may read what came back again, and this time it fails."""
    flow.fail(1)
    intake = intake_of(desk)
    take_all(intake)
    (case,) = cases(desk)
    send(flow, case.id)
    record = back(flow, case, 2)
    flow.outcome(record)
    take_all(intake)
    flow.fail_again(record, hash="b9")
    take_all(intake)
    old, new = cases(desk)
    assert (old.state, new.state, new.input, new.attempts) == ("resolved", "open", "orders/0/1", 1)
    check_tallies(desk.database)


@pytest.mark.parametrize("correlation", ["nobody", "11111111-2222-4333-8444-555555555555", "", "x" * 300])
def test_a_correlation_of_nobodys_makes_a_new_case(desk: Runtime, flow: DeskFlow, correlation: str) -> None:
    flow.fail(1)
    (error,) = desk.log.read(flow.topics.errors, 0, 0)
    lost = reentry_record(error, correlation, 4)
    ((partition, offset),) = desk.log.append(flow.topics.reentry, [lost])
    record = desk.log.record(flow.topics.reentry, partition, offset)
    assert record is not None
    flow.fail_again(record, hash="b5")
    take_all(intake_of(desk))
    assert [(case.input, case.attempts, case.hash) for case in cases(desk)] == [
        ("orders/0/1", 1, "b0"),
        ("orders/0/1", 1, "b5"),
    ]


def test_a_gap_is_a_case_without_a_body(desk: Runtime, flow: DeskFlow) -> None:
    flow.gap(10, 20)
    flow.gap(10, 20)
    take_all(intake_of(desk))
    (case,) = cases(desk)
    assert (case.kind, case.offset, case.stop, case.state, case.code) == ("gap", 10, 20, "open", 5)
    with desk.database.read() as tx:
        assert CaseStore(desk.database).bodies(tx, [case.id]) == {}


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        ((), b"\xff\xfe\x00"),
        (((f"{PREFIX}kind", b"error"),), b"{}"),
        (((f"{PREFIX}kind", b"\xff"),), None),
        (((f"{PREFIX}kind", b"error"), (f"{PREFIX}flow", b"x" * 5000)), b""),
    ],
)
def test_what_no_flow_has_written_is_kept_too(
    desk: Runtime, flow: DeskFlow, headers: tuple[tuple[str, bytes]], value: bytes | None
) -> None:
    desk.log.append(flow.topics.errors, [NewRecord(value, b"k", headers)])
    flow.fail(1)
    take_all(intake_of(desk))
    stray, case = cases(desk)
    assert (stray.kind, stray.flow, stray.stage, stray.state) == ("stray", "shop", "-", "open")
    assert (stray.topic, stray.offset, stray.exception) == ("shop.errors", 0, "UnreadableErrorRecord")
    assert case.kind == "error"
    with desk.database.read() as tx:
        body = CaseStore(desk.database).bodies(tx, [stray.id])[stray.id]
    assert (body.value, body.headers) == (value, tuple(headers))


def test_an_error_of_an_unknown_flow_is_kept_by_whose_topic_it_is_in(desk: Runtime, flow: DeskFlow) -> None:
    other = DeskFlow(desk, "elsewhere")
    other.fail(3)
    (error,) = desk.log.read(other.topics.errors, 0, 0)
    desk.log.append(flow.topics.errors, [NewRecord(error.value, error.key, error.headers)])
    take_all(intake_of(desk))
    assert sorted((case.flow, case.kind) for case in cases(desk)) == [("elsewhere", "error"), ("shop", "stray")]


def test_numbers_that_no_column_holds_make_a_stray(desk: Runtime, flow: DeskFlow) -> None:
    flow.fail(1)
    (error,) = desk.log.read(flow.topics.errors, 0, 0)
    for name, text in (("offset", str(1 << 80)), ("partition", "-1"), ("code", "99"), ("attempt", str(1 << 40))):
        spoiled = tuple((key, text.encode() if key == PREFIX + name else value) for key, value in error.headers)
        if name == "attempt":
            spoiled = (*spoiled, (f"{PREFIX}attempt", text.encode()))
        desk.log.append(flow.topics.errors, [NewRecord(error.value, error.key, spoiled)])
    take_all(intake_of(desk))
    assert [case.kind for case in cases(desk)] == ["error", "stray", "stray", "stray", "stray"]


def test_texts_that_no_database_holds(desk: Runtime, flow: DeskFlow) -> None:
    nasty = RecordFailure(
        ErrorCode.NOT_JSON, "a\0b", "E\0", "<script>\0\x1b[31m\u202e", 'File\0\n  File "x", line 1, in \0y'
    )
    flow.fail(1, failure=nasty, value=bytes(range(256)), key=bytes(range(256)))
    take_all(intake_of(desk))
    (case,) = cases(desk)
    assert (case.kind, case.step, case.message) == ("error", "a\\0b", "<script>\\0\x1b[31m\u202e")
    assert case.key == bytes(range(256))


def test_a_large_body_is_a_file_until_its_case_is_settled(desk: Runtime, flow: DeskFlow) -> None:
    large = bytes(range(256)) * 4_000
    flow.fail(1, value=large)
    take_all(intake_of(desk))
    (case,) = cases(desk)
    assert case.body_bytes == len(large)
    with desk.database.read() as tx:
        body = CaseStore(desk.database).bodies(tx, [case.id])[case.id]
    assert (body.value, body.blob) == (None, hashlib.sha256(large).hexdigest())
    assert blobs_of(desk.settings).read(body.blob or "") == large
    janitor = the_janitor(desk)
    assert janitor.sweep() == 0
    with desk.database.transaction() as tx:
        CaseStore(desk.database).move(tx, [case.id], CaseState.ABANDONED, who="ann", why="too large")
    assert (janitor.sweep(), blob_names(desk)) == (1, set())


def test_a_body_that_was_too_large_for_the_error_topic(desk: Runtime, flow: DeskFlow) -> None:
    huge = b"\x00\xff" * (25 << 20)
    flow.fail(1, value=huge)
    (error,) = desk.log.read(flow.topics.errors, 0, 0)
    assert error.value is None
    take_all(intake_of(desk))
    (case,) = cases(desk)
    assert case.body_bytes == len(huge)
    with desk.database.read() as tx:
        body = CaseStore(desk.database).bodies(tx, [case.id])[case.id]
    for file in flow.blobs.iterdir():
        file.unlink()  # the desk has its own copy
    assert blobs_of(desk.settings).read(body.blob or "") == huge


def test_a_file_that_is_not_there_holds_nobody_up(desk: Runtime, flow: DeskFlow) -> None:
    flow.fail(1, value=b"x" * (5 << 20))
    for file in flow.blobs.iterdir():
        file.unlink()
    flow.fail(2)
    take_all(intake_of(desk))
    lost, case = cases(desk)
    assert (lost.state, lost.body_bytes, case.body_bytes) == (CaseState.OPEN, 0, 7)


def the_janitor(desk: Runtime) -> CaseJanitor:
    return open_case_janitor(desk.settings, desk.database, desk.events, desk.event_log)


def test_groups_are_found_and_come_back(desk: Runtime, flow: DeskFlow) -> None:
    heard = Heard()
    intake = intake_of(desk, heard)
    flow.fail(1, failure=NO_CITY)
    flow.fail(2, failure=NO_CITY._replace(message="no city 'Bonn' for order 4711"))
    flow.fail(3, failure=NO_CITY._replace(step="shipped"))
    take_all(intake)
    groups = GroupStore(desk.database)
    with desk.database.read() as tx:
        found = sorted(groups.page(tx, limit=10), key=lambda each: each.id)
    assert [(each.step, each.seen, each.live, each.state, each.title) for each in found] == [
        ("priced", 2, 2, "new", "no city # for order #"),
        ("shipped", 1, 1, "new", "no city # for order #"),
    ]
    assert [notice.kind for notice in heard.notices] == [NoticeKind.GROUP_FOUND] * 2
    said = "ValueError: no city # for order #"  # as the list of groups has it
    assert [notice.data["title"] for notice in heard.notices] == [said] * 2 == [each.headline for each in found]
    assert heard.notices[0].title.endswith(said)
    with desk.database.transaction() as tx:
        groups.move(tx, found[0].id, GroupState.RESOLVED)
        groups.move(tx, found[1].id, GroupState.ARCHIVED, archive=Archive(more=2))
    flow.fail(4)
    flow.fail(5, failure=NO_CITY._replace(step="shipped"))
    take_all(intake)
    states = "select state from desk_group order by id"
    assert rows(desk.database, states) == [("regressed",), ("archived",)]
    flow.fail(6, failure=NO_CITY._replace(step="shipped"))
    take_all(intake)
    assert rows(desk.database, states) == [("regressed",), ("regressed",)]
    assert [(notice.kind, notice.subject) for notice in heard.notices[2:]] == [
        (NoticeKind.GROUP_REGRESSED, f"shop/{found[0].id}"),
        (NoticeKind.GROUP_REGRESSED, f"shop/{found[1].id}"),
    ]


def test_a_flood_of_new_groups_tells_people_a_few_times(desk: Runtime, flow: DeskFlow) -> None:
    heard = Heard()
    for number in range(30):
        flow.fail(number, failure=NO_CITY._replace(step=f"step-{number}"))
    take_all(intake_of(desk, heard))
    assert len(heard.notices) == 21
    assert "10 more groups" in heard.notices[-1].title


def test_of_two_intakes_one_begins_anew(desk: Runtime, flow: DeskFlow, make_runtime: Callable[..., Runtime]) -> None:
    flow.fail(*range(10))
    first, second = intake_of(desk), intake_of(make_runtime(log={"url": desk.settings.log.url}))
    (source,) = [each for each in second.sources() if each.reading == "errors"]
    stale = second._where(source, desk.log.topic(source.topic).id, {0: 0})[0]
    take_all(first)
    before = desk_tables(desk.database)
    portion = list(desk.log.read(source.topic, 0, 0))
    with pytest.raises(DatabaseUnavailable, match="intake"):
        second._take(source, stale, _portion_of(source, stale, portion))
    assert desk_tables(desk.database) == before
    assert take_all(second) == 0


def test_flows_that_share_an_error_topic(desk: Runtime, flow: DeskFlow) -> None:
    """Each takes its own errors, and what is nobody's is taken once."""
    from towpath.desk.policies.store import PolicyStore

    other = DeskFlow(desk, "annex")
    with desk.database.transaction() as tx:
        PolicyStore(desk.database).declare(tx, "annex", flow.topics.errors, [])
    flow.fail(1)
    other.topics = flow.topics
    other.fail(2)
    desk.log.append(flow.topics.errors, [NewRecord(b"?")])
    take_all(intake_of(desk))
    found = sorted((case.flow, case.kind, case.offset) for case in cases(desk))
    assert found == [("annex", "error", 2), ("annex", "stray", 2), ("shop", "error", 1)]


def test_a_topic_made_again_is_read_from_its_start(desk: Runtime, flow: DeskFlow) -> None:
    flow.fail(1, 2, 3)
    intake = intake_of(desk)
    take_all(intake)
    desk.log.delete_topic(flow.topics.errors)
    flow.topics.ensure(desk.log, 1)
    flow.fail(4, hash="b4")
    take_all(intake)
    assert [case.offset for case in cases(desk)] == [1, 2, 3, 4]


def test_records_deleted_before_the_desk_came_are_told(desk: Runtime, flow: DeskFlow) -> None:
    intake = intake_of(desk)
    flow.fail(1)
    take_all(intake)
    flow.fail(2, 3)
    desk.log.delete_before(flow.topics.errors, {0: 2})
    take_all(intake)
    assert [case.offset for case in cases(desk)] == [1, 3]
    found = rows(desk.database, "select subject, data from event where kind = 'errors_missed'")
    assert [subject for subject, _ in found] == ["shop"]
    assert json.loads(found[0][1]) == {"topic": "shop.errors", "partition": 0, "from": 1, "to": 2}


def test_settled_cases_are_forgotten_in_time(desk: Runtime, flow: DeskFlow) -> None:
    flow.fail(1, 2, 3)
    take_all(intake_of(desk))
    first, second, _ = cases(desk)
    with desk.database.transaction() as tx:
        CaseStore(desk.database).move(tx, [first.id, second.id], CaseState.ABANDONED, who="ann", why="test data")
    janitor = the_janitor(desk)
    assert janitor.clean() == 0
    desk.database.shift_clock(31 * 86400)
    assert janitor.clean() == 2
    assert [case.offset for case in cases(desk)] == [3]
    assert rows(desk.database, "select * from desk_forgotten") == [("shop", "error", "abandoned", 2, 2)]
    assert rows(desk.database, "select count(*) from desk_history") == [(0,)]
    check_tallies(desk.database)
