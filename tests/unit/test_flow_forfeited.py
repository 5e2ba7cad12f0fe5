"""What a batch comes to that at-most-once does not try again: every record that was read is in one place."""

from __future__ import annotations

from collections import Counter

from towpath.flow.outcome import Outcome
from towpath.flow.place import Place
from towpath.flow.worker.report import Counts


def test_everything_that_was_read() -> None:
    outcome = Outcome.all_forfeited(Counts(read=7))
    assert (outcome.read, outcome.forfeited) == (7, 7)
    assert outcome.is_balanced


def test_what_a_join_keeps_is_not_forfeited() -> None:
    outcome = Outcome.all_forfeited(Counts(read=3, placed=Counter({Place.JOINING: 2})))
    assert (outcome.forfeited, outcome.placed[Place.JOINING]) == (1, 2)
    assert outcome.is_balanced


def test_of_a_document_that_was_joined_all_records_are() -> None:
    """The one that has completed it was read now; the other had waited since an earlier batch."""
    outcome = Outcome.all_forfeited(Counts(read=1, placed=Counter({Place.JOINING: -1, Place.AGGREGATED: 1})))
    assert (outcome.forfeited, outcome.placed[Place.JOINING], outcome.placed[Place.AGGREGATED]) == (2, -1, 0)
    assert outcome.is_balanced
