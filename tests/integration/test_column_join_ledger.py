"""The event times of a batch go into its row with the commit; what was fixed before stays where nothing is said."""

from __future__ import annotations

from tests.integration.test_flow_ledger import Book, upto
from tests.support.quiet import Quiet

from towpath.flow.delivery.ledger import BatchSnapshot


def test_a_commit_adds_the_event_times(quiet: Quiet) -> None:
    """On both databases."""
    book = Book(quiet)
    first = book.snapshot(0, upto(1))
    assert book.commit(first).units == first.units
    units = BatchSnapshot(2, watermarks={"both": 5}, event_times={"both/order": 9})
    second = book.commit(book.snapshot(1, upto(2, 1)), units=units.to_value())
    with book.database.read() as tx:
        found = book.ledger.last_committed(tx, second.flow, second.stage, 1)
    assert found is not None
    assert BatchSnapshot.of_value(found.units) == units
