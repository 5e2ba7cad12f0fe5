"""Finds what a sender has sent before, in the workers: what it says about a record and what was seen, verdict out.

`SequenceWindow` has which numbers of one sender were seen, as stretches of numbers, so that a sender who counts without
gaps has one, however long it sends. A number is known to be a duplicate as long as its stretch is kept, also far behind
the highest. A number that was not seen is new if it is above the highest, or behind it by no more than the window. All
else is late: nobody can say any more whether it was seen.

All but `DedupeKeeper`, which reads Arrow batches, is pure, and the audit uses it as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

import pyarrow as pa

from towpath.flow.delivery.places import RecordPlace
from towpath.flow.failures import ErrorCode, RecordFailure, bounded
from towpath.flow.graph.stateful_nodes import Dedupe
from towpath.flow.stateful.keeper import RecordPartColumns, ShardState, Tick, rounded_up
from towpath.flow.worker.records import VERDICT, RecordVerdict, is_settled

MOST_STRETCHES = 1_000  # of one sender that are kept beyond the window
DUPLICATE = RecordVerdict(RecordPlace.DUPLICATE)
TOUCHED = b"\0touched"  # among the senders, and none of them: when each that may be forgotten has last sent something


@dataclass(frozen=True, slots=True)
class DedupeKeeper:
    """All rules of a stage, by topic. What comes back from the desk was taken before, and is in none of the topics."""

    rules: Mapping[str, DedupeRule]

    def keys(self, records: pa.RecordBatch) -> list[bytes | None]:
        topics = records.column("topic").to_pylist()
        keys: list[bytes | None] = [None] * len(topics)
        parts = RecordPartColumns(records)
        for rule in _once(self.rules):
            for at, sender in enumerate(parts.of(rule.dedupe.sender)):
                if sender is not None and self.rules.get(topics[at]) is rule:
                    keys[at] = rule.key(sender)
        return keys

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[RecordVerdict | None]:
        if self.is_timed:
            self._forget(state, now_ms)
        topics = records.column("topic").to_pylist()
        settled = _settled(records)
        said: list[RecordVerdict | None] = [None] * len(topics)
        parts = RecordPartColumns(records)
        for rule in _once(self.rules):
            for at, record in enumerate(_numbered(parts, rule.dedupe)):
                if self.rules.get(topics[at]) is rule and at not in settled:
                    said[at] = rule.decide(record, state)
        if self.is_timed:
            self._touch(keys, state, now_ms)
        else:
            state.pop(TOUCHED, None)  # it would be out of date, should senders be forgotten again one day
        return said

    # Senders that are forgotten

    @property
    def is_timed(self) -> bool:
        return any(rule.dedupe.forget_after_s is not None for rule in self.rules.values())

    def due(self, state: ShardState) -> list[int]:
        """One tick does for the whole shard, late by a tenth of the time at most."""
        waits = ((time, self._wait_ms(key)) for key, time in state.get(TOUCHED, {}).items())
        times = [rounded_up(time + wait_ms, wait_ms) for time, wait_ms in waits if wait_ms is not None]
        return [min(times)] if times else []

    def wake(self, ticks: Sequence[Tick], state: ShardState, now_ms: int) -> list[RecordVerdict]:
        """Those whose time was over are gone already: the whole shard is looked through before its records."""
        return [RecordVerdict(given=[], by=_once(self.rules)[0].source) for _ in ticks]

    def _forget(self, state: ShardState, now_ms: int) -> None:
        touched = state.get(TOUCHED, {})
        for key, time in list(touched.items()):
            wait_ms = self._wait_ms(key)
            if wait_ms is not None and time + wait_ms <= now_ms:
                del touched[key]
                state.pop(key, None)

    def _touch(self, keys: Sequence[bytes | None], state: ShardState, now_ms: int) -> None:
        touched = state.setdefault(TOUCHED, {})
        for key in (*keys, *(key for key in state if key not in touched)):
            if key in state and key != TOUCHED and self._wait_ms(key) is not None:
                touched[key] = now_ms
        if not touched:
            del state[TOUCHED]

    def _wait_ms(self, key: bytes) -> int | None:
        """After what time a sender is forgotten; None: never."""
        for rule in _once(self.rules):
            if key.startswith(rule.key(b"")) and rule.dedupe.forget_after_s is not None:
                return round(rule.dedupe.forget_after_s * 1000)
        return None


def _once(rules: Mapping[str, DedupeRule]) -> list[DedupeRule]:
    return list({id(rule): rule for rule in rules.values()}.values())


def _settled(records: pa.Table) -> set[int]:
    """What a block rule keeps out has not been sent, as far as its sender's numbers go."""
    if VERDICT not in records.column_names or (column := records.column(VERDICT)).null_count == len(records):
        return set()
    return {at for at, text in enumerate(column.to_pylist()) if is_settled(text)}


def _numbered(parts: RecordPartColumns, dedupe: Dedupe) -> list[NumberedRecord]:
    senders = parts.of(dedupe.sender)
    epochs = [0] * len(senders) if dedupe.epoch is None else parts.numbers(dedupe.epoch)
    return [*map(NumberedRecord, senders, parts.numbers(dedupe.sequence), epochs)]


@dataclass(frozen=True, slots=True)
class DedupeRule:
    """How the records of some topics are known again. `scope` keeps the senders of two rules apart."""

    source: str
    scope: bytes
    dedupe: Dedupe

    @classmethod
    def of(cls, source: str, topics: Sequence[str], dedupe: Dedupe) -> DedupeRule:
        return cls(source, "+".join(topics).encode(), dedupe)

    def key(self, sender: bytes) -> bytes:
        return self.scope + b"\n" + sender

    def decide(self, record: NumberedRecord, state: ShardState) -> RecordVerdict | None:
        """None: it is taken. Pure, and the audit's as well."""
        dedupe = self.dedupe
        sender, sequence, epoch = record
        if sender is None or sequence is None or epoch is None:
            return None if dedupe.missing == "take" else self._missing(record)
        key = self.key(sender)
        kept = state.get(key)
        window = SequenceWindow() if kept is None else SequenceWindow.from_value(kept)
        seen = window.see(sequence, epoch, dedupe.window)
        if seen is SequenceVerdict.LATE and dedupe.late == "take" and epoch == window.epoch:
            window.add(sequence, dedupe.window)
            seen = SequenceVerdict.NEW
        state[key] = window.to_value()
        if seen is SequenceVerdict.BEFORE or (seen is SequenceVerdict.LATE and dedupe.late == "drop"):
            return DUPLICATE
        return self._late(record, window) if seen is SequenceVerdict.LATE and dedupe.late == "error" else None

    def _missing(self, record: NumberedRecord) -> RecordVerdict:
        what = ", ".join(name for name, value in record._asdict().items() if value is None)
        return self._failed("NotNumbered", f"it has no {what}; {self.dedupe}")

    def _late(self, record: NumberedRecord, window: SequenceWindow) -> RecordVerdict:
        if record.epoch != window.epoch:
            return self._failed("Late", f"its sender has begun to count anew: epoch {record.epoch} is over")
        return self._failed(
            "Late",
            f"number {record.sequence} is more than {self.dedupe.window} behind {window.edges[-1] - 1}, the highest of "
            "its sender; nobody can say any more whether it was taken",
        )

    def _failed(self, name: str, message: str) -> RecordVerdict:
        return RecordVerdict(failure=RecordFailure(ErrorCode.NOT_VALID, self.source, name, bounded(message)))


class NumberedRecord(NamedTuple):
    """A record as its sender knows it."""

    sender: bytes | None
    sequence: int | None
    epoch: int | None


class SequenceWindow:
    """The numbers of one sender. `edges`: where stretches begin and end, in turn, ends not included, growing."""

    __slots__ = ("edges", "epoch")

    def __init__(self, epoch: int = 0, edges: Sequence[int] = ()) -> None:
        self.epoch = epoch
        self.edges = list(edges)

    def see(self, number: int, epoch: int, size: int) -> SequenceVerdict:
        """Look whether a number was seen, and remember a new one. One that is late is not remembered."""
        if epoch != self.epoch and self.edges:
            if epoch < self.epoch:
                return SequenceVerdict.LATE
            self.edges = []
        self.epoch = epoch
        edges = self.edges
        if edges and number == edges[-1]:  # the next one, nearly always
            edges[-1] += 1
            return SequenceVerdict.NEW
        if bisect_right(edges, number) % 2:
            return SequenceVerdict.BEFORE
        if edges and edges[-1] - 1 - number > size:
            return SequenceVerdict.LATE
        self.add(number, size)
        return SequenceVerdict.NEW

    def add(self, number: int, size: int) -> None:
        """Remember a number that was not seen."""
        edges = self.edges
        at = bisect_right(edges, number)
        begins = [] if at and edges[at - 1] == number else [number]
        ends = [] if at < len(edges) and edges[at] == number + 1 else [number + 1]
        edges[at - (not begins) : at + (not ends)] = [*begins, *ends]
        # Stretches that begin inside the window are never forgotten: what lies between them may still come.
        while len(edges) > 2 * MOST_STRETCHES and edges[1] < edges[-1] - size:
            del edges[:2]

    def to_value(self) -> list[int]:
        return [self.epoch, *self.edges]

    @classmethod
    def from_value(cls, value: Sequence[int]) -> Self:
        return cls(value[0], value[1:])


class SequenceVerdict(StrEnum):
    """What is known about a number."""

    NEW = "new"  # was not seen until now
    BEFORE = "before"  # was seen before
    LATE = "late"  # too far behind the highest, or of an earlier epoch
