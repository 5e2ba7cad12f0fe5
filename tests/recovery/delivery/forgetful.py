"""A keeper that knows nothing of earlier batches. In a file of its own: the workers of Spark import it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from towpath.flow.stateful.dedupe import DedupeKeeper
from towpath.flow.stateful.keeper import ShardState
from towpath.flow.worker.records import RecordVerdict


class ForgetfulKeeper(DedupeKeeper):
    """Begins each batch with an empty state."""

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[RecordVerdict | None]:
        return super().decide(records, keys, {}, now_ms)
