"""How a task reads what a join on columns has said: what left it is not read again, what it has made may be long."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.column_join import Row, batch_of, order

from towpath.flow.delivery.ledger import BatchSnapshot
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.worker.reader import ReadRecords
from towpath.flow.worker.records import VERDICT, RecordVerdict
from towpath.flow.worker.report import SegmentCounts, SegmentReport

FAILURE = RecordFailure(ErrorCode.NOT_VALID, "both", "Unmatched", "none came")


def judged(rows: list[Row], said: list[RecordVerdict]) -> pa.RecordBatch:
    texts = pa.array([verdict.encode() for verdict in said], pa.binary())
    batch = batch_of(rows)
    return batch.set_column(batch.schema.get_field_index(VERDICT), VERDICT, texts)


def test_reading(tmp_path: Path) -> None:
    pair = Row("orders", 6, {"order": {"n": 1}, "payment": [{"p": 1}, {"p": 2}], "long": "x" * 100})
    given = [{"order": {"n": 1}, "payment": {"p": 1}}, {"order": {"n": 1}, "payment": {"p": 2}}]
    rows = [order(2, 7, 0), order(5, 7, 0, long="x" * 100), pair, order(7, 8, 0)]
    said = [
        RecordVerdict(failure=FAILURE, is_again=True),
        RecordVerdict(seen={"both/order": 5}),
        RecordVerdict(given=given, was_read=True, moves={"joining": -2, "aggregated": 2}, seen={"both/order": 4}),
        RecordVerdict("joining"),
    ]
    report = SegmentReport(tmp_path, "segment0-0")
    [chunk] = ReadRecords("both", 100, "refuse", None, {}).chunks(iter([judged(rows, said)]), report)
    assert chunk.documents == given
    assert chunk.inputs == [2, 2]
    assert {at: failure.code for at, failure in chunk.failed.items()} == {
        0: ErrorCode.NOT_VALID,
        1: ErrorCode.RECORD_TOO_BIG,
    }
    counts = SegmentCounts.from_json(report.counts.to_json())
    assert counts.read == 3, "the first was read by an earlier batch"
    assert counts.lowest == {"orders/0": 5}
    assert counts.event_times == {"both/order": 5}
    assert counts.placed == {"joining": -1, "aggregated": 2}


@pytest.mark.parametrize("value", [b"oops", b'{"order": {"n": 1, "n": 2}}', b"[1]"])
def test_what_was_read_before_and_somebody_has_spoiled_fails_alone(tmp_path: Path, value: bytes) -> None:
    rows = [order(5, 7, 0), Row("orders", 6, value), Row("orders", 7, {"given": "x" * 200})]
    said = [RecordVerdict(), RecordVerdict(was_read=True), RecordVerdict(given=[{"n": 1}], by="both", was_read=True)]
    reading = ReadRecords("both", 100, "refuse", None, {})
    [chunk] = reading.chunks(iter([judged(rows, said)]), SegmentReport(tmp_path, "segment0-0"))
    assert [*chunk.failed] == [1]
    assert chunk.inputs == [0, 2]


def test_the_row_of_a_batch_has_its_watermark() -> None:
    units = BatchSnapshot(3, {0: 5}, "id", {"both": -7}, {"both/order": 9})
    assert BatchSnapshot.of_value(units.to_value()) == units
    assert BatchSnapshot.of_value({"buckets": 3, "marks": {}}).watermarks == {}, "of an older row"
