"""Cases as persons see them: whole, found by what is in them, exported, and less what their role may not see."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.desk_world import FLOW, World
from tests.support.sweep import sweep

from towpath.core.clock import to_micros
from towpath.db.database import Query
from towpath.desk.actions.actions import JobKind
from towpath.desk.case_queries import FIRST_DUE
from towpath.desk.cases.model import Case, CaseSelection, CaseState
from towpath.desk.masks import MASK
from towpath.errors import FieldsMasked, UnknownCase
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.log import NewRecord
from towpath.operations.cases import CaseExport, ExportFormat
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ada", "why": "mended"}
JANE, JOHN = b'{"id":1,"email":"jane@example.org"}', b'{"id":2,"email":"john@example.org"}'
SAID = RecordFailure(ErrorCode.TRANSFORM_FAILED, "mail", "ValueError", "jane@example.org is not an address")
MASKED = {"desk": {"masked": {FLOW: ["email"]}}}


@pytest.fixture
def world(make_desk: Callable[..., Runtime]) -> World:
    return World(make_desk(**MASKED))


def test_one_case_with_all_that_is_known(world: World) -> None:
    case = world.case(JANE, headers=(("type", b"order"),))
    view = world.desk.cases.show(case.id)
    assert view.case.id == case.id
    assert view.group.id == case.group_id
    assert not view.is_masked
    assert (view.value, view.headers) == (JANE, (("type", b"order"),))
    assert [each.attempt for each in view.attempts] == [1]
    assert view.group.cases[CaseState.OPEN] == 1


def test_found_by_number_id_and_beginning(world: World) -> None:
    case = world.case()
    assert {world.desk.cases.find(text).id for text in (str(case.seq), case.id, case.id[:8], case.id.upper())} == {
        case.id
    }
    for text in ("", "999", "zzzz", "' or 1=1", "0" * 400):
        with pytest.raises(UnknownCase):
            world.desk.cases.find(text)


def test_the_record_is_read_back_by_its_offset_while_the_log_has_it(world: World) -> None:
    errors = f"{FLOW}.errors"
    ((partition, offset),) = world.runtime.log.append(errors, [NewRecord(JANE, b"k")])
    case = world.case(JANE, error_offset=offset)
    found = world.desk.cases.record(case)
    assert found is not None
    assert found.value == JANE
    hidden = world.desk.cases.record(case, masks=world.desk.masks_for("viewer"))
    assert hidden is not None
    assert json.loads(hidden.value or b"") == {"id": 1, "email": MASK}
    world.runtime.log.append(errors, [NewRecord(JOHN)])
    world.runtime.log.delete_before(errors, {partition: offset + 1})
    assert world.desk.cases.record(case) is None
    world.runtime.log.delete_topic(errors)
    assert world.desk.cases.record(case) is None


@pytest.mark.parametrize("odd", [b"\x00\xff\xfe", b"", b"<script>alert(1)</script>\x1b[2J", "Zürich %_' \\".encode()])
def test_bodies_that_are_not_text(world: World, odd: bytes) -> None:
    case = world.case(odd)
    assert world.desk.cases.show(case.id).value == odd
    (line,) = CaseExport(world.desk.cases).lines(CaseSelection(flow=FLOW), ExportFormat.JSON)
    item = json.loads(line)
    assert item.get("value") == odd.decode() if _is_text(odd) else "value_base64" in item


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_a_body_of_fifty_megabytes_in_a_file(world: World) -> None:
    large = b"x" * (50 << 20)
    name = world.parts.blobs.keep(large)
    case = world.case(blob=name, value=None, body_bytes=len(large))
    assert world.desk.cases.body(case.id) == large
    assert world.desk.cases.show(case.id).value == large
    world.parts.blobs.path(name).unlink()
    assert world.desk.cases.show(case.id).value is None  # not to be had here: all else is shown


@pytest.fixture
def jane_and_john(world: World) -> list[Case]:
    cases = world.cases(2, values=[JANE, JOHN], failure=SAID)
    world.desk.operate.assign([cases[1].id], "bob", **BY)
    return cases


@sweep(
    ("selection", "found"),
    [
        ({"body": "jane"}, [0]),
        ({"body": "example.org"}, [1, 0]),
        ({"body": "%"}, []),
        ({"body": "JANE"}, []),
        ({"text": "not an address"}, [1, 0]),
        ({"text": "_"}, []),
        ({"code": 9}, [1, 0]),
        ({"code": 9, "body": "john"}, [1]),
        ({"step": "mail", "exception": "ValueError", "stage": "main", "flow": FLOW}, [1, 0]),
        ({"step": "nowhere"}, []),
        ({"flow": "other"}, []),
        ({"assignee": "bob"}, [1]),
        ({"states": (CaseState.RESOLVED,)}, []),
    ],
)
def test_search(world: World, jane_and_john: list[Case], selection: dict[str, Any], found: list[int]) -> None:
    cases = jane_and_john
    chosen = CaseSelection(**selection)
    assert [case.id for case in world.desk.cases.page(chosen).cases] == [cases[n].id for n in found]
    assert world.desk.cases.count(chosen) == len(found)


def test_an_edited_body_is_what_is_searched(world: World) -> None:
    case = world.case(JANE)
    world.desk.edits.edit(case.id, JOHN, seen=world.desk.cases.show(case.id).seen, **BY)
    assert [each.id for each in world.desk.cases.page(CaseSelection(body="john")).cases] == [case.id]
    assert world.desk.cases.page(CaseSelection(body="jane")).cases == []


# Masked


def test_a_viewer_does_not_see_masked_fields_anywhere(world: World) -> None:
    case = world.case(JANE, failure=SAID, key=b"k")
    world.desk.edits.edit(case.id, JOHN, seen=world.desk.cases.show(case.id).seen, **BY)
    masks = world.desk.masks_for("viewer")
    view = world.desk.cases.show(case.id, masks=masks)
    assert view.is_masked
    listed = world.desk.cases.page(CaseSelection(), masks=masks).cases
    lines = [
        *CaseExport(world.desk.cases).lines(CaseSelection(), ExportFormat.JSON, masks=masks),
        *CaseExport(world.desk.cases).lines(CaseSelection(), ExportFormat.CSV, masks=masks),
    ]
    everything = repr((view, listed, lines, world.desk.cases.body(case.id, masks=masks)))
    # The message quotes what the record had when it failed, which the body that goes out next has not any more.
    assert "john" not in everything
    assert "jane" not in everything
    assert MASK in everything
    assert [change.path for change in view.edits[0].changes] == ["id"]
    assert world.desk.cases.show(case.id, masks=world.desk.masks_for("admin")).value == JOHN


def test_a_message_does_not_tell_what_the_body_hides(world: World) -> None:
    world.case(JANE, failure=SAID)
    masks = world.desk.masks_for("viewer")
    (case,) = world.desk.cases.page(CaseSelection(), masks=masks).cases
    assert case.message == f"{MASK} is not an address"
    view = world.desk.cases.show(case.id, masks=masks)
    assert "jane" not in repr(view)
    world.desk.operate.abandon([case.id], **BY)
    assert world.desk.cases.show(case.id, masks=masks).case.message == MASK  # its body is gone


def test_what_is_hidden_cannot_be_found_out_by_searching(world: World) -> None:
    world.cases(3, values=[JANE, JOHN, b'{"id":3,"city":"jane"}'], failure=SAID)
    masks = world.desk.masks_for("operator")
    assert len(world.desk.cases.page(CaseSelection(body="jane")).cases) == 2
    (found,) = world.desk.cases.page(CaseSelection(body="jane"), masks=masks).cases
    assert found.offset == 3
    assert world.desk.cases.page(CaseSelection(body="john"), masks=masks).cases == []
    with pytest.raises(FieldsMasked):
        world.desk.cases.count(CaseSelection(body="jane"), masks=masks)
    with pytest.raises(FieldsMasked):
        world.desk.jobs.count(JobKind.REPLAY, CaseSelection(text="jane"), masks=masks)
    with pytest.raises(FieldsMasked):
        world.desk.jobs.plan(JobKind.REPLAY, CaseSelection(text="jane"), masks=masks, **BY)
    assert world.desk.cases.count(CaseSelection(flow=FLOW), masks=masks) == 3


def test_a_masked_role_may_not_edit(world: World) -> None:
    case = world.case(JANE)
    seen = world.desk.cases.show(case.id).seen
    with pytest.raises(FieldsMasked):
        world.desk.edits.edit(case.id, JOHN, seen=seen, masks=world.desk.masks_for("operator"), **BY)
    with pytest.raises(FieldsMasked):
        world.desk.edits.agree(case.id, 1, masks=world.desk.masks_for("operator"), **BY)


def test_who_sees_what_is_a_setting(make_desk: Callable[..., Runtime]) -> None:
    desk = make_desk(desk={"masked": {"*": ["email"]}, "sees_masked": "operator"}).desk
    assert desk.masks_for("viewer")
    assert not desk.masks_for("operator")
    assert not desk.masks_for("admin")


# Exports


def test_csv_is_read_back_as_it_was_and_runs_nothing(world: World) -> None:
    tricky = b'{"id":1,"city":"a;b,\\"c\\"\\nd"}'
    world.case(tricky, failure=SAID._replace(message="=1+1\nnext"), key=b"@SUM(A1)")
    rows = list(
        csv.DictReader(io.StringIO("".join(CaseExport(world.desk.cases).lines(CaseSelection(), ExportFormat.CSV))))
    )
    (row,) = rows
    assert row["value"].encode() == tricky
    assert (row["message"], row["key"]) == ("'=1+1\nnext", "'@SUM(A1)")


def test_an_export_has_every_case_once(world: World) -> None:
    cases = world.cases(450)
    lines = [
        json.loads(line) for line in CaseExport(world.desk.cases).lines(CaseSelection(flow=FLOW), ExportFormat.JSON)
    ]
    assert [line["id"] for line in lines] == [case.id for case in reversed(cases)]


def test_what_an_error_record_says_of_masked_fields_is_masked(world: World) -> None:
    errors = f"{FLOW}.errors"
    said = (("towpath.message", SAID.message.encode()), ("towpath.trace", b"in f: " + SAID.message.encode()))
    ((_, offset),) = world.runtime.log.append(errors, [NewRecord(JANE, b"k", said)])
    case = world.case(JANE, error_offset=offset, failure=SAID)
    masks = world.desk.masks_for("viewer")
    found = world.desk.cases.record(case, masks=masks)
    assert found is not None
    assert dict(found.headers) == {
        "towpath.message": f"{MASK} is not an address".encode(),
        "towpath.trace": f"in f: {MASK} is not an address".encode(),
    }
    stray = world.case(JANE, headers=said)
    assert b"jane" not in b"".join(value or b"" for _, value in world.desk.cases.show(stray.id, masks=masks).headers)
    assert not any(
        "jane" in line for line in CaseExport(world.desk.cases).lines(CaseSelection(), ExportFormat.JSON, masks=masks)
    )


def test_one_record_that_is_nested_too_deep_hides_no_others(world: World) -> None:
    """It may be read, and not be written again."""
    deep = b'{"email":"jane@example.org","x":' + b"[" * 300 + b"]" * 300 + b"}"
    cases = [world.case(JANE, failure=SAID), world.case(deep, failure=SAID)]
    masks = world.desk.masks_for("viewer")
    assert [case.id for case in world.desk.cases.page(CaseSelection(), masks=masks).cases] == [
        case.id for case in reversed(cases)
    ]
    assert world.desk.cases.show(cases[1].id, masks=masks).value == MASK.encode()
    assert len(list(CaseExport(world.desk.cases).lines(CaseSelection(), ExportFormat.CSV, masks=masks))) == 3
    assert not world.desk.cases.page(CaseSelection(text="jane"), masks=masks).cases
    world.desk.edits.edit(cases[1].id, JOHN, seen=world.desk.cases.show(cases[1].id).seen, **BY)
    assert world.desk.cases.show(cases[1].id).edits[0].changes


def test_the_next_and_the_one_before_of_a_list(world: World) -> None:
    other = RecordFailure(ErrorCode.NOT_VALID, "tax", "ValueError", "no tax")
    first, odd, second, third = world.case(), world.case(failure=other), world.case(), world.case()
    world.desk.operate.assign([first.id, third.id], "bea", **BY)
    world.desk.operate.abandon([second.id], **BY)
    cases = world.desk.cases

    def beside(seq: int, **chosen: Any) -> tuple[int | None, int | None]:
        newer, older = (look(seq, CaseSelection(**chosen)) for look in (cases.newer, cases.older))
        return None if newer is None else newer.seq, None if older is None else older.seq

    assert beside(odd.seq) == (second.seq, first.seq)
    assert beside(odd.seq, states=(CaseState.OPEN,)) == (third.seq, first.seq)
    assert beside(second.seq, group=first.group_id) == (third.seq, first.seq)
    assert beside(first.seq, group=odd.group_id) == (odd.seq, None)
    assert beside(odd.seq, flow=FLOW, states=(CaseState.OPEN, CaseState.ABANDONED)) == (second.seq, first.seq)
    assert beside(odd.seq, assignee="bea") == (third.seq, first.seq)
    assert beside(first.seq, code=8) == (odd.seq, None)
    assert beside(first.seq, text="no tax") == (odd.seq, None)
    assert beside(third.seq) == (None, second.seq)


def test_beside_is_found_by_what_the_person_sees(world: World) -> None:
    first = world.case(JANE)
    world.case(JOHN)
    third = world.case(JANE)
    masks, cases = world.desk.masks_for("viewer"), world.desk.cases
    assert cases.newer(first.seq, CaseSelection(body="jane@"), masks=masks) is None
    found = cases.newer(first.seq, CaseSelection(body="jane@"))
    assert found is not None
    assert found.seq == third.seq
    seen = cases.newer(first.seq, CaseSelection(body='"id":1'), masks=masks)
    assert seen is not None
    assert seen.seq == third.seq


def test_what_waits_in_a_lane_by_when_it_is_due(world: World) -> None:
    late, soon = world.case(JANE, failure=SAID), world.cases(3)
    world.desk.operate.replay([case.id for case in soon], delay_s=60, **BY)
    world.database.shift_clock(5)
    world.desk.operate.replay([late.id], delay_s=60, **BY)
    lane = world.read(late).lane
    assert lane is not None
    cases = world.desk.cases
    waiting = cases.waiting(FLOW, lane)
    assert [case.seq for case in waiting] == [*(case.seq for case in soon), late.seq]
    seen, after = [], FIRST_DUE
    while page := cases.waiting(FLOW, lane, limit=1, after=after):
        seen.append(page[0].seq)
        assert page[0].due_at is not None
        after = to_micros(page[0].due_at), page[0].seq
    assert seen == [case.seq for case in waiting]
    assert "jane" in waiting[-1].message
    assert "jane" not in cases.waiting(FLOW, lane, masks=world.desk.masks_for("viewer"))[-1].message
    assert cases.waiting("other", lane) == []


def test_what_is_parked_behind_a_case(world: World) -> None:
    first = world.case()
    parked = world.case(JANE, failure=SAID, state=CaseState.PARKED, behind=first.id)
    found = world.desk.cases.parked_behind(first.id)
    assert [case.seq for case in found] == [parked.seq]
    hidden = world.desk.cases.parked_behind(first.id, masks=world.desk.masks_for("viewer"))
    assert "jane" not in hidden[0].message
    assert world.desk.cases.parked_behind(parked.id) == []


JUMP = {
    "sqlite": "update sqlite_sequence set seq = 100000 where name = 'desk_case'",
    "postgres": "select setval(pg_get_serial_sequence('desk_case', 'seq'), 100000)",
}


def test_a_search_looks_for_so_long_and_says_how_far_it_came(world: World) -> None:
    tax = RecordFailure(ErrorCode.NOT_VALID, "tax", "ValueError", "no tax")
    rare = world.cases(3, failure=tax)
    with world.database.transaction() as tx:
        tx.rows(Query("test", JUMP[world.database.dialect], uses_now=False), {})
    world.cases(3)
    whole = world.desk.cases.page(CaseSelection(text="no tax"))
    assert [case.seq for case in whole.cases] == [case.seq for case in reversed(rare)]
    assert whole.next is None
    for chosen in (CaseSelection(text="no tax"), CaseSelection(text="no tax", flow=FLOW, states=(CaseState.OPEN,))):
        pages = [world.desk.cases.page(chosen, look_s=0)]
        assert pages[0].cases == []
        while (before := pages[-1].next) is not None:
            pages.append(world.desk.cases.page(chosen, look_s=0, before=before))
        assert len(pages) < 5
        assert [case for page in pages for case in page.cases] == whole.cases
    assert len(world.desk.cases.page(CaseSelection(flow=FLOW), look_s=0).cases) == 6  # an index gives them
