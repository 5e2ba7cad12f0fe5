"""Steps that drop, double or scatter rows: every record is still read once and told of, and ids do not collide."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from tests.support.flows import World

from towpath import Flow, table, topic
from towpath.flow.failures import ErrorCode
from towpath.flow.stage import StageState
from towpath.flow.stage.store import StageStore
from towpath.log import NewRecord

BAD = [b"{", b"[]", b'{"n":"x"}']
GOOD = [{"n": n} for n in range(3)]


def one_partition(rows: Any) -> Any:
    return rows.coalesce(1)


def never(rows: Any) -> Any:
    return rows.where(F.lit(False))


def only_one(rows: Any) -> Any:
    return rows.limit(1)


def doubled(rows: Any) -> Any:
    return rows.union(rows.withColumn("n", F.col("n") + 100))


def sorted_again(rows: Any) -> Any:
    return rows.withColumn("n", F.explode(F.array("n", F.col("n") + 100))).sortWithinPartitions("n")


@pytest.mark.part("flows")
@pytest.mark.parametrize(
    ("step", "loaded", "expected"),
    [
        (one_partition, 3, [0, 1, 2]),
        (never, 0, []),
        (only_one, 1, None),
        (doubled, 3, [0, 1, 2, 100, 101, 102]),
        (sorted_again, 3, [0, 1, 2, 100, 101, 102]),
    ],
)
def test_every_record_is_told_of(
    step: Callable[[Any], Any], loaded: int, expected: list[int] | None, embedded: World
) -> None:
    flow = Flow("f")
    made = flow.step(topic("t"), schema="n int")(step)
    flow.load(made, table("out", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    embedded.send("t", [*GOOD, *BAD])
    assert embedded.run(flow) == {"t": StageState.STOPPED}
    counts = embedded.counts(flow)
    assert (counts["read"], counts["loaded"], counts["filtered"], counts["failed"]) == (6, loaded, 3 - loaded, 3)
    assert len(embedded.errors(flow)) == 3
    if expected is not None:
        assert numbers(embedded.home) == expected


def numbers(home: Path) -> list[int]:
    with sqlite3.connect(home / "out.db") as connection:
        if not connection.execute("select 1 from sqlite_master where name = 'out'").fetchone():
            return []
        return sorted(json.loads(text)["n"] for (text,) in connection.execute("select document from out"))


def plain(home: Path) -> Flow:
    flow = Flow("f")
    flow.load(topic("t"), table("out", url=f"sqlite:///{home}/out.db"), name="out")
    return flow


def test_a_checkpoint_that_was_deleted_is_noticed(embedded: World) -> None:
    """Spark would begin anew with batch 0, which the ledger has: all that came since would be passed over."""
    flow = plain(embedded.home)
    embedded.send("t", GOOD)
    embedded.run(flow)
    shutil.rmtree(embedded.home / "flows" / "f" / "t" / "1" / "checkpoint")
    embedded.send("t", GOOD)
    assert embedded.run(flow) == {"t": StageState.HALTED}
    database = embedded.runtime.database
    with database.read() as tx:
        reason = StageStore(database).read(tx, "f", "t").machine.reason
    assert "towpath flow reset f" in reason


def test_what_a_death_left_of_the_first_write_is_no_obstacle(embedded: World) -> None:
    """Spark writes where a batch ends to a hidden file first; with one of batch 0 beside it, it never begins."""
    flow = plain(embedded.home)
    offsets = embedded.home / "flows" / "f" / "t" / "1" / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.9f464428-c5f5-4d1c-8d12-1eae89670ebf.tmp").write_bytes(b"")
    embedded.send("t", GOOD)
    assert embedded.run(flow) == {"t": StageState.STOPPED}
    assert numbers(embedded.home) == [each["n"] for each in GOOD]


def test_records_that_expire_while_the_batch_runs_are_told_of(embedded: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark passes over them without a word."""
    from towpath.flow.run.batch import BatchRun

    embedded.send("t", GOOD * 4, partitions=1)
    look = BatchRun._early_gaps

    def look_then_expire(self: BatchRun) -> Any:
        gaps = look(self)
        embedded.runtime.log.delete_before("t", {0: 5})
        return gaps

    monkeypatch.setattr(BatchRun, "_early_gaps", look_then_expire)
    flow = plain(embedded.home)
    embedded.run(flow)
    [gap] = embedded.errors(flow)
    assert (gap.kind, gap.failure.code, gap.offset, gap.stop) == ("gap", ErrorCode.OFFSET_NOT_AVAILABLE, 0, 5)
    assert embedded.counts(flow)["loaded"] == 7


def test_a_record_that_its_error_topic_cannot_hold_is_kept_in_a_file(embedded: World) -> None:
    """Its own topic could just hold it; with our headers it is too large."""
    embedded.runtime.log.create_topic("t", 1)
    value = b"x" * (embedded.runtime.settings.log.max_record_bytes - 100)
    embedded.runtime.log.append("t", [NewRecord(value), NewRecord(b'{"n":1}')])
    flow = plain(embedded.home)
    embedded.run(flow)
    [record] = list(embedded.runtime.log.read(flow.error_topic, 0, 0)) or [
        record
        for number in embedded.runtime.log.starts(flow.error_topic)
        for record in embedded.runtime.log.read(flow.error_topic, number, 0)
    ]
    assert record.value is None
    name = dict(record.headers)["towpath.blob"]
    assert name is not None
    assert (embedded.home / "flows" / "f" / "blobs" / name.decode()).read_bytes() == value
    assert embedded.counts(flow) == Counter(read=2, loaded=1, failed=1, delivered=1)


def test_headers_of_a_sender_who_imitates_ours(embedded: World) -> None:
    embedded.runtime.log.create_topic("t", 1)
    hostile = (("towpath.code", b"99"), ("towpath.attempt", b"abc"), ("own", b"kept"))
    embedded.runtime.log.append("t", [NewRecord(b"{", headers=hostile)])
    flow = plain(embedded.home)
    embedded.run(flow)
    [error] = embedded.errors(flow)
    assert (error.failure.code, error.attempt) == (ErrorCode.NOT_JSON, 1)
