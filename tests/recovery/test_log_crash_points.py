"""An appender dies by SIGKILL at every crash point of the log; readers see all or nothing; a fresh one goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.recovery.log_acts import BATCH, BATCHES, GROUP, LEFT, RIGHT, SOURCE, batch
from tests.support.logs import Place, everything, values
from tests.support.tables import rows

from towpath.core.crash import CrashPoint
from towpath.log import Log
from towpath.log.sqlite.log import SqliteLog
from towpath.testing.clock import wait_until
from towpath.testing.processes import ChildProcess
from towpath.testing.queue_ledger import entries

ROOT = Path(__file__).parents[2]

TOPICS = (CrashPoint.TOPIC_BEFORE_COMMIT, CrashPoint.TOPIC_AFTER_COMMIT)
APPENDS = (CrashPoint.APPEND_BEFORE_COMMIT, CrashPoint.APPEND_AFTER_COMMIT)
TRANSACTIONS = (
    CrashPoint.PRODUCER_OPENED,
    CrashPoint.LOG_TRANSACTION_FILLED,
    CrashPoint.LOG_TRANSACTION_BEFORE_COMMIT,
    CrashPoint.LOG_TRANSACTION_AFTER_COMMIT,
)
LOG_POINTS = frozenset({*TOPICS, *APPENDS, *TRANSACTIONS, CrashPoint.START_MOVED})
ALL_AT_ONCE = 1_000


@dataclass
class Stage:
    """One log, and the children that a test lets loose on it."""

    log: Log
    place: Place
    home: Path
    prefix: str

    def topic(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def crash(self, act: str, crash_at: str, portion: int = ALL_AT_ONCE) -> None:
        with self._child(act, crash_at, portion) as child:
            child.wait_killed()

    def run(self, act: str) -> None:
        with self._child(act, None, ALL_AT_ONCE) as child:
            child.wait_done()

    def journal(self, did: str) -> list[int]:
        return [entry["batch"] for entry in entries(self.home / "journal") if entry["did"] == did]

    def batches(self, topic: str) -> Counter[int]:
        """How many records of each batch a reader sees; each at most once."""
        found = values(self.log, self.topic(topic))
        assert len(found) == len(set(found)), "a record is there twice"
        return Counter(int((value or b"").split(b"/")[0]) for value in found)

    def wait_for_batches(self, topic: str, expected: Counter[int]) -> None:
        wait_until(lambda: self.batches(topic) == expected, what=f"{sorted(expected)} in {topic}")

    def _child(self, act: str, crash_at: str | None, portion: int) -> ChildProcess:
        told: dict[str, Any] = {
            "act": act,
            "portion": portion,
            "database": self.place.database,
            "log": self.place.log,
            "prefix": self.prefix,
            "journal": str(self.home / "journal"),
        }
        return ChildProcess("tests.recovery.log_acts", told, log=self.home / "log", crash_at=crash_at, cwd=ROOT)


@pytest.fixture
def stage(log: Log, place: Place, tmp_path: Path) -> Stage:
    made = Stage(log, place, tmp_path, f"t{uuid4().hex[:10]}")
    for name in (SOURCE, LEFT, RIGHT):
        log.create_topic(made.topic(name), 1 if name == SOURCE else 2)
    return made


WHOLE = Counter(dict.fromkeys(range(BATCHES), BATCH))


@pytest.mark.parametrize("point", TRANSACTIONS)
def test_transaction_survives_kill_at(point: CrashPoint, stage: Stage) -> None:
    """Without atomicity a reader would see one topic and not the other, or a repeat would double what is there."""
    passes = 1 if point is CrashPoint.PRODUCER_OPENED else 3
    stage.crash("move", f"{point}:{passes}")
    moved = len(stage.journal("moved"))
    assert moved == passes - 1
    committed = moved + (point is CrashPoint.LOG_TRANSACTION_AFTER_COMMIT)
    expected = Counter(dict.fromkeys(range(committed), BATCH))
    for topic in (LEFT, RIGHT):
        stage.wait_for_batches(topic, expected)
    # Kafka tells nobody a position that an open transaction may still move: only the successor ends that one.
    if stage.place.kind == "sqlite" or point is not CrashPoint.LOG_TRANSACTION_BEFORE_COMMIT:
        positions = {(stage.topic(SOURCE), 0): committed} if committed else {}
        wait_until(lambda: stage.log.positions(stage.topic(GROUP)) == positions, what=f"positions {positions}")
    stage.run("move")
    for topic in (LEFT, RIGHT):
        stage.wait_for_batches(topic, WHOLE)
    wait_until(
        lambda: stage.log.positions(stage.topic(GROUP)) == {(stage.topic(SOURCE), 0): BATCHES}, what="the last position"
    )


@pytest.mark.parametrize("point", APPENDS)
def test_plain_append_survives_kill_at(point: CrashPoint, stage: Stage) -> None:
    """What was acknowledged is there once; of what was under way, the rest of the batch is never doubled."""
    stage.crash("append", f"{point}:3")
    acknowledged = stage.journal("appended")
    assert acknowledged == [0, 1]
    found = stage.batches(LEFT)
    assert {number: found[number] for number in acknowledged} == dict.fromkeys(acknowledged, BATCH)
    under_way = found[2]
    if point is CrashPoint.APPEND_AFTER_COMMIT:
        assert under_way == BATCH
    elif stage.place.kind == "sqlite":
        assert under_way == 0
    stage.run("append")
    last = stage.batches(LEFT)
    if stage.place.kind == "kafka" and point is CrashPoint.APPEND_BEFORE_COMMIT:
        assert under_way <= last[2] <= BATCH  # what the dead one had sent off may come to the broker after its death
        under_way = last[2]
    assert last == WHOLE - Counter({2: BATCH}) + Counter({2: under_way})


@pytest.mark.parametrize("point", APPENDS)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_batch_in_several_commits_is_cut_between_them(point: CrashPoint, stage: Stage) -> None:
    """The fourth commit holds the first records of the second batch: four at a time, so ten take three commits."""
    stage.crash("append", f"{point}:4", portion=4)
    expected = {0: BATCH, 1: 4} if point is CrashPoint.APPEND_AFTER_COMMIT else {0: BATCH}
    assert stage.batches(LEFT) == Counter(expected)


@pytest.mark.parametrize("passes", [1, 2], ids=["made", "deleted"])
@pytest.mark.parametrize("point", TOPICS)
def test_topic_survives_kill_at(point: CrashPoint, passes: int, stage: Stage) -> None:
    """Without recovery the room of a half-deleted topic would be lost for ever."""
    stage.crash("make_and_delete", f"{point}:{passes}")
    is_there = (passes == 1) == (point is CrashPoint.TOPIC_AFTER_COMMIT)
    name = stage.topic("short-lived")

    def found() -> list[int]:
        return [topic.partitions for topic in stage.log.topics() if topic.name == name]

    wait_until(lambda: found() == ([3] if is_there else []), what=f"{name} is {'there' if is_there else 'gone'}")
    if is_there:
        assert {record.value for record in everything(stage.log, name)} in (set(), {r.value for r in batch(0)})
    stage.run("make_and_delete")
    wait_until(lambda: found() == [], what=f"{name} is gone")
    assert leftovers(stage.log) == 0


@pytest.mark.parametrize("point", [CrashPoint.START_MOVED])
def test_deletion_of_records_survives_kill_at(point: CrashPoint, stage: Stage) -> None:
    """Deleted for readers, but their room not freed: the next deletion frees it."""
    stage.run("append")
    end = stage.log.ends(stage.topic(LEFT))[0]
    stage.crash("shorten", f"{point}:1")
    assert stage.log.starts(stage.topic(LEFT))[0] == end // 2
    assert [r.offset for r in stage.log.read(stage.topic(LEFT), 0, end // 2)] == list(range(end // 2, end))
    stage.run("shorten")
    assert stage.log.starts(stage.topic(LEFT))[0] == end // 2
    assert leftovers(stage.log) == 0


def leftovers(log: Log) -> int:
    """Rows of records that nobody can read (SQLite; Kafka frees its room by itself)."""
    if not isinstance(log, SqliteLog):
        return 0
    visible = sum(len(everything(log, topic.name)) for topic in log.topics())
    parts = {row["topic_id"] for row in rows(log.database, "log_partition")}
    assert {row["id"] for row in rows(log.database, "log_topic")} == parts == {topic.id for topic in log.topics()}
    return len(rows(log.database, "log_record")) - visible
