"""Kafka away, killed, restarted at another address: typed errors, nothing lost, nothing doubled."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.logs import new, values, wait_for_values
from tests.support.staging import Acting
from tests.support.sweep import sweep

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import BadRecord, BadSettings, LogError, LogUnavailable, PartlyAppended, TransactionUnknown
from towpath.log import NewRecord
from towpath.log.kafka import topics
from towpath.log.kafka.client import OWN_PROPERTIES
from towpath.log.kafka.log import KafkaLog
from towpath.settings import LogSettings
from towpath.stack.daemon import free_port
from towpath.stack.kafka import KafkaServer
from towpath.testing.clock import wait_until
from towpath.testing.proxy import CuttingProxy
from towpath.testing.servers import kafka_server

IMPATIENT_S = 3.0
PATIENT_S = 60.0


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[KafkaServer]:
    """A broker that these tests may kill."""
    with kafka_server() as server:
        yield server


@pytest.fixture
def broker(own_kafka: KafkaServer) -> Iterator[KafkaServer]:
    own_kafka.start()
    with opened(own_kafka.bootstrap) as log:
        log.producer("warm").close()  # what transactions need is there before anybody is impatient
    yield own_kafka
    own_kafka.start()


@contextmanager
def opened(server: str, **settings: Any) -> Iterator[KafkaLog]:
    log = KafkaLog(server, LogSettings(**{"timeout_s": PATIENT_S, **settings}))
    yield log
    log.close()


def at(point: CrashPoint, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something the first time that this process comes to the point."""

    def here(reached: CrashPoint) -> None:
        if reached is point:
            monkeypatch.undo()
            act()

    monkeypatch.setattr(crash, "here", here)


def crash_and_start(server: KafkaServer) -> None:
    server.kill()
    server.start()


@pytest.mark.parametrize(
    "act",
    [
        lambda log: log.topics(),
        lambda log: log.topic("t"),
        lambda log: log.create_topic("t", 1),
        lambda log: log.append("t", new(b"v")),
        lambda log: log.ends("t"),
        lambda log: log.read("t", 0, 0),
        lambda log: log.positions("g"),
        lambda log: log.commit_positions("g", {("t", 0): 1}),
        lambda log: log.forget_group("g"),
        lambda log: log.delete_topic("t"),
        lambda log: log.add_partitions("t", 2),
        lambda log: log.offsets_at("t", 1),
        lambda log: log.delete_before("t", {0: 1}),
        lambda log: log.groups(),
        lambda log: log.producer("p"),
    ],
)
def test_broker_that_is_not_there_is_unavailable(act: Callable[[KafkaLog], object]) -> None:
    with opened(f"127.0.0.1:{free_port()}", timeout_s=0.5) as log, pytest.raises(LogUnavailable):
        act(log)


@pytest.mark.parametrize("client", [{"no.such.property": "1"}, {"security.protocol": "carrier-pigeon"}])
def test_property_that_the_client_does_not_know_is_a_bad_setting(client: dict[str, str]) -> None:
    with pytest.raises(BadSettings, match=r"log\.client"):
        KafkaLog("127.0.0.1:1", LogSettings(client=client))


@sweep("name", sorted(OWN_PROPERTIES))
def test_property_that_a_promise_hangs_on_is_the_logs_own(name: str) -> None:
    with pytest.raises(BadSettings, match=f"log.client: {name} "):
        KafkaLog("127.0.0.1:1", LogSettings(client={name: "1"}))


@pytest.mark.part("kills")
def test_positions_and_producers_leave_nothing_open(broker: KafkaServer, name: str) -> None:
    """A console that looks at hundreds of groups must not run out of sockets."""
    with opened(broker.bootstrap) as log:
        log.create_topic(name, 1)
        log.commit_positions(f"{name}-0", {(name, 0): 1})
        log.producer(name).close()
        before = len(os.listdir("/proc/self/fd"))
        for number in range(15):
            log.commit_positions(f"{name}-{number}", {(name, 0): 1})
            assert log.positions(f"{name}-{number}") == {(name, 0): 1}
            producer = log.producer(name)
            with producer.transaction() as tx:
                tx.append(name, new(b"v"))
            producer.close()
        wait_until(lambda: len(os.listdir("/proc/self/fd")) < before + 15, what="sockets are closed")


def test_value_that_only_the_broker_finds_too_large_is_refused(broker: KafkaServer, name: str) -> None:
    """A topic that somebody else made with a limit of its own."""
    with opened(broker.bootstrap, max_record_bytes=2_000) as small:
        small.create_topic(name, 1)
    with opened(broker.bootstrap, max_record_bytes=1 << 20) as log:
        with pytest.raises(BadRecord, match=r"max\.message\.bytes"):
            log.append(name, new(bytes(500_000)))
        producer = log.producer(name)
        with pytest.raises(BadRecord), producer.transaction() as tx:
            tx.append(name, new(b"small", bytes(500_000)))
        assert values(log, name) == []


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_broker_killed_in_the_middle_of_a_batch(broker: KafkaServer, name: str) -> None:
    """The client waits, goes on when the broker is back, and its repeats double nothing."""
    with opened(broker.bootstrap) as log, opened(broker.bootstrap) as reader:
        log.create_topic(name, 2)
        batches = [[NewRecord(b"%d/%d" % (at, n), key=b"%d" % n) for n in range(500)] for at in range(400)]
        progress = threading.Event()

        def fill() -> int:
            done = 0
            for batch in batches:
                done += len(log.append(name, batch))
                if done > 20_000:
                    progress.set()
            return done

        acting = Acting(fill)
        assert progress.wait(60)
        broker.kill()
        assert not acting.is_done, "the broker was killed too late to tell anything"
        broker.start()
        assert acting.result(timeout_s=100) == 200_000
        expected = {record.value for batch in batches for record in batch}
        found = values(reader, name)
        assert len(found) == len(expected)
        assert set(found) == expected


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_broker_killed_while_it_is_asked_for_offsets(broker: KafkaServer, name: str) -> None:
    """The library answers with an offset that is none; a snapshot with it would never find its marks again."""
    with opened(broker.bootstrap) as log:
        log.create_topic(name, 1)
        log.append(name, [NewRecord(b"one")])
        is_back, asked = threading.Event(), threading.Barrier(7)

        def ask() -> set[int]:
            found = {log.ends(name)[0]}
            asked.wait(60)
            while not is_back.is_set():
                found.add(log.ends(name)[0])
            return found

        asking = [Acting(ask) for _ in range(6)]
        asked.wait(60)
        crash_and_start(broker)
        is_back.set()
        assert [each.result(timeout_s=100) for each in asking] == [{1}] * len(asking)


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_batch_that_runs_out_of_time_says_what_is_known(
    broker: KafkaServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker stands still: it may or may not write later what it was sent."""
    monkeypatch.setattr(topics, "TRUSTED_S", 60.0)
    with opened(broker.bootstrap) as patient:  # a broker that has just begun takes its time for the first topic
        patient.create_topic(name, 1)
        patient.append(name, new(b"first"))
    with opened(broker.bootstrap, timeout_s=IMPATIENT_S) as log:
        log.append(name, new(b"before"))
        [pid] = broker.pids
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(PartlyAppended) as cut:
                log.append(name, new(b"1", b"2"))
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (cut.value.appended, cut.value.unknown, cut.value.count) == ([], [0, 1], 2)
    with opened(broker.bootstrap) as patient:  # a broker that stood still is let back in after some seconds
        patient.append(name, new(b"after"))
        found = values(patient, name)
    assert found in ([b"first", b"before", b"1", b"2", b"after"], [b"first", b"before", b"after"])


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_broker_restarted_during_a_commit(broker: KafkaServer, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is asked for again until the broker answers."""
    with opened(broker.bootstrap) as log:
        log.create_topic(name, 1)
        producer = log.producer(name)
        at(CrashPoint.LOG_TRANSACTION_BEFORE_COMMIT, lambda: crash_and_start(broker), monkeypatch)
        with producer.transaction() as tx:
            tx.append(name, new(b"1", b"2"))
            tx.commit_positions(name, {(name, 0): 2})
        wait_for_values(log, name, b"1", b"2")
        assert log.positions(name) == {(name, 0): 2}
        with producer.transaction() as tx:
            tx.append(name, new(b"3"))
        wait_for_values(log, name, b"1", b"2", b"3")


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_broker_away_during_a_commit_for_too_long_leaves_all_or_nothing(
    broker: KafkaServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can say what happened, so the successor asks the positions, and repeats only what is not there."""
    with opened(broker.bootstrap, timeout_s=IMPATIENT_S) as log:
        log.create_topic(name, 1)
        producer = log.producer(name)
        at(CrashPoint.LOG_TRANSACTION_BEFORE_COMMIT, broker.kill, monkeypatch)
        with pytest.raises(TransactionUnknown), producer.transaction() as tx:
            tx.append(name, new(b"1"))
            tx.commit_positions(name, {(name, 0): 1})
        with pytest.raises(LogError, match="again"), producer.transaction():
            pass
        broker.start()
    with opened(broker.bootstrap) as log:
        successor = log.producer(name)
        if log.positions(name) == {}:
            with successor.transaction() as tx:
                tx.append(name, new(b"1"))
                tx.commit_positions(name, {(name, 0): 1})
        wait_for_values(log, name, b"1")


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_broker_away_before_a_commit_aborts_the_transaction(broker: KafkaServer, name: str) -> None:
    with opened(broker.bootstrap, timeout_s=IMPATIENT_S) as log:
        log.create_topic(name, 1)
        producer = log.producer(name)
        with pytest.raises(LogUnavailable), producer.transaction() as tx:
            broker.kill()
            tx.append(name, new(b"lost"))
        broker.start()
    with opened(broker.bootstrap) as log:
        successor = log.producer(name)
        with successor.transaction() as tx:
            tx.append(name, new(b"kept"))
        wait_for_values(log, name, b"kept")


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_broker_that_comes_back_at_another_address_is_found(broker: KafkaServer, name: str, tmp_path: Path) -> None:
    """The address of the settings stays; the one that the broker tells its clients does not."""
    broker.stop()
    first = KafkaServer(broker.data_dir, free_port())
    with CuttingProxy(first.port) as proxy, opened(f"127.0.0.1:{proxy.port}") as log:
        first.start()
        log.create_topic(name, 1)
        log.append(name, new(b"1"))
        with log.producer(name).transaction() as tx:
            tx.append(name, new(b"2"))
        first.stop()
        second = KafkaServer(broker.data_dir, free_port(first.port))
        proxy.target_port = second.port
        second.start()
        try:
            log.append(name, new(b"3"))
            with log.producer(name).transaction() as tx:
                tx.append(name, new(b"4"))
            wait_for_values(log, name, b"1", b"2", b"3", b"4")
        finally:
            second.stop()
