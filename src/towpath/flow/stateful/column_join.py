"""Joins on columns, in the workers.

A record that leaves a join without a partner comes out of the operator once more, as itself (`with_left`). So what lies
in the error topic is the record that has waited, with its own coordinates, key and headers. It was read by the batch in
which it came, so it is not counted as read again. Where the join delivers such records, their documents are in the
value of the tick that delivers them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson
import pyarrow as pa

from towpath.flow.delivery.places import RecordPlace
from towpath.flow.documents.reader import Document, Unreadable, read_document
from towpath.flow.documents.writer import Unwritable, write
from towpath.flow.failures import ErrorCode, RecordFailure, bounded
from towpath.flow.graph.nodes import Source
from towpath.flow.graph.stateful_nodes import ColumnJoin, FieldPart, HeaderPart, document_of
from towpath.flow.records.reentry import INPUT_TOPIC, STAGE, first_reading, said_by
from towpath.flow.stateful.column_state import (
    ALWAYS,
    BufferedRecord,
    JoinBuffer,
    UnmatchedRecord,
    cell,
    event_ms,
    input_name,
    join_key,
    later_of,
    least_until_ms,
    take_hopeless,
    told_watermark,
)
from towpath.flow.stateful.join import JOINED, joined_from
from towpath.flow.stateful.keeper import ShardState, Tick
from towpath.flow.worker.records import UNMATCHED, VERDICT, RecordColumns, RecordVerdict, is_settled
from towpath.log.record import Headers

Leaving = tuple[BufferedRecord, RecordVerdict]
FIELD = "unmatched"  # the field of the value in which they are
MOST_PER_TICK = 1_000  # documents without a partner that go with one tick, and fail together if one of them does
TICKS_PER_REACH = 20  # that a shard gets at most while event time goes on by what the join reaches


@dataclass(frozen=True, slots=True)
class ColumnJoinKeeper:
    """Keeps what waits in one join of a stage.

    `reentry` is the topic of what comes back, of which the stage takes what is its own.
    """

    source: Source
    join: ColumnJoin
    stage: str
    reentry: str
    max_bytes: int

    def keys(self, records: pa.RecordBatch) -> list[bytes | None]:
        read = RecordColumns.of_batch(records)
        return [self._key(read, at) for at in range(len(read))]

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[RecordVerdict | None]:
        [batch] = records.to_batches()
        return self.judge(batch, keys, state, told_watermark(self.source.name))

    def judge(
        self, batch: pa.RecordBatch, keys: Sequence[bytes | None], state: ShardState, watermark: int | None
    ) -> list[RecordVerdict | None]:
        """The same with a watermark that is given. Pure."""
        read, settled = RecordColumns.of_batch(batch), batch.column(VERDICT).to_pylist()
        shard = _Shard(self, state, ALWAYS if watermark is None else watermark)
        said = [
            None if is_settled(text) or (input := self._input(read, at)) is None else shard.judge(read, at, input, key)
            for at, (text, key) in enumerate(zip(settled, keys, strict=True))
        ]
        shard.close()
        first = next((at for at, verdict in enumerate(said) if verdict is not None), None)
        if first is not None and (verdict := said[first]) is not None:
            said[first] = self.without_hopeless(verdict, state, shard.watermark)._replace(seen=shard.seen)
        return said

    # When the watermark has passed

    @property
    def is_timed(self) -> bool:
        return True

    def due(self, state: ShardState) -> list[int]:
        """As a watermark, rounded up: a record more or less is not worth a tick."""
        least, step = least_until_ms(state), max(1, self.join.within_ms // TICKS_PER_REACH)
        return [] if least is None else [-(-(least + 1) // step) * step]

    def wake(self, ticks: Sequence[Tick], state: ShardState, now_ms: int) -> list[RecordVerdict]:
        watermark = told_watermark(self.source.name)
        return [self.woken(tick, state, ALWAYS if watermark is None else watermark) for tick in ticks]

    def woken(self, tick: Tick, state: ShardState, watermark: int) -> RecordVerdict:
        """What goes without a partner goes as children of the tick. One that comes back has them with it."""
        if any(name == JOINED for name, _ in tick.headers):
            return self._back(tick)
        stays = tuple(rule != "deliver" for rule in self.join.unmatched)
        gone = [*take_hopeless(state, watermark, stays, MOST_PER_TICK)]
        documents = [_unmatched_document(self.join.names, left) for left in gone]
        verdict = RecordVerdict(given=documents, by=self.source.name)
        if gone:
            value = _unmatched_text(self.join.names, gone, documents)
            coordinates = orjson.dumps([self._first(each.headers, each.coordinates) for _, each in gone])
            moves = {RecordPlace.JOINING.value: -len(gone), RecordPlace.AGGREGATED.value: len(gone)}
            verdict = verdict._replace(value=value, header=(JOINED, coordinates), moves=moves, was_read=True)
        return self.without_hopeless(verdict, state, watermark)

    def _back(self, tick: Tick) -> RecordVerdict:
        try:
            documents = _unmatched_documents(self._whole(tick.value))
        except ValueError as error:
            return self.failed("BadTick", str(error))._replace(by=self.source.name)
        return RecordVerdict(given=documents, by=self.source.name, was_read=True)

    def without_hopeless(self, verdict: RecordVerdict, state: ShardState, watermark: int) -> RecordVerdict:
        """The verdict, with which all leave the shard that find no partner any more, but for those that want a tick."""
        moves = Counter(verdict.moves or {})
        left: list[Leaving] = []
        for input, entry in take_hopeless(state, watermark, tuple(rule == "deliver" for rule in self.join.unmatched)):
            moves[RecordPlace.JOINING.value] -= 1
            if self.join.unmatched[input] == "drop":
                moves[RecordPlace.UNMATCHED.value] += 1
            else:
                left.append((entry, RecordVerdict(failure=self._unmatched(UnmatchedRecord(input, entry), watermark))))
        return verdict._replace(moves=dict(moves) or None, left=tuple(left) or None)

    # Records

    def _input(self, records: RecordColumns, at: int) -> int | None:
        """The place of a record's topic among the inputs; None: it is none of this join's."""
        topic = records.topics[at]
        if topic == self.reentry:
            said = said_by(records.headers(at))
            topic = said.get(INPUT_TOPIC, "") if said.get(STAGE) == self.stage else ""
        return self.join.places.get(topic)

    def _key(self, records: RecordColumns, at: int) -> bytes | None:
        if (input := self._input(records, at)) is None:
            return None
        on = self.join.on[input]
        headers = records.headers(at) if any(isinstance(part, HeaderPart) for part in on) else ()
        document = document_of(records.values[at]) if any(isinstance(part, FieldPart) for part in on) else None
        return join_key([cell(part, document, records.keys[at], headers) for part in on])

    def document(self, value: bytes | None) -> Document | None:
        try:
            return read_document(value, max_bytes=self.max_bytes, duplicates=self.source.duplicates)
        except Unreadable:
            return None  # it goes on as it is, to fail where it is read

    def _whole(self, value: bytes | None) -> Document:
        """Of what was read before, in one piece or in parts."""
        return read_document(value, max_bytes=len(value or b""), duplicates=self.source.duplicates)

    def time_ms(self, records: RecordColumns, at: int, input: int, document: Document) -> int:
        part, headers = self.join.time[input], records.headers(at)
        if part is not None:
            return event_ms(cell(part, document, records.keys[at], headers), str(part))
        said = first_reading(said_by(headers)).timestamp_ms if records.topics[at] == self.reentry else None
        return records.timestamps_ms[at] if said is None else said

    @staticmethod
    def is_known(headers: Headers) -> bool:
        """Whether what comes back says where it was read for the first time. If not, nobody can take it."""
        try:
            first_reading(said_by(headers))
        except (KeyError, ValueError):
            return False
        return True

    def _first(self, headers: Headers, coordinates: tuple[str, int, int]) -> tuple[str, int, int]:
        """Where a record was read for the first time."""
        if coordinates[0] != self.reentry:
            return coordinates
        first = first_reading(said_by(headers))
        return first.topic, first.partition, first.offset

    def joined_before(self, records: RecordColumns, at: int) -> RecordVerdict | None:
        """One that was joined, failed behind the join and comes back: with its partners in its value."""
        headers = records.headers(at)
        if [*self._first(headers, records.coordinates(at))] not in joined_from(headers)[:1]:
            return None
        try:
            return RecordVerdict(given=_split(self._whole(records.values[at]), self.join.names), was_read=True)
        except Unreadable:
            return RecordVerdict()  # it goes on as it is: somebody has tried to mend it

    def joined(
        self, input: int, entry: BufferedRecord, document: Document, partners: Sequence[BufferedRecord]
    ) -> RecordVerdict:
        """One document for each partner. The record has all of them in its value, in case that it fails behind this."""
        names, read = self.join.names, [_buffered_document(each) for each in partners]
        sides: list[tuple[Any, bytes]] = [(document, entry.value), (read, _several([each.value for each in partners]))]
        texts = [orjson.dumps(name) + b": " + sides[at != input][1] for at, name in enumerate(names)]
        given = [{name: document if at == input else other for at, name in enumerate(names)} for other in read]
        fresh = sum(not each.is_matched for each in partners)
        moves = {RecordPlace.JOINING.value: -fresh, RecordPlace.AGGREGATED.value: fresh} if fresh else None
        every = (entry, *partners)
        header = (JOINED, orjson.dumps([self._first(each.headers, each.coordinates) for each in every]))
        return RecordVerdict(
            given=given, moves=moves, value=b"{" + b", ".join(texts) + b"}", header=header, was_read=True
        )

    # Failures

    def failed(self, name: str, message: str) -> RecordVerdict:
        return RecordVerdict(failure=RecordFailure(ErrorCode.NOT_VALID, self.source.name, name, bounded(message)))

    def _unmatched(self, left: UnmatchedRecord, watermark: int) -> RecordFailure:
        other = self.join.names[1 - left.input]
        message = (
            f"no {other} with equal columns came within {self.join.within_ms / 1000:g} s of its time, "
            f"{left.entry.time_ms} ms, and none will be taken any more: the watermark is {watermark} ms"
        )
        return RecordFailure(ErrorCode.NOT_VALID, self.source.name, UNMATCHED, message)


class _Shard:
    """A shard at work, with what of it was looked at."""

    def __init__(self, keeper: ColumnJoinKeeper, state: ShardState, watermark: int) -> None:
        self._keeper = keeper
        self._state = state
        self._touched: dict[bytes, JoinBuffer] = {}
        self.watermark = watermark
        self.seen: dict[str, int] = {}

    def judge(self, records: RecordColumns, at: int, input: int, key: bytes | None) -> RecordVerdict | None:
        """None: it goes on as it is."""
        keeper, join = self._keeper, self._keeper.join
        is_back = records.topics[at] == keeper.reentry
        if is_back and not keeper.is_known(records.headers(at)):
            return None
        if is_back and (before := keeper.joined_before(records, at)) is not None:
            return before
        if (document := keeper.document(records.values[at])) is None:
            return None
        if key is None:
            return keeper.failed(
                "NoKey", f"it has no {', '.join(map(str, join.on[input]))}, by which its partner is known"
            )
        try:
            time_ms = keeper.time_ms(records, at, input, document)
        except ValueError as error:
            return keeper.failed("NoTime", str(error))
        self.seen = later_of(self.seen, {input_name(keeper.source.name, join.names[input]): time_ms})
        if time_ms < self.watermark and not is_back and join.late != "take":
            return self._late(time_ms)
        return self._met(records, at, input, key, document, time_ms)

    def _late(self, time_ms: int) -> RecordVerdict:
        if self._keeper.join.late == "drop":
            return RecordVerdict(given=[])
        message = f"its time, {time_ms} ms, is behind the watermark, {self.watermark} ms: partners may have left"
        return self._keeper.failed("Late", message)

    def _met(
        self, records: RecordColumns, at: int, input: int, key: bytes, document: Document, time_ms: int
    ) -> RecordVerdict | None:
        keeper, join, value = self._keeper, self._keeper.join, records.values[at]
        assert value is not None  # noqa: S101 - it was read
        waiting = self._touched.get(key)
        if waiting is None:
            waiting = self._touched[key] = JoinBuffer(self._state.get(key))
        if len(waiting.sides[input]) >= join.most_per_key:
            return keeper.failed(
                "TooMany",
                f"{join.most_per_key} records of {join.names[input]} with its columns are kept already; they leave as "
                "the watermark passes. most_per_key= of the join allows more",
            )
        until_ms = max(time_ms, self.watermark) + join.within_ms
        coordinates, headers = records.coordinates(at), records.headers(at)
        stamp, own_key = records.timestamps_ms[at], records.keys[at]
        entry = BufferedRecord(time_ms, *coordinates, until_ms, False, stamp, own_key, headers, value)
        partners = waiting.meet(input, entry, join.within_ms, self.watermark)
        return keeper.joined(input, entry, document, partners) if partners else RecordVerdict(RecordPlace.JOINING)

    def close(self) -> None:
        """Put what was touched back into the state."""
        for key, waiting in self._touched.items():
            if not waiting.is_empty:
                self._state[key] = waiting.to_value()


def _several(values: Sequence[bytes]) -> bytes:
    return values[0] if len(values) == 1 else b"[" + b", ".join(values) + b"]"


def _split(document: Document, names: Sequence[str]) -> list[Document]:
    """A document for each partner of a record that has several."""
    for name in names:
        if isinstance(partners := document.get(name), list):
            return [{**document, name: partner} for partner in partners]
    return [document]


def with_left(records: pa.Table, said: Sequence[RecordVerdict | None]) -> pa.Table:
    """The records of a shard and, behind them, those that leave with one of them."""
    left: list[Leaving] = [*chain.from_iterable(verdict.left or () for verdict in said if verdict is not None)]
    if not left:
        return records
    rows = [_row(entry, verdict) for entry, verdict in left]
    return pa.concat_tables([records, pa.Table.from_pylist(rows, schema=records.schema)])


def _row(entry: BufferedRecord, verdict: RecordVerdict) -> dict[str, object]:
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp": entry.timestamp_ms * 1000,
        "key": entry.key,
        "value": entry.value,
        "headers": [{"key": name, "value": value} for name, value in entry.headers],
        VERDICT: verdict._replace(is_again=True).encode(),
    }


def _unmatched_document(names: Sequence[str], left: UnmatchedRecord) -> Document:
    """With null for the other side."""
    document = _buffered_document(left.entry)
    return {name: document if at == left.input else None for at, name in enumerate(names)}


def _buffered_document(entry: BufferedRecord) -> Document:
    """Of a record that has waited. Whatever the flow says now of duplicates: it was good when it was read."""
    return read_document(entry.value, max_bytes=len(entry.value), duplicates="keep")


def _unmatched_text(names: Sequence[str], every: Sequence[UnmatchedRecord], documents: Sequence[Document]) -> bytes:
    try:
        return write({FIELD: documents})
    except Unwritable:  # nested as deep as can be before: the tick fails where it is read, and has what they are
        return b"{" + orjson.dumps(FIELD) + b": [" + b", ".join(_pair_text(names, left) for left in every) + b"]}"


def _pair_text(names: Sequence[str], left: UnmatchedRecord) -> bytes:
    values = (left.entry.value if at == left.input else b"null" for at in range(len(names)))
    return (
        b"{" + b", ".join(orjson.dumps(name) + b": " + value for name, value in zip(names, values, strict=True)) + b"}"
    )


def _unmatched_documents(document: Document) -> list[Document]:
    """Of a tick that comes back; `ValueError` if somebody has made something else of it."""
    found = document.get(FIELD)
    if not isinstance(found, list) or not all(type(each) is dict for each in found):
        raise ValueError(f"a tick that comes back has in {FIELD!r} a list of the documents that go without a partner")
    return found
