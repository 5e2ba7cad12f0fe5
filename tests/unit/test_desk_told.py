"""Error records are read for the desk: the quick way gives what the plain way gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from towpath.desk.cases.model import case_id
from towpath.desk.cases.store import is_case_id
from towpath.desk.intake import error_reader as told
from towpath.desk.intake.decision import KEY_HELD
from towpath.desk.intake.error_reader import parse_error
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.records.errors import PREFIX, BatchName, ErrorRecord, error_records
from towpath.flow.records.reentry import reentry_record
from towpath.flow.run import attempt as ordering
from towpath.flow.worker.report import FailedRecord
from towpath.log.record import Record, decode_headers

texts = st.text(st.characters(codec="utf-8"), max_size=30)
names = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=8)
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=20)), max_size=3).map(tuple)


@st.composite
def errors(draw: st.DrawFn) -> Record:
    failure = RecordFailure(draw(st.sampled_from(ErrorCode)), *(draw(texts) for _ in range(4)))
    batch = BatchName(draw(names), draw(names), draw(texts), draw(st.integers(0, 9)), draw(st.integers(0, 9)), "h", "p")
    one = FailedRecord(
        draw(names),
        draw(st.integers(0, 9)),
        draw(st.integers(0, 1 << 40)),
        draw(st.integers(0, 1 << 42)),
        draw(st.none() | st.binary(max_size=9)),
        draw(st.none() | st.binary(max_size=9)),
        draw(headers),
        failure,
        draw(st.none() | names),
        None,
    )
    (record,) = error_records([one], batch, {one.topic: draw(texts)})
    return Record("errors", 0, 7, 1_700_000_000_000, record.key, record.value, record.headers)


@given(errors())
def test_the_quick_way_reads_what_the_plain_way_reads(record: Record) -> None:
    said = {name: value or b"" for name, value in record.headers if name.startswith(PREFIX)}
    quick, plain = parse_error(record, "id"), told._error(record, said, ErrorRecord.read(record))
    trace = quick.failure.trace
    assert plain.failure._replace(trace=trace) == quick.failure
    assert plain._replace(failure=quick.failure, headers=quick.headers) == quick
    assert sorted(decode_headers(quick.headers), key=repr) == sorted(decode_headers(plain.headers), key=repr)


@given(errors())
def test_a_record_can_go_back_with_what_is_kept(record: Record) -> None:
    kept = record._replace(headers=decode_headers(parse_error(record, "id").headers))
    assert reentry_record(kept, "c", 2) == reentry_record(record, "c", 2)


@given(st.lists(st.tuples(st.text(min_size=1, max_size=20), st.none() | st.binary(max_size=20)), max_size=5))
def test_anything_can_be_read(spoiled: list[tuple[str, bytes | None]]) -> None:
    ours = tuple((PREFIX + name, value) for name, value in spoiled)
    record = Record("errors", 3, 9, 1_700_000_000_000, None, b"x", ours)
    assert parse_error(record, "id").kind == "stray"


@given(st.integers(), st.lists(st.text(), max_size=4))
def test_ids_are_in_the_order_of_time_and_never_change(time: int, parts: list[str]) -> None:
    found = case_id(time, *parts)
    assert found == case_id(time, *parts)
    assert is_case_id(found)
    assert case_id(max(0, time) + 1, "x") > case_id(max(0, time), "y") or time >= (1 << 48) - 1
    assert found != case_id(time, *parts, "more")


def test_what_a_flow_says_of_records_that_it_holds() -> None:
    assert KEY_HELD == ordering.KEY_HELD
