"""Marks: the proof that one part of one unit of a batch is in an output. A sink writes it in the same act as the rows.

An attempt at a batch looks for marks first and leaves out what is there. A generation is raised by every new
checkpoint, so that the marks of an old one never match.

**The topic of marks** (`MarkTopic`) has one partition and is kept for ever. A mark is written in the transaction that
holds its part of a unit. Its key is the mark's text; its value says how many deliveries the part was offered, and what
their ids add up to. Before it, in the same transaction, stands a note for each delivery that was refused: an attempt
that finds the part there has to refuse the same ones again, whatever the log thinks of them by then.

A *fence* is the record of a new generation of a stage, appended before anything of that generation is read: a writer
of a lower generation is late, and writes nothing (`fence_off` in `flow/run/configuration.py`).

**Looking for marks on Kafka.** A reader of committed records sees nothing behind an open transaction, wherever that one
comes from: a task that died between its mark and its commit hides marks of other units that are committed. Taking such
a hidden mark for one that is not there would write its part twice. So `parts` also looks at what is held back. Its
caller has opened the unit's producer: no mark of the unit can come any more, those that are there lie before the end
of the topic, and each is either decided or held back. Where nothing of the unit is held back, the committed ones are
all there are. Where something is, it waits until that is decided; a transaction in the way that does not end is ended
by opening its producer, whose name its mark tells.

**Writing one unit** (`MarkedUnit`): its parts, each with its mark in one transaction. The order is what keeps a part
from being written twice, whatever else is at work on it:

1. The writer has opened the producer of the unit's name. That has ended what an older one had open, and keeps it from
   committing anything ever after.
2. Then the marks are looked through. A part that an older one has written is among them, because it could only commit
   before it was fenced.
3. A part that is not there is written together with its mark. If a newer one has been opened meanwhile, this commit
   fails; the newer one then looks for marks after that, and finds what is committed and nothing else.

So of all that ever try, one commits, and each of the others finds its mark or cannot commit. It does not matter how
late an attempt comes, nor that step 1 may have been long ago (a producer that is kept from batch to batch): had anybody
opened the name since, step 3 would fail.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple, Self

import orjson

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import FlowHalted, LogError, LogUnavailable, OffsetOutOfRange, WriterReplaced
from towpath.log.log import Log, LogTransaction, Producer
from towpath.log.record import NewRecord, Record

PARTITION = 0
PRODUCER = "towpath.producer"
LONGEST_MESSAGE = 300  # characters of a reason: a note has to fit into any log
PATIENCE_S = 1.0  # a transaction lives some milliseconds after its mark was written
GIVING_UP_S = 30.0
PAUSE_S = 0.02
MARK_TYPES = (str, str, int, int, str, str, int)
NO_BATCH = -1  # of a fence


class Mark(NamedTuple):
    """`unit` is an input partition, `topic/3`, or where a stage shuffles a bucket, `5of8`."""

    flow: str
    stage: str
    generation: int
    batch_id: int
    output: str
    unit: str
    part: int = 0

    @property
    def text(self) -> str:
        """The same for ever: it is stored in sinks."""
        return json.dumps(self, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def of_text(cls, text: str) -> Self:
        return cls(*json.loads(text))


class RefusalReason(NamedTuple):
    """Why a delivery was refused."""

    code: int
    exception: str
    message: str


class PartManifest(NamedTuple):
    """What a mark says of its part: how many deliveries it was offered, and which of them were refused."""

    deliveries: int
    refused: Mapping[bytes, RefusalReason] = {}  # by delivery id
    digest: str = ""  # of the ids of all that were offered; an older mark has none


class MarkTopic:
    """Reads and makes marks. The writer of a part writes its mark."""

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self.name = name

    def ends(self) -> dict[int, int]:
        """Where the topic ends: all marks of a batch that begins now come at or after it."""
        return dict(self._log.ends(self.name))

    def since(self, start: Mapping[int, int]) -> set[Mark]:
        """The marks that are committed and were written since then."""
        return {each.mark for each in self._entries(start) if each.deliveries is not None}

    def is_fenced(self, flow: str, stage: str, generation: int, start: Mapping[int, int]) -> bool:
        """Whether a generation has been kept out since then."""
        unit = Mark(flow, stage, generation, NO_BATCH, "", "")
        return any(each.keeps_out(unit) for each in self._entries(start))

    def parts(self, unit: Mark, start: Mapping[int, int]) -> dict[int, PartManifest]:
        """The parts of a unit that are there, by number. Its producer must have been opened before.

        `WriterReplaced` when a later generation of the stage has begun.
        """
        self._wait_until_decided(unit)
        marks: dict[int, MarkEntry] = {}
        refused: dict[int, dict[bytes, RefusalReason]] = {}
        for each in self._entries(start):
            _check_fence(each, unit)
            if not each.is_of(unit):
                continue
            if each.deliveries is not None:
                marks[each.mark.part] = each
            elif each.refused is not None and each.reason is not None:
                refused.setdefault(each.mark.part, {})[each.refused] = each.reason
        return {
            part: PartManifest(one.deliveries or 0, refused.get(part, {}), one.digest) for part, one in marks.items()
        }

    def fence(self, flow: str, stage: str, generation: int) -> None:
        """Keep out all earlier generations of a stage, as far as they look at the marks from now on."""
        key = Mark(flow, stage, generation, NO_BATCH, "", "").text.encode()
        self._log.append(self.name, [NewRecord(orjson.dumps({"fence": True}), key, partition=PARTITION)])

    def records(self, mark: Mark, said: PartManifest, producer: str) -> list[NewRecord]:
        """What is written for a part."""
        values: list[dict[str, object]] = [
            {"refused": id.hex(), "reason": (int(why.code), why.exception, why.message[:LONGEST_MESSAGE])}
            for id, why in said.refused.items()
        ]
        values.append({"deliveries": said.deliveries, "digest": said.digest})
        key, headers = mark.text.encode(), ((PRODUCER, producer.encode()),)
        return [NewRecord(orjson.dumps(value), key, headers, partition=PARTITION) for value in values]

    def _entries(self, start: Mapping[int, int]) -> Iterator[MarkEntry]:
        """What is committed since then."""
        first = start.get(PARTITION)
        if first is None:
            first = self._log.starts(self.name)[PARTITION]
        if first == self._log.ends(self.name)[PARTITION]:
            return  # as in the first attempt at most batches: there is nothing to read
        try:
            records = self._log.read(self.name, PARTITION, first)
        except OffsetOutOfRange as error:
            raise FlowHalted(
                f"marks of the batch are gone: {error}. Nobody can say which of its parts are written. Make sure that "
                "the topic keeps its records for ever, look at the outputs, and begin anew: towpath flow reset"
            ) from error
        yield from entries(records)

    def _wait_until_decided(self, unit: Mark) -> None:
        begun = time.monotonic()
        while held := list(self._log.undecided(self.name, PARTITION)):
            found = list(entries(held))
            for each in found:
                _check_fence(each, unit)  # it is held back by others: a fence is in no transaction, and counts
            if not any(each.is_of(unit) for each in found):
                return
            waited_s = time.monotonic() - begun
            if waited_s > GIVING_UP_S:
                raise LogUnavailable(f"a transaction in {self.name} does not end, and hides marks; try again")
            if waited_s > PATIENCE_S:
                self._end_transaction(held[0])
            time.sleep(PAUSE_S)

    def _end_transaction(self, first: Record) -> None:
        """End the transaction in the way. Whose it is loses nothing: it tries again, or is dead."""
        name = dict(first.headers).get(PRODUCER)
        if name is not None:
            self._log.producer(name.decode()).close()


class MarkEntry(NamedTuple):
    """A record of the topic: a mark, which has the number of deliveries, a note of one that was refused, or a fence."""

    mark: Mark
    deliveries: int | None = None
    refused: bytes | None = None
    reason: RefusalReason | None = None
    digest: str = ""
    is_fence: bool = False

    def is_of(self, unit: Mark) -> bool:
        return self.mark._replace(part=unit.part) == unit

    def keeps_out(self, unit: Mark) -> bool:
        """Whether the unit is of a generation that has ended."""
        return self.is_fence and self.mark[:2] == unit[:2] and self.mark.generation > unit.generation


def entries(records: Iterable[Record]) -> Iterator[MarkEntry]:
    """The marks and notes among records. All others are passed over: anybody may write to a topic."""
    for record in records:
        try:
            mark = Mark.of_text((record.key or b"").decode())
            fields = orjson.loads(record.value or b"")
            if tuple(map(type, mark)) != MARK_TYPES:
                continue
            if "deliveries" in fields:
                yield MarkEntry(mark, int(fields["deliveries"]), digest=str(fields.get("digest", "")))
            elif "fence" in fields:
                yield MarkEntry(mark, is_fence=True)
            else:
                code, exception, message = fields["reason"]
                reason = RefusalReason(int(code), str(exception), str(message))
                yield MarkEntry(mark, refused=bytes.fromhex(fields["refused"]), reason=reason)
        except (ValueError, TypeError, LookupError, RecursionError):
            continue


def _check_fence(entry: MarkEntry, unit: Mark) -> None:
    if entry.keeps_out(unit):
        raise WriterReplaced(
            f"{unit.flow}/{unit.stage}: generation {unit.generation} has ended, generation {entry.mark.generation} "
            "has begun; a late writer must not write any more"
        )


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

    def commit(self, part: int, said: PartManifest) -> None:
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


class _Undone(Exception):
    """Ends the block of a transaction that is not to be committed."""
