"""What a batch comes to that at-most-once does not try again: every record that was read is in one place."""

from __future__ import annotations

from collections import Counter

from towpath.flow.delivery.places import RecordPlace
from towpath.flow.run.outcome import BatchOutcome
from towpath.flow.worker.report import SegmentCounts


def test_everything_that_was_read() -> None:
    outcome = BatchOutcome.all_forfeited(SegmentCounts(read=7))
    assert (outcome.read, outcome.forfeited) == (7, 7)
    assert outcome.is_balanced


def test_what_a_join_keeps_is_not_forfeited() -> None:
    outcome = BatchOutcome.all_forfeited(SegmentCounts(read=3, placed=Counter({RecordPlace.JOINING: 2})))
    assert (outcome.forfeited, outcome.placed[RecordPlace.JOINING]) == (1, 2)
    assert outcome.is_balanced


def test_of_a_document_that_was_joined_all_records_are() -> None:
    """The one that has completed it was read now; the other had waited since an earlier batch."""
    outcome = BatchOutcome.all_forfeited(
        SegmentCounts(read=1, placed=Counter({RecordPlace.JOINING: -1, RecordPlace.AGGREGATED: 1}))
    )
    assert (outcome.forfeited, outcome.placed[RecordPlace.JOINING], outcome.placed[RecordPlace.AGGREGATED]) == (
        2,
        -1,
        0,
    )
    assert outcome.is_balanced
