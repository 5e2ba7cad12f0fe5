"""Keeps the records of a key in order (`Flow(order="key")`): behind one that has failed, none of its key is tried.

What is not tried is set aside before the batch is decided, as records are that end their worker, and fails as
`KeyHeld`. Which records that are is found by two looks at the batch: for keys that earlier batches have left on the
desk, and, when the decision is made, for keys of which a record has failed in this batch, for all that stand behind it.
What came back from the desk is never held: it is what the others wait for.

A record that only a sink refuses is not seen by then: what stands behind it in the same batch has gone to the sinks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure
from towpath.flow.held_keys import DIGITS, hash_of
from towpath.flow.searching import SetAside
from towpath.flow.worker.report import Failed

STEP = "order"
KEY_HELD = "KeyHeld"
HELD = Failure(ErrorCode.NOT_VALID, STEP, KEY_HELD, "an earlier record of its key has failed; it waits for that one")

Place = tuple[str, int, int]  # topic, partition and offset
_HASH = "key_hash"


class KeyOrder:
    """The order of one batch."""

    def __init__(self, records: DataFrame, reentry: str) -> None:
        self._records = records
        self._reentry = reentry

    def held(self, keys: Collection[str]) -> SetAside:
        """The records of keys that are held."""
        return _set_aside((row.topic, row.partition, row.offset) for row in self._of(keys))

    def behind(self, failures: Iterable[Failed], known: SetAside) -> SetAside:
        """The records that stand behind one of their key that has failed, without those that are set aside already."""
        first: dict[str, Place] = {}
        for one in failures:
            if one.key is not None and one.topic != self._reentry and one.failure.exception != KEY_HELD:
                at = (one.topic, one.partition, one.offset)
                key = hash_of(one.key)
                first[key] = min(first.get(key, at), at)
        found = ((row[_HASH], (row.topic, row.partition, row.offset)) for row in self._of(first))
        return _set_aside(at for key, at in found if _is_behind(at, first[key]) and not _has(known, at))

    def _of(self, keys: Collection[str]) -> list[Row]:
        """Where the records of some keys are, without what came back."""
        if not keys:
            return []
        wanted = self._records.sparkSession.createDataFrame([(key,) for key in sorted(keys)], f"{_HASH} string")
        read = self._records.where((F.col("topic") != self._reentry) & F.col("key").isNotNull())
        places = read.select("topic", "partition", "offset", hash_column(F.col("key")).alias(_HASH))
        return places.join(F.broadcast(wanted), _HASH, "left_semi").collect()


def hash_column(key: Column) -> Column:
    """`hash_of` in Spark."""
    return F.substring(F.sha2(key, 256), 1, DIGITS)


def _is_behind(at: Place, first: Place) -> bool:
    """A key is in one partition of a topic; what other topics have of it has no order with it, and waits too."""
    return at[:2] != first[:2] or at[2] > first[2]


def _has(known: Mapping[tuple[str, int], Mapping[int, Failure]], at: Place) -> bool:
    return at[2] in known.get(at[:2], {})


def _set_aside(places: Iterable[Place]) -> SetAside:
    found: SetAside = {}
    for topic, partition, offset in places:
        found.setdefault((topic, partition), {})[offset] = HELD
    return found
