"""The SQLite log alone: it joins the caller's transaction, frees room, keeps writes short, and takes a full disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.logs import everything, new, values
from tests.support.quiet import LEASE_S, Quiet, shift
from tests.support.tables import events, rows
from tests.support.writes import MOST_S, Stopwatch

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.db import Transaction
from towpath.errors import (
    BadSettings,
    BadValue,
    DatabaseUnavailable,
    LogUnavailable,
    PartlyAppended,
    ProducerFenced,
    UnknownPartition,
    UnknownTopic,
)
from towpath.log import NewRecord, portions
from towpath.log.sqlite.log import LogJanitor, SqliteLog, wakeup_name
from towpath.queue.janitor import Caretaker
from towpath.runtime import Runtime
from towpath.settings import Settings
from towpath.testing.clock import wait_until

T = "clicks"


def settings(home: Path, lock_timeout_s: float = 0.1, **log: Any) -> Settings:
    return Settings.model_validate(
        {
            "database": {
                "url": f"sqlite:///{home}/towpath.db",
                "synchronous": "normal",
                "lock_timeout_s": lock_timeout_s,
            },
            "process": {"heartbeat_s": LEASE_S / 5, "lease_s": LEASE_S},
            "log": log,
        }
    )


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Quiet]:
    made = Quiet.open(settings(tmp_path))
    yield made
    made.runtime.close()


@pytest.fixture
def log(quiet: Quiet) -> SqliteLog:
    found = quiet.runtime.log
    assert isinstance(found, SqliteLog)
    found.create_topic(T, 2)
    return found


# The caller's transaction


def test_append_commits_and_rolls_back_with_the_callers_transaction(quiet: Quiet, log: SqliteLog) -> None:
    quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    with pytest.raises(KeyError), quiet.database.transaction() as tx:
        outbox.notice("work", "DO", tx=tx)
        log.append(T, new(b"lost"), tx=tx)
        log.commit_positions("g", {(T, 0): 1}, tx=tx)
        raise KeyError
    assert (values(log, T), log.positions("g"), rows(quiet.database, "message")) == ([], {}, [])
    with quiet.database.transaction() as tx:
        outbox.notice("work", "DO", tx=tx)
        log.append(T, new(b"kept"), tx=tx)
        log.commit_positions("g", {(T, 0): 1}, tx=tx)
    assert (values(log, T), log.positions("g"), len(rows(quiet.database, "message"))) == ([b"kept"], {(T, 0): 1}, 1)


def test_producer_joins_the_callers_transaction_and_is_fenced_in_it(quiet: Quiet, log: SqliteLog) -> None:
    older = log.producer("relay")
    with quiet.database.transaction() as tx, older.transaction(tx) as open_one:
        open_one.append(T, new(b"1"))
    log.producer("relay")
    with pytest.raises(ProducerFenced), quiet.database.transaction() as tx, older.transaction(tx) as open_one:
        open_one.append(T, new(b"2"))
    assert values(log, T) == [b"1"]


def test_transaction_of_another_database_is_refused(
    quiet: Quiet, log: SqliteLog, make_runtime: Callable[..., Runtime]
) -> None:
    """It would write into tables of the same names over there."""
    producer = log.producer("p")
    for other in (make_runtime().database, quiet.database.beats):
        with other.transaction() as tx:
            with pytest.raises(BadValue, match="transaction"):
                log.append(T, new(b"v"), tx=tx)
            with pytest.raises(BadValue, match="transaction"):
                log.commit_positions("g", {(T, 0): 1}, tx=tx)
            with pytest.raises(BadValue, match="transaction"), producer.transaction(tx):
                pass
    with pytest.raises(BadValue, match="transaction"), quiet.database.read() as tx:
        log.append(T, new(b"v"), tx=tx)
    assert values(log, T) == []


def test_joined_work_that_fails_is_undone_alone(quiet: Quiet, log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller may catch the error and commit the rest."""
    monkeypatch.setattr(portions, "MOST_RECORDS", 2)
    wakeup = quiet.database.wakeups.hang(wakeup_name(T))
    producer = log.producer("p")
    with quiet.database.transaction() as tx:
        with pytest.raises(UnknownPartition):
            log.append(T, [*new(b"1", b"1"), NewRecord(b"2", partition=9)], tx=tx)
        with pytest.raises(UnknownTopic), producer.transaction(tx) as open_one:
            open_one.append(T, new(b"3"))
            open_one.append("not-there", new(b"4"))
    assert values(log, T) == []
    assert not wakeup.wait(0)
    with quiet.database.transaction() as tx:
        log.append(T, new(b"5"), tx=tx)
    assert values(log, T) == [b"5"]


def test_write_lock_is_not_held_while_the_block_of_a_transaction_runs(quiet: Quiet, log: SqliteLog) -> None:
    with log.producer("slow").transaction() as open_one:
        open_one.append(T, new(b"1"))
        log.append(T, new(b"2"))  # another writer does not wait for the block to end
    assert sorted(map(repr, values(log, T))) == ["b'1'", "b'2'"]


def test_appended_records_ring_the_topics_bell(quiet: Quiet, log: SqliteLog) -> None:
    wakeup = quiet.database.wakeups.hang(wakeup_name(T))
    log.append(T, new(b"v"))
    assert wakeup.wait(30)


# Room


def test_records_past_their_time_go_but_not_what_a_group_has_still_to_read(quiet: Quiet) -> None:
    log = quiet.runtime.log
    assert isinstance(log, SqliteLog)
    log.create_topic("kept", 1, retention_s="never")
    log.create_topic("free", 1, retention_s=60)
    log.create_topic("read", 1, retention_s=60)
    for name in ("kept", "free", "read"):
        log.append(name, new(b"old-1", b"old-2", b"old-3"))
    log.commit_positions("slow", {("read", 0): 2})
    shift(61, quiet)
    for name in ("kept", "free", "read"):
        log.append(name, new(b"new"))
    janitor = LogJanitor(log, quiet.runtime.events, quiet.runtime._record_expiry)
    assert janitor.run_once().done == 2
    assert [values(log, name) for name in ("kept", "free", "read")] == [
        [b"old-1", b"old-2", b"old-3", b"new"],
        [b"new"],
        [b"old-3", b"new"],
    ]
    assert len(rows(quiet.database, "log_record")) == 7
    told = {event["subject"]: event["data"] for event in events(quiet.database, "records_expired")}
    assert told == {"free/0": '{"from": 0, "to": 3}', "read/0": '{"from": 0, "to": 2}'}
    assert janitor.run_once().done == 0


def test_retention_does_not_pass_a_group_that_comes_while_it_looks(
    quiet: Quiet, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = quiet.runtime.log
    assert isinstance(log, SqliteLog)
    log.create_topic("read", 1, retention_s=60)
    log.append("read", new(b"old"))
    shift(61, quiet)
    move = log.topic_store.expire_before

    def late_group_first(tx: Transaction, partition_id: int, start: int) -> bool:
        log.position_store.commit(tx, "late", {("read", 0): 0})
        return move(tx, partition_id, start)

    monkeypatch.setattr(log.topic_store, "expire_before", late_group_first)
    assert LogJanitor(log, quiet.runtime.events, quiet.runtime._record_expiry).run_once().done == 0
    assert values(log, "read") == [b"old"]
    assert events(quiet.database, "records_expired") == []


def test_opened_log_is_cleaned_without_more_ado(tmp_path: Path) -> None:
    """Also in a program that uses nothing but the log."""
    with Runtime(settings(tmp_path, lock_timeout_s=2.0, janitor_s=0.05)) as runtime:
        runtime.log.create_topic(T, 1, retention_s=0.05)
        runtime.log.append(T, new(b"short-lived"))
        wait_until(lambda: values(runtime.log, T) == [], what="the record is past its time")


def test_log_that_cannot_be_opened_does_not_stop_the_queue(tmp_path: Path) -> None:
    with Runtime(settings(tmp_path, url=f"sqlite:///{tmp_path}/missing/topics.db")) as runtime:
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable, match="missing"):
                _ = runtime.log
        runtime.process()
        kinds = {type(service) for service in runtime._services}
        assert Caretaker in kinds
        assert LogJanitor not in kinds


def test_deleted_topic_gives_its_room_back(quiet: Quiet, log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.log.sqlite.store.MOST_RECORDS", 3)
    log.create_topic("other", 1)
    log.append("other", new(b"stays"))
    log.append(T, new(*(b"%d" % n for n in range(20))))
    log.commit_positions("g", {(T, 1): 3})
    log.delete_topic(T)
    assert [len(rows(quiet.database, f"log_{table}")) for table in ("topic", "partition", "record", "position")] == [
        1,
        1,
        1,
        0,
    ]
    with pytest.raises(UnknownTopic):
        log.topic(T)


def test_topic_made_again_while_the_old_one_is_being_removed(
    quiet: Quiet, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(T, new(b"old"))

    def make_it_again(point: CrashPoint) -> None:
        if point is CrashPoint.TOPIC_AFTER_COMMIT:
            monkeypatch.undo()
            log.create_topic(T, 1)
            log.append(T, new(b"new"))

    monkeypatch.setattr(crash, "here", make_it_again)
    log.delete_topic(T)
    assert values(log, T) == [b"new"]
    assert len(rows(quiet.database, "log_record")) == 1


# Large things


def test_transaction_too_large_for_one_write_is_refused(log: SqliteLog) -> None:
    producer = log.producer("large")
    with pytest.raises(BadValue, match="several"), producer.transaction() as tx:
        for _ in range(3):
            tx.append(T, new(*[b"v"] * 4_000))
    with pytest.raises(BadValue, match="several"), producer.transaction() as tx:
        tx.append(T, new(*[bytes(3 << 20)] * 3))
    assert values(log, T) == []


@pytest.mark.parametrize(("count", "size"), [(portions.MOST_RECORDS, 200), (2, (4 << 20) - 100)], ids=["many", "large"])
def test_largest_write_stays_short(count: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Runtime(Settings.model_validate({"database": {"url": f"sqlite:///{tmp_path}/full.db"}})) as runtime:
        runtime.log.create_topic(T, 4)
        stopwatch = Stopwatch(monkeypatch)
        records = [NewRecord(bytes(size), key=b"%d" % n) for n in range(count)] * 2
        assert stopwatch.best_of(lambda: runtime.log.append(T, records)) < MOST_S
        assert stopwatch.best_of(lambda: runtime.log.delete_before(T, runtime.log.ends(T))) < MOST_S


# Faults


def test_full_disk_is_unavailable_and_nothing_is_written(quiet: Quiet, log: SqliteLog) -> None:
    connection: Any = quiet.database.connection()  # type: ignore[attr-defined]
    pages = connection.execute("pragma page_count").fetchone()[0]
    connection.execute(f"pragma max_page_count = {pages + 20}")
    with pytest.raises(LogUnavailable, match="full"):
        log.append(T, new(*[bytes(1000)] * 200))
    with pytest.raises(LogUnavailable, match="full"), log.producer("p").transaction() as tx:
        tx.append(T, new(*[bytes(1000)] * 200))
    assert values(log, T) == []
    connection.execute("pragma max_page_count = 1000000")
    log.append(T, new(b"again"))
    assert values(log, T) == [b"again"]


def test_locked_file_is_unavailable_at_the_first_portion(quiet: Quiet, log: SqliteLog, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "towpath.db", isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(LogUnavailable):
        log.append(T, new(b"v"))
    with pytest.raises(LogUnavailable):
        log.create_topic("another", 1)
    assert values(log, T) == []  # readers do not wait
    other.execute("rollback")
    other.close()
    log.append(T, new(b"v"))


def test_batch_cut_between_two_portions_says_what_was_written(
    log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "MOST_RECORDS", 2)
    other = sqlite3.connect(tmp_path / "towpath.db", isolation_level=None)

    def lock(point: CrashPoint) -> None:
        if point is CrashPoint.APPEND_AFTER_COMMIT and not other.in_transaction:
            other.execute("begin immediate")

    monkeypatch.setattr(crash, "here", lock)
    with pytest.raises(PartlyAppended) as cut:
        log.append(T, new(b"0", b"1", b"2", b"3", b"4"))
    other.execute("rollback")
    other.close()
    assert (cut.value.appended, cut.value.unknown, cut.value.count) == ([0, 1], [], 5)
    assert sorted(record.value or b"" for record in everything(log, T)) == [b"0", b"1"]


def test_read_goes_on_where_deletion_has_passed_it(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is slower than retention misses records; it never sees wrong ones, and never ends early."""
    monkeypatch.setattr("towpath.log.sqlite.store.MOST_RECORDS", 2)
    log.append(T, [NewRecord(b"%d" % n, partition=0) for n in range(10)])
    reading = log.read(T, 0, 0)
    assert next(reading).value == b"0"
    log.delete_before(T, {0: 6})
    assert [record.value for record in reading] == [b"1", b"6", b"7", b"8", b"9"]


# Settings


def test_embedded_log_needs_a_sqlite_database(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime()
    if runtime.database.dialect == "sqlite":
        assert runtime.log.topics() == []
        return
    runtime.process()  # the queue works without a log
    with pytest.raises(BadSettings, match="kafka://host:port"):
        _ = runtime.log


def test_log_can_have_a_file_of_its_own(make_runtime: Callable[..., Runtime], tmp_path: Path) -> None:
    runtime = make_runtime(log={"url": f"sqlite:///{tmp_path}/topics.db"})
    runtime.process()
    runtime.log.create_topic(T, 1)
    runtime.log.append(T, new(b"v"))
    with Runtime(settings(tmp_path, lock_timeout_s=10.0, url=f"sqlite:///{tmp_path}/topics.db")) as other:
        assert values(other.log, T) == [b"v"]
