"""What an operator with state does, apart from Spark: says by what key records belong together, and decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from towpath.flow.stateful.verdict import Verdict

if TYPE_CHECKING:
    import pyarrow as pa

    from towpath.flow.stateful.tick import Tick

ShardState = dict[bytes, Any]  # by key; what msgpack can hold
MOST_DUE = 64  # times of a shard that are told at once: so many ticks it can get before it tells again


class Keeper(Protocol):
    """One rule that needs state. It goes to the workers, and must give the same each time."""

    def keys(self, records: pa.RecordBatch) -> list[bytes | None]:
        """For each record the key whose state it needs; None: it passes. A tick is of no key."""

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[Verdict | None]:
        """What becomes of each record of a shard, in their order; the state is changed in place.

        `now_ms` is the time of the batch. None: nothing is said, and what was said before stays.
        """


@runtime_checkable
class Timed(Protocol):
    """A keeper for which something is to happen when time has passed, also without input."""

    @property
    def is_timed(self) -> bool:
        """Whether there is anything of that kind, as it is declared. Ticks may come though there is not, any more."""

    def due(self, state: ShardState) -> list[int]:
        """When something of the shard is due, in ms since 1970, the earliest first, at most `MOST_DUE`.

        For each time one tick comes, or more: a tick too many is no harm.
        """

    def wake(self, ticks: Sequence[Tick], state: ShardState, now_ms: int) -> list[Verdict]:
        """What becomes of each tick, after all records of the batch; the state is changed in place.

        One tick serves one thing that is due, the earliest first. If nothing is due it has given nothing. Every verdict
        names its source (`by`), or the tick is taken for one that nobody knows.
        """
