"""The hash of a batch, the id and version of a delivery, and what a flow promises about each delivery.

Sinks keep these names, and they are compared years later. So the bytes that are hashed never change: each hash begins
with a tag of its kind, each text is preceded by its length, numbers have a fixed width. Nothing else could be read as
the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from struct import Struct
from typing import NamedTuple, Self

from towpath.errors import BadValue
from towpath.flow.delivery.positions import Positions

_BATCH = b"towpath batch 1\n"
_DELIVERY = b"towpath delivery 1\n"

_length = Struct(">I").pack
_pack_number = Struct(">q").pack
_pack_row = Struct(">QI").pack  # offset and ordinal

OFFSET_BITS = 44  # of a version; what is above them counts how often the topic was made again
_MOST_INCARNATIONS = 1 << (63 - OFFSET_BITS)
_DIGEST_BYTES = 32
_MASK = (1 << 8 * _DIGEST_BYTES) - 1


class Strategy(StrEnum):
    """Chosen for a whole flow. docs/explanation/delivery.md says what each does differently, step by step."""

    EXACTLY_ONCE = "exactly-once"  # no loss, no repeat
    AT_LEAST_ONCE = "at-least-once"  # no loss; sinks without ids may get some deliveries twice
    AT_MOST_ONCE = "at-most-once"  # no repeat; what a crash has cut off is counted as forfeited

    @property
    def has_marks(self) -> bool:
        """Whether sinks write down what they have, together with it."""
        return self is Strategy.EXACTLY_ONCE

    @property
    def may_repeat(self) -> bool:
        """Whether a batch that was begun may be tried again."""
        return self is not Strategy.AT_MOST_ONCE


def batch_hash(flow: str, stage: str, generation: int, batch_id: int, positions: Positions) -> str:
    """The same on every attempt at a batch, and never the same for two batches."""
    hashed = hashlib.sha256(_BATCH + _text(flow) + _text(stage) + _pack_number(generation) + _pack_number(batch_id))
    for topic_id, partition, start, stop in sorted(each[1:] for each in positions):
        hashed.update(_text(topic_id) + _pack_number(partition) + _pack_number(start) + _pack_number(stop))
    return hashed.hexdigest()


def delivery_id(flow: str, stage: str, input: InputCoordinates, output: str, ordinal: int) -> bytes:
    """The id of one record in one output: 32 bytes. For many of them use `DeliveryIds`."""
    return DeliveryIds(flow, stage, output).of(*input, ordinal)


class InputCoordinates(NamedTuple):
    """The coordinates of a record in the input of a stage."""

    topic_id: str
    partition: int
    offset: int


class DeliveryIds:
    """Delivery ids of one output: what they have in common is hashed once."""

    __slots__ = ("_begun", "_prefix")

    def __init__(self, flow: str, stage: str, output: str) -> None:
        self._prefix = _DELIVERY + _text(flow) + _text(stage) + _text(output)
        self._begun: dict[tuple[str, int], Callable[[], hashlib._Hash]] = {}

    def of(self, topic_id: str, partition: int, offset: int, ordinal: int) -> bytes:
        copy = self._begun.get((topic_id, partition)) or self._begin(topic_id, partition)
        hashed = copy()
        hashed.update(_pack_row(offset, ordinal))
        return hashed.digest()

    def many(self, topic_id: str, partition: int, offsets: Iterable[int], ordinals: Iterable[int]) -> list[bytes]:
        """The ids of many records of one partition, with less work for each."""
        copy = self._begun.get((topic_id, partition)) or self._begin(topic_id, partition)
        ids = []
        for row in map(_pack_row, offsets, ordinals):
            hashed = copy()
            hashed.update(row)
            ids.append(hashed.digest())
        return ids

    def _begin(self, topic_id: str, partition: int) -> Callable[[], hashlib._Hash]:
        begun = hashlib.sha256(self._prefix + _text(topic_id) + _pack_number(partition)).copy
        self._begun[topic_id, partition] = begun
        return begun


class Digest:
    """What a set of delivery ids adds up to, in whatever order and portions they come: their sum modulo 2^256."""

    __slots__ = ("_sum",)

    def __init__(self, start: int = 0) -> None:
        self._sum = start

    def add(self, id: bytes) -> None:
        self._sum += int.from_bytes(id, "big")  # a few bits too long until it is asked for: quicker than a mask each

    def add_many(self, ids: Iterable[bytes]) -> None:
        self._sum += sum(map(int.from_bytes, ids))  # the highest byte first

    def remove(self, id: bytes) -> None:
        """Take back one that was added."""
        self._sum -= int.from_bytes(id, "big")

    def merge(self, other: Digest) -> None:
        self._sum += other._sum

    @property
    def hex(self) -> str:
        """64 characters, the form in which it is stored."""
        return (self._sum & _MASK).to_bytes(_DIGEST_BYTES, "big").hex()

    @classmethod
    def from_hex(cls, text: str) -> Self:
        return cls(int.from_bytes(bytes.fromhex(text), "big"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and other.hex == self.hex

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Digest({self.hex})"


def with_incarnation(ids: Sequence[str], topic_id: str) -> list[str]:
    """The ids under which a topic of one name has been seen, oldest first, with this one among them."""
    return [*ids] if ids and ids[-1] == topic_id else [*ids, topic_id]


def version_of(incarnation: int, offset: int) -> int:
    """A number that grows with the offset, and with each time that the topic was deleted and made again.

    The incarnation is the place of the topic's id among those seen, from 0. It fits a signed 64-bit number.
    """
    if not 0 <= incarnation < _MOST_INCARNATIONS or not 0 <= offset < 1 << OFFSET_BITS:
        raise BadValue(f"offset {offset} of incarnation {incarnation} has no version: it would not fit into 63 bits")
    return (incarnation << OFFSET_BITS) + offset


def versions_of(incarnation: int, offsets: Sequence[int]) -> list[int]:
    """The versions of many."""
    for offset in (min(offsets, default=0), max(offsets, default=0)):
        version_of(incarnation, offset)
    first = incarnation << OFFSET_BITS
    return [first + offset for offset in offsets] if first else [*offsets]


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _length(len(encoded)) + encoded
