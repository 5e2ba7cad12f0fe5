"""Corrections that are made while error records are taken in, for flows whose policy says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from towpath.db import Database, Transaction
from towpath.desk.corrections.correcting import correction
from towpath.desk.corrections.correction import Correction
from towpath.desk.corrections.fields import token
from towpath.desk.corrections.knowing import Knowing
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.proposal import Doubt
from towpath.desk.corrections.touched_store import Touch, TouchedStore
from towpath.desk.mending import HEADER, Made, Mended

if TYPE_CHECKING:
    from towpath.flow.failure import Failure


class LearnedMender:
    """What intake asks, inside of its transaction. So what is known is read by another thread, with its own."""

    def __init__(self, database: Database) -> None:
        self._knowing = Knowing(database)
        self._touched = TouchedStore(database)
        self._reader = ThreadPoolExecutor(1, "corrections")

    def automatic(self, flow: str, stage: str, value: bytes, failure: Failure) -> Mended | None:
        """The correction that is sure enough to be made without a person; None: there is none."""
        knowledge = self._known(flow)
        found = None if knowledge is None else correction(knowledge, value, failure.message)
        if found is None or isinstance(found, Doubt):
            return None
        return mended_by(found)

    def made(self, tx: Transaction, made: Sequence[Made]) -> None:
        """Write down what was touched, in the transaction that writes the edits."""
        self._touched.add(tx, (touch for each in made for touch in touches_of(each)))

    def _known(self, flow: str) -> Knowledge | None:
        """What is known for a flow, not more than a second old; None: nothing may be done without asking."""
        if self._knowing.is_fresh(flow):
            return self._knowing.for_automatic(flow)
        return self._reader.submit(self._knowing.for_automatic, flow).result()


def mended_by(found: Correction) -> Mended:
    """A correction as the body that goes out next."""
    why = "; ".join(change.text for change in found.changes)
    data = {HEADER: found.header, "changes": [change.to_json() for change in found.changes]}
    return Mended(found.value, found.who, why, data)


def touches_of(made: Made) -> Iterable[Touch]:
    """Which fields were changed by it."""
    for each in made.mended.data.get("changes", ()):
        before, after = token(each["before"]), token(each["after"]) or "null"
        yield Touch(made.case_id, made.edit, each["field"], each["rule"], before, after, made.attempts)
