"""One unit of a batch in the log: its parts, each with its mark in one transaction.

The order is what keeps a part from being written twice, whoever else is at it:

1. Who is here has opened the producer of the unit's name. That has ended what an older one had open, and keeps it from
   committing anything ever after.
2. Then the marks are looked through. A part that an older one has written is among them, because it could only commit
   before it was fenced.
3. A part that is not there is written together with its mark. If a newer one has been opened meanwhile, this commit
   fails; the newer one then looks for marks after that, and finds what is committed and nothing else.

So of all who ever try, one commits, and each of the others finds its mark or cannot commit. It does not matter how late
somebody comes, nor that step 1 may have been long ago (a producer that is kept from batch to batch): had anybody opened
the name since, step 3 would fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress

from towpath import crash
from towpath.crash import CrashPoint
from towpath.errors import LogError
from towpath.flow.mark import Mark
from towpath.flow.mark_topic import MarkTopic, Said
from towpath.log.log import LogTransaction, Producer
from towpath.log.record import NewRecord


class _Undone(Exception):
    """Ends the block of a transaction that is not to be committed."""


class MarkedUnit:
    """The transactions of one unit, one after the other. `found` are the parts that are there, by number."""

    def __init__(self, producer: Producer, marks: MarkTopic, mark: Mark, since: Mapping[int, int]) -> None:
        self._producer = producer
        self._marks = marks
        self._mark = mark
        self._block: ExitStack | None = None
        self._transaction: LogTransaction | None = None
        self.found = marks.parts(mark, since)
        crash.here(CrashPoint.MARKS_READ)

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """Put records into the open transaction; the first ones begin it."""
        self._begun().append(topic, records)

    def flush(self) -> None:
        """Wait until the log has taken what was appended: what follows does not travel with it."""
        self._begun().flush()

    def commit(self, part: int, said: Said) -> None:
        """Commit what was appended, as this part."""
        transaction = self._begun()
        # The mark goes last, when all else has arrived: from it to the commit it hides other marks from readers.
        transaction.flush()
        records = self._marks.records(self._mark._replace(part=part), said, self._producer.name)
        transaction.append(self._marks.name, records)
        block, self._block, self._transaction = self._block, None, None
        if block is not None:
            block.close()

    def abort(self) -> None:
        """Undo what is open. Whether it is undone at once or when the name is opened again makes no difference."""
        block, self._block, self._transaction = self._block, None, None
        if block is not None:
            with suppress(LogError):
                block.__exit__(_Undone, _Undone(), None)

    def _begun(self) -> LogTransaction:
        if self._transaction is None:
            self._block = ExitStack()
            self._transaction = self._block.enter_context(self._producer.transaction())
        return self._transaction
