"""What an operator with state does, apart from Spark: says by what key records belong together, and decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from towpath.flow.stateful.verdict import Verdict

if TYPE_CHECKING:
    import pyarrow as pa

ShardState = dict[bytes, Any]  # by key; what msgpack can hold


class Keeper(Protocol):
    """One rule that needs state. It goes to the workers, and must give the same each time."""

    def keys(self, records: pa.RecordBatch) -> list[bytes | None]:
        """For each record the key whose state it needs; None: it passes."""

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[Verdict | None]:
        """What becomes of each record of a shard, in their order; the state is changed in place.

        `now_ms` is the time of the batch. None: nothing is said, and what was said before stays.
        """
