"""Writers of a unit die by SIGKILL between every two acts, come late, or are overtaken: each delivery is there once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.recovery.topic_acts import NUMBERS, PIECES, write
from tests.support.logs import Place as LogPlace
from tests.support.marked import Bench

from towpath.core.crash import CrashPoint
from towpath.errors import SinkError
from towpath.flow.delivery.marks import MarkTopic, PartManifest
from towpath.flow.failures import Action, ErrorCode
from towpath.flow.sinks.topic.logs import kept_logs
from towpath.flow.topics import producer_of
from towpath.log import Log
from towpath.settings import Settings
from towpath.testing.processes import ChildProcess

ROOT = Path(__file__).parents[2]
TOPIC_POINTS = (
    CrashPoint.PRODUCER_OPENED,
    CrashPoint.MARKS_READ,
    CrashPoint.LOG_TRANSACTION_FILLED,
    CrashPoint.LOG_TRANSACTION_BEFORE_COMMIT,
    CrashPoint.LOG_TRANSACTION_AFTER_COMMIT,
)


@pytest.fixture
def bench(log: Log, place: LogPlace, name: str) -> Iterator[Bench]:
    yield Bench(log, Settings(database=place.database, log=place.log), name)
    kept_logs.close()


def die(bench: Bench, place: LogPlace, home: Path, crash_at: str, part: int | None = None) -> None:
    told = {
        "settings": {"database": place.database, "log": place.log},
        "flow": bench.flow,
        "since": bench.since,
        "part": part,
    }
    with ChildProcess("tests.recovery.topic_acts", told, log=home / "log", crash_at=crash_at, cwd=ROOT) as child:
        child.wait_killed()


@pytest.mark.parametrize("point", TOPIC_POINTS)
def test_unit_survives_kill_at(point: CrashPoint, bench: Bench, place: LogPlace, tmp_path: Path) -> None:
    """Without a mark in the same act the unit would be lost or doubled."""
    die(bench, place, tmp_path, point)
    is_written = point is CrashPoint.LOG_TRANSACTION_AFTER_COMMIT
    bench.wait_for(NUMBERS if is_written else (), {bench.mark()} if is_written else set())
    for _ in range(2):
        write(bench)
    bench.wait_for(NUMBERS, {bench.mark()})


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("point", TOPIC_POINTS[2:])
def test_unit_in_parts_survives_kill_at(point: CrashPoint, bench: Bench, place: LogPlace, tmp_path: Path) -> None:
    """The second of three parts is cut off; the next attempt, whatever its parts are, goes on after the first."""
    die(bench, place, tmp_path, f"{point}:2", part=4)
    parts = 1 + (point is CrashPoint.LOG_TRANSACTION_AFTER_COMMIT)
    bench.wait_for(NUMBERS[: 4 * parts], {bench.mark(part) for part in range(parts)})
    write(bench)
    bench.wait_for(NUMBERS, {bench.mark(part) for part in range(parts + 1)})


def test_without_a_look_at_the_marks_the_unit_is_there_twice(
    bench: Bench, place: LogPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin of the test above, which can fail."""
    die(bench, place, tmp_path, CrashPoint.LOG_TRANSACTION_AFTER_COMMIT)
    monkeypatch.setattr(MarkTopic, "parts", lambda *_: {})
    write(bench)
    bench.wait_for((*NUMBERS, *NUMBERS), {bench.mark()})


def test_a_writer_that_was_overtaken_cannot_commit(bench: Bench) -> None:
    """It had opened and filled its transaction; nothing of it is ever seen, and its error says why."""
    with bench.writer() as older:
        for piece in PIECES:
            older.write(bench.deliveries(*piece))
        write(bench)
        with pytest.raises(SinkError, match="another attempt at the same unit has taken over") as caught:
            older.finish()
    assert ErrorCode(caught.value.code).action is Action.RETRY
    bench.wait_for(NUMBERS, {bench.mark()})


def test_a_writer_that_comes_late_finds_the_mark(bench: Bench) -> None:
    """Its driver was stopped before it had opened anything, and has been replaced since."""
    place = bench.place()
    write(bench)
    bench.wait_for(NUMBERS, {bench.mark()})
    bench.write(bench.deliveries(11), batch_id=place.batch_id + 1)  # its successor is at the next batch already
    write(bench)
    bench.wait_for((*NUMBERS, 11), {bench.mark(), bench.mark()._replace(batch_id=place.batch_id + 1)})


def test_who_was_fenced_and_tries_again_keeps_the_other_from_committing(bench: Bench) -> None:
    """Two that do not give way: whoever opens last and finds no mark writes, and the other one cannot."""
    with bench.writer() as older, bench.writer() as newer:
        older.write(bench.deliveries(*NUMBERS))
        newer.write(bench.deliveries(*NUMBERS))
        with pytest.raises(SinkError):
            older.finish()
        write(bench)  # the older one again, while the newer one is not done
        with pytest.raises(SinkError):
            newer.finish()
    bench.wait_for(NUMBERS, {bench.mark()})


@pytest.mark.parametrize("place", ["kafka"], indirect=True)
def test_a_kept_producer_that_was_fenced_is_opened_again(bench: Bench, log: Log) -> None:
    """The unit was on another worker in the batch between, whose producer has fenced the one that is kept here."""
    bench.write(bench.deliveries(1))
    place = bench.place()
    log.producer(producer_of(place.flow, place.stage, place.output, place.unit)).close()
    bench.write(bench.deliveries(2), bench.deliveries(3), batch_id=4)
    bench.wait_for([1, 2, 3], {bench.mark(), bench.mark()._replace(batch_id=4)})


@pytest.mark.parametrize("place", ["kafka"], indirect=True)
def test_a_kept_producer_is_no_way_around_the_mark(bench: Bench, log: Log) -> None:
    """While this one fills its transaction another attempt opens the name and commits the unit."""
    bench.write(bench.deliveries(0), batch_id=2)
    with bench.writer() as kept:
        kept.write(bench.deliveries(*NUMBERS))
        rival = log.producer(producer_of(bench.flow, "stage", "output", bench.unit))
        with rival.transaction() as tx:
            tx.append(bench.marks.name, bench.marks.records(bench.mark(), PartManifest(len(NUMBERS)), rival.name))
        rival.close()
        with pytest.raises(SinkError, match="another attempt has written"):
            kept.finish()
    bench.wait_for([0], {bench.mark(), bench.mark()._replace(batch_id=2)})


@pytest.mark.parametrize("place", ["kafka"], indirect=True)
@pytest.mark.parametrize("is_careful", [True, False], ids=["careful", "careless"])
def test_a_mark_behind_the_open_transaction_of_a_dead_task_is_found(
    is_careful: bool, bench: Bench, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers of committed records do not see it, until the transaction before it has ended."""
    dead = log.producer(producer_of(bench.flow, "stage", "output", "orders/1"))
    transaction = dead.transaction()
    tx = transaction.__enter__()
    tx.append(bench.marks.name, bench.marks.records(bench.mark()._replace(unit="orders/1"), PartManifest(0), dead.name))
    tx.flush()
    write(bench)
    assert bench.marks.since(bench.since) == set()
    if not is_careful:
        monkeypatch.setattr(MarkTopic, "_wait_until_decided", lambda *_: None)
    write(bench)
    if is_careful:
        bench.wait_for(NUMBERS, {bench.mark()})
    dead.close()
    bench.wait_for(NUMBERS if is_careful else (*NUMBERS, *NUMBERS), {bench.mark()})


def test_marks_are_readable_by_other_tools(bench: Bench) -> None:
    """What is stored is stored for ever: its form must not change."""
    deliveries = bench.deliveries(1, 2)
    bench.write(deliveries)
    bench.wait_for([1, 2], {bench.mark()})
    [record] = bench.log.read(bench.marks.name, 0, bench.since[0])
    assert json.loads(record.key or b"") == [bench.flow, "stage", 1, 3, "output", "orders/0", 0]
    summed = sum(int.from_bytes(id) for id in deliveries.delivery_ids) % (1 << 256)
    assert json.loads(record.value or b"") == {"deliveries": 2, "digest": f"{summed:064x}"}
    assert dict(record.headers) == {"towpath.producer": f"{bench.flow}.stage.output.orders/0".encode()}
