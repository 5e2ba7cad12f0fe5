"""Writes deliveries to topics.

`TopicWriter` appends them as they come, for flows that ask for less than exactly once.

`MarkedTopicWriter` writes a unit once: its records and its mark in one transaction. `delivery/marks.py` says why that
holds. A unit is one part on Kafka; on the SQLite log it is cut into some (`delivery/splitter.py`).

**Refusals** are decided with the part: a delivery that no topic can hold is left out, and the mark says so. An attempt
that finds the part there reports the same refusals, so that a delivery is in a topic or in the error topic, and never
in neither.

**A transaction may have to be done again** from what is kept of it (`OpenPart`): without the records that a broker has
refused, which undoes all of it; or from the opening of its producer on, when that was kept from an earlier batch and
somebody else has opened the name since, or when the transaction was open for longer than the broker lets it. The
producer is opened again only once, and only goes on if nothing of the unit has been written meanwhile: else there is a
living rival, and the attempt ends.

**Parts that are there already** are held against what is offered again (`FoundParts`). A mark says how many deliveries
its part has. Which ones these are follows from their sequence, and that from what the log gives for the batch: where
the log has forgotten some of it since, or where a step gives something else than the first time, the same number stands
for other deliveries. Some would be passed over that nobody has written. So a mark also says what the ids of its
deliveries add up to, and where that differs the stage halts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING
from zlib import crc32

from towpath.errors import (
    BadName,
    BadRecord,
    FlowHalted,
    LogError,
    LogUnavailable,
    NeedsPerson,
    PartlyAppended,
    ProducerFenced,
    Refused,
    SinkError,
    TopicExists,
    TransactionUnknown,
    UnknownTopic,
)
from towpath.flow.delivery.ids import Digest
from towpath.flow.delivery.marks import Mark, MarkedUnit, MarkTopic, PartManifest, RefusalReason
from towpath.flow.delivery.splitter import TransactionSplitter, limits_of
from towpath.flow.failures import ErrorCode, bounded
from towpath.flow.sinks.sink import Deliveries, DeliveryBuffer, Refusal, WriterContext
from towpath.flow.sinks.topic.logs import kept_logs, log_errors, opened
from towpath.flow.topics import FlowTopics, producer_of
from towpath.log import Log, NewRecord
from towpath.log.log import Producer
from towpath.settings import Settings

if TYPE_CHECKING:
    from towpath.flow.sinks.topic.sink import TopicSink

GROUPS = 16  # into which suspects are divided
DELIVERY = "towpath.delivery"
ORIGIN = "towpath.origin"
OVERHEAD = 256  # of headers and the like: about as many bytes for each record


class MarkedTopicWriter:
    """One unit of one batch for one output."""

    def __init__(self, sink: TopicSink, place: WriterContext) -> None:
        self._sink = str(sink)
        self._is_fixed = sink.target.is_fixed
        self._place = place
        self._name = producer_of(place.flow, place.stage, place.output, place.unit)
        self._turns = count(crc32(f"{place.hash} {place.unit}".encode()))  # where records without a key begin
        self._news: list[Refusal] = []
        self._part: OpenPart | None = None
        self._producer: Producer | None = None
        self._is_fresh = self._is_finished = False
        with self._errors():
            self._open = kept_logs.open(place.settings)
            try:
                self._look(sink.partitions)
            except BaseException:
                self.close()
                raise

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        with self._errors():
            for step in self._parts.steps(range(len(deliveries)) if self._is_whole else sizes_of(deliveries)):
                if self._part is not None and step.part != self._part.number:
                    self._commit(self._part)
                places = range(step.start, step.stop)
                piece = deliveries if len(places) == len(deliveries) else deliveries.only(places)
                if step.is_there:
                    self._found.add(step.part, piece.delivery_ids)
                    self._tell_again(piece, self._parts.found[step.part])
                else:
                    self._found.check()
                    self._put(step.part, piece)
        return self._told()

    def finish(self) -> list[Refusal]:
        with self._errors():
            self._found.finish()
            if (last := self._parts.last) is not None:
                self._part = self._part or OpenPart(last)
                self._commit(self._part)
            self._is_finished = True
        return self._told()

    def close(self) -> None:
        if self._part is not None:
            self._unit.abort()
            self._part.kept.clear()
            self._part = None
        if self._producer is not None:
            with suppress(LogError):
                self._open.give_back(self._producer) if self._is_finished else self._producer.close()
            self._producer = None
        self._open.let_go()

    def _look(self, partitions: int | None) -> None:
        log = self._open.log
        limits = limits_of(log)
        self._is_whole = limits is None
        self._targets = TargetTopics(log, self._sink, is_fixed=self._is_fixed, partitions=partitions)
        self._marks = MarkTopic(log, FlowTopics.of(self._place.flow).marks)
        self._unit = self._opened(is_fresh=False)
        self._parts = TransactionSplitter(self._unit.found, limits)
        self._found = FoundParts(self._place.mark(), self._unit.found)

    def _opened(self, *, is_fresh: bool) -> MarkedUnit:
        """The producer first, then the marks."""
        self._producer, self._is_fresh = self._open.take(self._name, is_fresh=is_fresh)
        return MarkedUnit(self._producer, self._marks, self._place.mark(), self._place.marks_since)

    # Parts

    def _put(self, number: int, piece: Deliveries) -> None:
        if self._part is None:
            self._part = OpenPart(number)
        self._part.add(piece)
        self._steadily(self._part, partial(self._append, self._part, piece), is_kept=True)

    def _commit(self, part: OpenPart) -> None:
        self._steadily(part, lambda: self._unit.commit(part.number, part.said))
        part.kept.clear()
        self._part = None

    def _tell_again(self, piece: Deliveries, said: PartManifest) -> None:
        """What was refused when the part was written."""
        if said.refused:
            for at, id in enumerate(piece.delivery_ids):
                if (why := said.refused.get(id)) is not None:
                    self._news.append(Refusal(piece, at, ErrorCode(why.code), why.exception, why.message))

    def _told(self) -> list[Refusal]:
        news, self._news = self._news, []
        return news

    # What may go wrong

    def _steadily(self, part: OpenPart, act: Callable[[], None], *, is_kept: bool = False) -> None:
        """Do it. Where the transaction breaks and another may do, begin that one with all that is kept of the part.

        With `is_kept` what the act appends is kept already, and need not be done again by itself.
        """
        is_again = False
        while True:
            try:
                if is_again:
                    for piece in part.kept:
                        self._append(part, piece)
                if not is_again or not is_kept:
                    act()
                return
            except BadRecord as error:
                self._leave_out(part, error)
            except LogError as error:
                self._open_again(part, error)
            is_again = True

    def _leave_out(self, part: OpenPart, error: BadRecord) -> None:
        """Make ready for another transaction, without what the broker has refused. It may take some to find that."""
        refused = frozenset(filter(None, map(_delivery_id, error.refused or ())))
        if not refused or refused <= part.bad.keys() or (not error.is_sure and refused == part.suspects):
            raise error
        if error.is_sure:
            part.bad |= dict.fromkeys(refused, bounded(str(error)))
            part.suspects = frozenset()
        else:
            part.suspects = refused
        self._begin_anew(part, error)

    def _open_again(self, part: OpenPart, error: LogError) -> None:
        """Make ready for another transaction of a producer that is opened now, where that may help."""
        if not self._may_open_again(part, error):
            raise error
        self._begin_anew(part, error)

    def _begin_anew(self, part: OpenPart, error: Exception) -> None:
        self._unit.abort()
        if self._producer is not None:
            with suppress(LogError):
                self._producer.close()
        found = self._parts.found
        self._unit = self._opened(is_fresh=True)
        part.began = time.monotonic()
        if self._unit.found != found:
            text = "another attempt has written a part of the same unit meanwhile; this one has written nothing more"
            raise SinkError(ErrorCode.LOG_UNAVAILABLE, self._sink, text) from error

    def _may_open_again(self, part: OpenPart, error: LogError) -> bool:
        if isinstance(error, LogUnavailable | TransactionUnknown):
            return False  # time is over: the stage waits, and tries again
        open_s = time.monotonic() - part.began
        is_late = isinstance(error, ProducerFenced) and open_s > self._place.settings.log.transaction_timeout_s
        return is_late or not self._is_fresh

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with log_errors(self._sink):
                yield
        except FlowHalted as error:
            raise NeedsPerson(ErrorCode.OFFSET_NOT_AVAILABLE, self._sink, str(error)) from error
        except Refused as error:
            raise SinkError(ErrorCode.TOPIC_NOT_FOUND, self._sink, str(error)) from error

    # Records

    def _append(self, part: OpenPart, piece: Deliveries) -> None:
        targets = {piece.targets[0]: range(len(piece))} if self._is_fixed and len(piece) else piece.by_target()
        for target, places in targets.items():
            partitions = self._targets.partitions(target)
            kept = self._without_refused(part, piece, places) if part.refused or part.bad else places
            if isinstance(partitions, Exception):
                for at in kept:
                    self._refuse(part, piece, at, partitions)
            else:
                for group in part.groups(piece.delivery_ids, kept):
                    self._hand_over(part, target, partitions, piece, group)
                    if part.suspects:
                        self._unit.flush()

    def _without_refused(self, part: OpenPart, piece: Deliveries, places: Sequence[int]) -> Sequence[int]:
        for at in places:
            if (why := part.bad.get(piece.delivery_ids[at])) is not None:
                self._refuse(part, piece, at, BadRecord(why))
        return [at for at in places if piece.delivery_ids[at] not in part.refused]

    def _hand_over(
        self, part: OpenPart, target: str, partitions: int, piece: Deliveries, places: Sequence[int]
    ) -> None:
        """Those that the log takes; which it does not take is found by halves, before anything is on its way."""
        records = [
            record if record.key is not None else record._replace(partition=next(self._turns) % partitions)
            for record in records_of(piece, places)
        ]
        try:
            self._unit.append(target, records)
        except BadRecord as error:
            if error.refused is not None:
                raise  # by the broker: all of the transaction is undone
            if len(places) == 1:
                self._refuse(part, piece, places[0], error)
                return
            half = len(places) // 2
            self._hand_over(part, target, partitions, piece, places[:half])
            self._hand_over(part, target, partitions, piece, places[half:])

    def _refuse(self, part: OpenPart, piece: Deliveries, at: int, error: Exception) -> None:
        id = piece.delivery_ids[at]
        if id not in part.refused:
            why = RefusalReason(int(ErrorCode.ITEM_REFUSED), type(error).__name__, bounded(str(error)))
            part.refused[id] = why
            self._news.append(Refusal(piece, at, ErrorCode.ITEM_REFUSED, why.exception, why.message))


@dataclass(slots=True)
class OpenPart:
    """A part in an open transaction."""

    number: int
    kept: DeliveryBuffer = field(default_factory=DeliveryBuffer)
    count: int = 0
    digest: Digest = field(default_factory=Digest)
    refused: dict[bytes, RefusalReason] = field(default_factory=dict)  # and told
    bad: dict[bytes, str] = field(default_factory=dict)  # what a broker has refused, and why
    suspects: frozenset[bytes] = frozenset()  # of which a broker has refused one, or some
    began: float = field(default_factory=time.monotonic)

    def add(self, piece: Deliveries) -> None:
        self.count += len(piece)
        self.digest.add_many(piece.delivery_ids)
        self.kept.add(piece)

    def groups(self, ids: Sequence[bytes], places: Sequence[int]) -> list[Sequence[int]]:
        """The places as they are to travel: suspects in groups, to see in which the bad one is."""
        if not self.suspects:
            return [places] if places else []
        most = max(1, len(self.suspects) // GROUPS)
        groups: list[list[int]] = [[]]
        seen = 0
        for at in places:
            is_suspect = ids[at] in self.suspects
            if is_suspect and seen % most == 0:
                groups.append([])
            groups[-1].append(at)
            seen += is_suspect
        return [group for group in groups if group]

    @property
    def said(self) -> PartManifest:
        return PartManifest(self.count, self.refused, self.digest.hex)


class FoundParts:
    """Walks along the deliveries of parts that are there, in their order."""

    def __init__(self, unit: Mark, found: Mapping[int, PartManifest]) -> None:
        self._unit = unit
        self._found = found
        self._checked: set[int] = set()
        self._part: int | None = None
        self._count = 0
        self._digest = Digest()

    def add(self, part: int, ids: Sequence[bytes]) -> None:
        """These are of the part."""
        if part != self._part:
            self.check()
            self._part, self._count, self._digest = part, 0, Digest()
        self._count += len(ids)
        self._digest.add_many(ids)

    def check(self) -> None:
        """Before anything else is written: the part that has come to its end is the one that its mark speaks of."""
        part, self._part = self._part, None
        if part is not None:
            self._compare(part, self._count, self._digest)

    def finish(self) -> None:
        """There is no more to come: what was not come to is not offered any more."""
        self.check()
        for part in self._found.keys() - self._checked:
            self._compare(part, 0, Digest())

    def _compare(self, part: int, count: int, digest: Digest) -> None:
        self._checked.add(part)
        said = self._found[part]
        if said.digest and (said.deliveries, said.digest) != (count, digest.hex):
            raise FlowHalted(_differs(self._unit, part, said.deliveries, count))


def _differs(unit: Mark, part: int, written: int, offered: int) -> str:
    return (
        f"output {unit.output!r} has {written} deliveries of unit {unit.unit}, part {part}, of batch {unit.batch_id}, "
        f"and now {'others' if written == offered else offered} are to go there: the log has lost records of the batch "
        "since it was begun, or a step that says it is deterministic is not. Nobody can say which deliveries are "
        "written. Look at the output, then let the stage go on behind the batch, or from the beginning of what the "
        f"log still has, which delivers it again: towpath flow reset {unit.flow} --to latest (or earliest)"
    )


class TargetTopics:
    """The topics that deliveries name. One that is missing is made, if it is known how."""

    def __init__(self, log: Log, sink: str, *, is_fixed: bool, partitions: int | None) -> None:
        self._log = log
        self._sink = sink
        self._is_fixed = is_fixed
        self._partitions = partitions
        self._found: dict[str, int | Exception] = {}

    def partitions(self, name: str) -> int | Exception:
        """How many partitions it has, or why nothing can go there."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._look(name)
        if isinstance(found, Exception) and self._is_fixed:
            raise SinkError(ErrorCode.TOPIC_NOT_FOUND, self._sink, str(found)) from found
        return found

    def _look(self, name: str) -> int | Exception:
        try:
            return self._log.topic(name).partitions
        except UnknownTopic as error:
            if self._partitions is None:
                return error
        except BadName as error:
            return error
        try:
            create(self._log, name, self._partitions)
        except BadName as error:
            return error
        return self._log.topic(name).partitions


class TopicWriter:
    """Appends what it is handed at once; nothing is kept back."""

    def __init__(self, sink: TopicSink, settings: Settings) -> None:
        self._sink = sink
        self._closing = ExitStack()
        with log_errors(str(sink)):
            self._log = self._closing.enter_context(opened(settings))

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        refusals: list[Refusal] = []
        for target, places in deliveries.by_target().items():
            with log_errors(str(self._sink)):
                refusals += self._write(target, deliveries, places)
        return refusals

    def finish(self) -> list[Refusal]:
        return []

    def close(self) -> None:
        self._closing.close()

    def _write(self, target: str, deliveries: Deliveries, places: Sequence[int]) -> list[Refusal]:
        try:
            return self._append(target, deliveries, places)
        except UnknownTopic as error:
            if self._sink.partitions is not None:
                create(self._log, target, self._sink.partitions)
                return self._append(target, deliveries, places)
            return self._nowhere(deliveries, places, error)
        except BadName as error:
            return self._nowhere(deliveries, places, error)

    def _nowhere(self, deliveries: Deliveries, places: Sequence[int], error: Exception) -> list[Refusal]:
        if self._sink.target.is_fixed:
            raise SinkError(ErrorCode.TOPIC_NOT_FOUND, str(self._sink), str(error)) from error
        return [_refusal(deliveries, at, error) for at in places]

    def _append(self, target: str, deliveries: Deliveries, places: Sequence[int]) -> list[Refusal]:
        """Append these; one that no topic, or not this topic, can hold is refused alone."""
        if not places:
            return []
        try:
            self._log.append(target, records_of(deliveries, places))
        except BadRecord as error:
            if len(places) == 1:
                return [_refusal(deliveries, places[0], error)]
            rest = places
        except PartlyAppended as error:
            if error.unknown:
                raise
            # A broker refuses records together that came together: one that is too large takes its neighbours with it.
            done = frozenset(error.appended)
            rest = [at for number, at in enumerate(places) if number not in done]
        else:
            return []
        half = len(rest) // 2
        return [*self._append(target, deliveries, rest[:half]), *self._append(target, deliveries, rest[half:])]


def _refusal(deliveries: Deliveries, at: int, error: Exception) -> Refusal:
    return Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, type(error).__name__, bounded(str(error)))


def create(log: Log, name: str, partitions: int) -> None:
    with suppress(TopicExists):  # another task was faster
        log.create_topic(name, partitions)


def records_of(deliveries: Deliveries, places: Iterable[int]) -> list[NewRecord]:
    """The records at these places."""
    payloads, ids, delivery_ids = deliveries.payloads, deliveries.ids, deliveries.delivery_ids
    times, keys, routings = deliveries.timestamps_ms, deliveries.keys, deliveries.routings
    return [
        NewRecord(
            payloads[at],
            keys[at] if routings is None else routings[at].encode(),
            ((DELIVERY, delivery_ids[at].hex().encode()), (ORIGIN, ids[at].encode())),
            times[at] if times[at] > 0 else None,
        )
        for at in places
    ]


def sizes_of(deliveries: Deliveries) -> Sequence[int]:
    """About how many bytes each takes in a log: the same on every attempt."""
    keys = deliveries.keys if deliveries.routings is None else deliveries.routings
    return [len(payload) + len(key or b"") + OVERHEAD for payload, key in zip(deliveries.payloads, keys, strict=True)]


def _delivery_id(headers: Sequence[tuple[str, bytes | None]]) -> bytes | None:
    said = dict(headers).get(DELIVERY)
    return None if said is None else bytes.fromhex(said.decode())
