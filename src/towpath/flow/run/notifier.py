"""Step 5 of docs/explanation/delivery.md: what failed and what became of returned records, told once for each batch.

A stage has one `BatchNotifier` for as long as it runs. Its transactions are those of the producer `<flow>.<stage>`,
which is opened when first needed, kept between batches, and opened again after anything went wrong with it. In each
`send`:

1. the producer is opened, unless it is open: from then on no older driver of the stage can commit;
2. the marks since `marks_since` are looked through: what is there was sent by an earlier attempt and is passed over;
3. the rest goes out, with the mark in the same transaction.

A producer that is still open from the batch before need not be opened again: had somebody else opened the name since,
this one could not commit any more, and what it had not found in step 2 stays unwritten.

Kafka takes all of it in one transaction, as it comes; nothing is kept in memory. The SQLite log takes parts, each with
its own mark. Parts are cut by number and size along the sequence of the records, and a mark says how many records its
part has, so that a second attempt, which must come with the same records in the same order, goes on where the first
one ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby, islice
from operator import itemgetter

from towpath.flow.delivery.ids import Strategy
from towpath.flow.delivery.marks import Mark, MarkedUnit, MarkTopic, PartManifest
from towpath.flow.delivery.splitter import TransactionSplitter, limits_of
from towpath.flow.records.errors import AT_ONCE, ErrorWriter, in_portions
from towpath.flow.topics import FlowTopics, producer_of
from towpath.log.log import Log, Producer
from towpath.log.record import HEADER_OVERHEAD, RECORD_OVERHEAD, NewRecord

Told = tuple[str, NewRecord]  # topic and record


class BatchNotifier:
    """Tells the topics of a flow what became of a batch. Used by the one thread that runs the stage.

    Errors of the log come out as they are (`LogError`, `UnknownTopic`, …): the batch is tried again from its stored
    outcome, with the same records.
    """

    def __init__(
        self, log: Log, topics: FlowTopics, flow: str, stage: str, strategy: Strategy, error_box: ErrorWriter
    ) -> None:
        self._log = log
        self._errors = topics.errors
        self._marks = MarkTopic(log, topics.marks)
        self._name = producer_of(flow, stage)
        self._has_marks = strategy.has_marks
        self._box = error_box
        self._producer: Producer | None = None

    def send(self, mark: Mark, marks_since: Mapping[int, int], records: Iterable[Told]) -> bool:
        """Write all of it; False when there was nothing to write: no records, or they were there before.

        `mark` is that of part 0, with an output and a unit that no output of the stage has. Without marks everything
        is appended, and a repeat appends it again.
        """
        fitting: Iterator[Told] = map(self._fitting, records)
        first = next(fitting, None)
        if first is None:
            return False
        fitting = chain((first,), fitting)
        if not self._has_marks:
            self._append(fitting)
            return True
        try:
            if self._producer is None:
                self._producer = self._log.producer(self._name)
            unit = MarkedUnit(self._producer, self._marks, mark, marks_since)
            try:
                return self._send(unit, fitting)
            except BaseException:
                unit.abort()
                raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the producer; the next `send` opens another."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _send(self, unit: MarkedUnit, records: Iterator[Told]) -> bool:
        parts = TransactionSplitter(unit.found, limits_of(self._log))
        part, count, is_news = None, 0, False
        while portion := list(islice(records, AT_ONCE)):
            for step in parts.steps([_size(record) for _, record in portion]):
                if part is not None and part != step.part:
                    unit.commit(part, PartManifest(count))
                    part = None
                if step.is_there:
                    continue
                if part is None:
                    part, count, is_news = step.part, 0, True
                count += step.stop - step.start
                for topic, several in groupby(portion[step.start : step.stop], itemgetter(0)):
                    unit.append(topic, [record for _, record in several])
        if parts.last is not None:
            unit.commit(parts.last, PartManifest(count if part is not None else 0))
            is_news = True
        return is_news

    def _append(self, records: Iterator[Told]) -> None:
        for topic, several in groupby(records, itemgetter(0)):
            for portion in in_portions(record for _, record in several):
                self._log.append(topic, portion)

    def _fitting(self, told: Told) -> Told:
        topic, record = told
        return (topic, self._box.fitting(record)) if topic == self._errors else told


def _size(record: NewRecord) -> int:
    headers = sum(HEADER_OVERHEAD + len(name) + len(value or b"") for name, value in record.headers)
    return RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"") + headers
