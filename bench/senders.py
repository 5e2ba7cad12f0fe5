"""What a sender costs in the state of a stage that drops duplicates: `python -m bench.senders`.

Nothing of Spark is measured: the state of a shard is one value, and these are its bytes.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pyarrow as pa

from towpath.flow.stateful import Dedupe, header
from towpath.flow.stateful.dedupe import DedupeKeeper, DedupeRule
from towpath.flow.stateful.keeper import ShardState
from towpath.log.spark.columns import ARROW_SCHEMA

SENDERS = 4_000  # about those of a shard, of a million in all
SENT = 1_000_000  # how far each has counted
NAME_BYTES, TOPIC = 12, "orders"
NOW_MS = 1_790_000_000_000


def state_of(dedupe: Dedupe, numbers: tuple[int, ...]) -> ShardState:
    """A shard of which every sender has sent these numbers."""
    keeper, state = DedupeKeeper({TOPIC: DedupeRule.of(TOPIC, (TOPIC,), dedupe)}), ShardState()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for number in numbers:
        rows = [
            (TOPIC, 0, sender, at, None, b"{}", [_said("sender", f"{sender:0{NAME_BYTES}}"), _said("n", str(number))])
            for sender in range(SENDERS)
        ]
        columns = [
            pa.array(column, type) for column, type in zip(zip(*rows, strict=True), ARROW_SCHEMA.types, strict=True)
        ]
        records = pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
        keeper.decide(pa.Table.from_batches([records]), keeper.keys(records), state, NOW_MS)
    return state


def _said(name: str, value: str) -> dict[str, object]:
    return {"key": name, "value": value.encode()}


def main() -> None:
    own = NAME_BYTES + len(TOPIC) + 1
    plain = Dedupe(sender=header("sender"), sequence=header("n"))
    cases = {
        "counts without gaps": (plain, (SENT,)),
        "with one gap": (plain, (SENT, SENT + 2)),
        "with ten gaps": (plain, tuple(range(SENT, SENT + 22, 2))),
        "without gaps, forget_after_s": (replace(plain, forget_after_s=3600), (SENT,)),
    }
    print(f"bytes a sender with a name of {NAME_BYTES} bytes, topic {TOPIC!r}, {SENDERS:,} senders a shard")
    print(f"{'':32}{'in all':>8}{'beside its name and topic':>28}")
    for name, (dedupe, numbers) in cases.items():
        each = len(msgspec.msgpack.encode(state_of(dedupe, numbers))) / SENDERS
        copies = 2 if dedupe.forget_after_s is not None else 1
        print(f"{name:32}{each:>8.1f}{each - own * copies:>28.1f}")


if __name__ == "__main__":
    main()
