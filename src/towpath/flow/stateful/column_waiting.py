"""Records that may still find a partner: what is kept of one key in, a record in, its partners out. Pure.

Each is kept until the watermark is further ahead of it than the join reaches: whoever could be its partner then would
be late. From there on it is *hopeless* and matches nothing, whether it was taken out of the state already or not, so
that the result does not depend on when somebody looks. One that was late itself, and was taken all the same, is kept
as if its time were the watermark at which it came.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from towpath.flow.stateful.keeper import ShardState
from towpath.log.record import Headers

ALWAYS = -(1 << 62)  # a watermark that has passed nothing


class Entry(NamedTuple):
    """A record as it lies in its topic, or in the re-entry topic, with its time, and whether it has had a partner."""

    time_ms: int
    topic: str
    partition: int
    offset: int
    until_ms: int  # the last watermark at which it may find a partner
    is_matched: bool
    timestamp_ms: int
    key: bytes | None
    headers: Headers
    value: bytes

    @property
    def coordinates(self) -> tuple[str, int, int]:
        return self[1:4]


class Left(NamedTuple):
    """One that leaves without a partner. `input`: its place among the inputs."""

    input: int
    entry: Entry


class Waiting:
    """What is kept of one key: for each of two inputs, by time."""

    def __init__(self, value: Any = None) -> None:
        _, *sides = value or (0, (), ())
        self.sides = [[Entry(*each) for each in side] for side in sides]

    def to_value(self) -> list[Any]:
        """With the least `until_ms` first, so that what is hopeless in a shard is found without reading all of it."""
        return [min(entry.until_ms for side in self.sides for entry in side), *map(list, self.sides)]

    @property
    def is_empty(self) -> bool:
        return not any(self.sides)

    def meet(self, input: int, entry: Entry, within_ms: int, watermark: int) -> list[Entry]:
        """Keep a record; the partners that are there, by time, as they were before it came."""
        others = self.sides[1 - input]
        start = bisect_left(others, entry.time_ms - within_ms, key=_time)
        stop = bisect_left(others, entry.time_ms + within_ms + 1, key=_time)
        places = [at for at in range(start, stop) if others[at].until_ms >= watermark]
        partners = [others[at] for at in places]
        for at in places:
            others[at] = others[at]._replace(is_matched=True)
        insort(self.sides[input], entry._replace(is_matched=bool(partners)), key=_place)
        return partners

    def take_hopeless(self, watermark: int, stays: Sequence[bool], most: int | None = None) -> Iterator[Left]:
        """Take those out that find no partner any more, and give the ones that never had any.

        `stays`: by input, whether the latter stay for now. `most`: how many of these are given.
        """
        for input, side in enumerate(self.sides):
            kept = []
            for entry in side:
                if entry.until_ms >= watermark or (not entry.is_matched and (stays[input] or most == 0)):
                    kept.append(entry)
                elif not entry.is_matched:
                    most = None if most is None else most - 1
                    yield Left(input, entry)
            side[:] = kept


def take_hopeless(
    state: ShardState, watermark: int, stays: Sequence[bool] = (False, False), most: int | None = None
) -> Iterator[Left]:
    """The same of all keys of a shard."""
    for key in [key for key, value in state.items() if value[0] < watermark]:
        waiting = Waiting(state[key])
        for left in waiting.take_hopeless(watermark, stays, most):
            most = None if most is None else most - 1
            yield left
        if waiting.is_empty:
            del state[key]
        else:
            state[key] = waiting.to_value()


def least_until_ms(state: ShardState) -> int | None:
    """The last watermark at which all records of a shard may find a partner."""
    return min((value[0] for value in state.values()), default=None)


def _time(entry: Entry) -> int:
    return entry.time_ms


def _place(entry: Entry) -> tuple[int, str, int, int]:
    return entry[:4]
