"""What is cleaned by hand: its size before and after, by whom, and not under the feet of others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.tables import by_hand, events, rows

from towpath.admin.cleanup import fetched_files
from towpath.admin.maintenance import Maintenance, caches
from towpath.errors import NotWhileInUse, UnknownCleaning
from towpath.log import NewRecord
from towpath.log.record import partition_of
from towpath.queue.states import MessageState
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

BY: dict[str, Any] = {"who": "ann", "why": "a test"}
DAY_S = 86_400.0


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of this machine's own is touched."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("towpath.admin.cleanup.shared_directory", lambda: tmp_path / "shared")
    return tmp_path / "cache" / "towpath"


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], tmp_path: Path, cache: Path) -> Runtime:
    return make_runtime(
        log={"url": f"sqlite:///{tmp_path}/topics.db", "retention_s": 60.0},
        gateway={"directory": str(tmp_path / "uploads")},
    )


def test_every_cleaning_can_be_measured_and_run(runtime: Runtime) -> None:
    """Also where there is nothing to clean."""
    maintenance = Maintenance(runtime)
    for name in maintenance.names:
        last = maintenance.run(name, **BY)
        assert (last.who, last.why) == ("ann", "a test")
        assert maintenance.last(name) == last
    assert [row["subject"] for row in events(runtime.database, "cleaned_by_hand")] == maintenance.names
    with pytest.raises(UnknownCleaning, match="queue-reap"):
        maintenance.run("moon", **BY)


def test_old_messages_are_gone_and_that_is_told(runtime: Runtime) -> None:
    runtime.queue.inbox("work")
    outbox = runtime.queue.outbox("me")
    sent = [outbox.notice("work", "do", {}) for _ in range(3)]
    operator = runtime.queue.operator("ann")
    for id in sent[:2]:
        operator.set_state(id, MessageState.DEAD, "not needed")
    runtime.database.shift_clock(15 * DAY_S)
    last = Maintenance(runtime).run("queue", **BY)
    assert last.done["dead"] == 2
    assert [row["id"] for row in rows(runtime.database, "message")] == sent[2:]


def test_records_past_their_time_are_deleted(runtime: Runtime) -> None:
    runtime.log.create_topic("orders", 1)
    runtime.log.append("orders", [NewRecord(b"x" * 1000, timestamp_ms=1) for _ in range(100)])
    last = Maintenance(runtime).run("log", **BY)
    assert runtime.log.starts("orders") == {0: 100}
    # The janitor of this process looks as soon as the log is open and may have been the one who did it.
    assert last.done["partitions"] in (0, 1)
    wait_until(lambda: events(runtime.database, "records_expired"), what="the event of who has deleted them")
    assert [row["subject"] for row in events(runtime.database, "records_expired")] == ["orders/0"]


def test_room_is_given_back(runtime: Runtime) -> None:
    runtime.queue.inbox("work")
    outbox = runtime.queue.outbox("me")
    for _ in range(300):
        outbox.notice("work", "do", {"text": os.urandom(2500).hex()})
    by_hand(runtime.database, "delete from message")
    last = Maintenance(runtime).run("database", **BY)
    assert last.before.unit == last.after.unit == "bytes"
    assert last.after.amount < last.before.amount - 1_000_000
    assert rows(runtime.database, "event") != [], "nothing else is gone"


@pytest.fixture
def neighbour(runtime: Runtime, database_settings: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """Another process that is at work on the same database."""
    code = "import sys, json, towpath\nwith towpath.connect(**json.loads(sys.argv[1])) as r:\n"
    code += "    r.process(); print('at work', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, json.dumps({"database": database_settings})]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "at work\n"
        yield child
        child.communicate("")


def test_others_are_not_disturbed_unless_that_is_wanted(
    runtime: Runtime, cache: Path, neighbour: subprocess.Popen[str]
) -> None:
    runtime.process()  # that this one is at work is no hindrance
    (cache / "artifacts" / "kafka-0123456789ab").mkdir(parents=True)
    maintenance = Maintenance(runtime)
    with pytest.raises(NotWhileInUse, match=f"pid {neighbour.pid}"):
        maintenance.run("fetched-files", **BY)
    assert fetched_files() != []
    assert maintenance.run("fetched-files", force=True, **BY).done == {"removed": 1}
    is_sqlite = runtime.database.dialect == "sqlite"
    assert (maintenance.show("database").hindrance is not None) is is_sqlite
    if is_sqlite:
        with pytest.raises(NotWhileInUse, match="SQLite"):
            maintenance.run("database", **BY)
    maintenance.run("database", force=True, **BY)


def test_files_of_a_server_that_runs_stay(runtime: Runtime, cache: Path) -> None:
    home = cache / "kafka-0123456789ab"
    home.mkdir(parents=True)
    program = "import sys; print('up', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"up\n"  # before, the kernel may not tell yet with what it was started
        with pytest.raises(NotWhileInUse, match=f"pid {server.pid}"):
            Maintenance(runtime).run("fetched-files", **BY)
        server.communicate(b"")
    assert home.is_dir()
    assert Maintenance(runtime).run("fetched-files", **BY).done == {"removed": 1}


def test_alone_nothing_hinders(runtime: Runtime) -> None:
    runtime.process()
    assert {each.name: each.hindrance for each in Maintenance(runtime).list() if each.hindrance} == {}


def test_fetched_files_are_removed_and_secrets_stay(runtime: Runtime, cache: Path) -> None:
    files = ["artifacts/kafka-0123456789ab/a.jar", "elasticsearch-0123456789ab/bin/run", "spark-secrets/local"]
    for name in files:
        (cache / name).parent.mkdir(parents=True)
        (cache / name).write_bytes(b"12345")
    last = Maintenance(runtime).run("fetched-files", **BY)
    assert (last.before.amount, last.after.amount, last.done) == (10, 0, {"removed": 2})
    assert [str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()] == ["spark-secrets/local"]


def test_how_often_it_helps_to_remember() -> None:
    def found() -> tuple[int, int]:
        [cache] = [each for each in caches() if each.name == "partitions of keys"]
        assert cache.hit_rate is None or 0 <= cache.hit_rate <= 1
        return cache.hits, cache.misses

    before = found()
    key = os.urandom(16)
    assert partition_of(key, 7) == partition_of(key, 7)
    assert found() == (before[0] + 1, before[1] + 1)
