"""How much is measured, and in what portions."""

from __future__ import annotations

from bench.flow.settings import MAX_BATCH_RECORDS

RECORDS = 400_000
QUICK_RECORDS = 20_000
WARM_UP_SHARE = 4  # of the records, one of so many
RECOVERIES = 3  # kills, at most
INTO_THE_SECOND_BATCH = 1.3  # batches in the output when the driver is killed


def warm_up(records: int) -> int:
    return max(1, records // WARM_UP_SHARE)


def batch_of_recovery(records: int) -> int:
    """Records of a batch where a driver is killed: as many as ever, but three batches at least."""
    return max(1, min(MAX_BATCH_RECORDS, records // 3))
