"""PostgresServer against the real server: what a test or a demo relies on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from towpath.errors import ServerFailed
from towpath.stack import postgres as postgres_module
from towpath.stack.postgres import PostgresServer
from towpath.stack.server import Server
from towpath.testing.servers import postgres_server


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


def ask(server: PostgresServer, sql: str) -> str:
    with psycopg.connect(server.url) as connection:
        row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return str(row[0])


def write_note(server: PostgresServer, text: str) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS note (text text)")
        connection.execute("INSERT INTO note VALUES (%s)", [text])


@pytest.mark.part("gate")
def test_started_server_answers_on_loopback_only(server: PostgresServer) -> None:
    assert ask(server, "SELECT current_user") == "towpath"
    assert ask(server, "SHOW listen_addresses") == "127.0.0.1"
    assert ask(server, "SHOW server_encoding") == "UTF8"
    assert ask(server, "SHOW fsync") == "on"


def test_restart_keeps_data_and_address(server: PostgresServer) -> None:
    write_note(server, "kept")
    address = server.url
    server.restart()
    assert server.url == address
    assert ask(server, "SELECT text FROM note") == "kept"


def test_killed_server_recovers_what_was_committed(server: PostgresServer) -> None:
    write_note(server, "committed")
    server.kill()
    assert not server.is_running
    server.start()
    assert ask(server, "SELECT text FROM note") == "committed"
    assert "automatic recovery in progress" in server.log_tail()


def test_a_start_waits_for_a_long_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """It recovers until it is told that its archive has nothing more."""
    monkeypatch.setattr(postgres_module, "FIRST_WAIT_S", 1)
    monkeypatch.setattr(Server, "start_timeout_s", 0.0)
    with postgres_server({"restore_command": "until test -e end; do sleep 0.1; done; false"}) as server:
        write_note(server, "committed")
        server.kill()
        (server.data_dir / "recovery.signal").touch()
        server.launch()
        assert server.is_running
        assert not server.is_healthy()
        looks = iter(range(10))
        server.await_ready(lambda: None if next(looks, None) is not None else (server.data_dir / "end").touch())
        assert ask(server, "SELECT text FROM note") == "committed"


def test_two_servers_run_side_by_side(server: PostgresServer) -> None:
    with postgres_server() as other:
        assert other.port != server.port
        write_note(server, "first")
        write_note(other, "second")
        assert ask(server, "SELECT text FROM note") == "first"
        assert ask(other, "SELECT text FROM note") == "second"


def test_start_and_stop_may_be_repeated(server: PostgresServer) -> None:
    server.start()
    server.stop()
    server.stop()
    assert not server.is_running


def test_a_running_server_is_found_by_another_object(server: PostgresServer) -> None:
    found = PostgresServer(server.data_dir)
    found.start()
    assert found.url == server.url


def test_a_pid_file_naming_a_stranger_is_no_obstacle(server: PostgresServer) -> None:
    """After a crash the noted number may belong to any process, here to this one."""
    server.kill()
    (server.data_dir / "postmaster.pid").write_text(f"{os.getpid()}\n{server.data_dir}\n0\n1\n")
    server.start()
    assert ask(server, "SELECT 1") == "1"


def test_settings_reach_the_server() -> None:
    with postgres_server({"work_mem": "7MB"}) as server:
        assert ask(server, "SHOW work_mem") == "7MB"


def test_failed_start_shows_the_log() -> None:
    with pytest.raises(ServerFailed, match="no_such_setting"), postgres_server({"no_such_setting": "1"}):
        pass


def test_private_directory_is_used_or_replaced(tmp_path: Path) -> None:
    """As root the server's user cannot enter a private directory; the data go elsewhere, and stay there."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    with PostgresServer(private / "data") as server:
        write_note(server, "kept")
    try:
        with PostgresServer(private / "data") as again:
            assert ask(again, "SELECT text FROM note") == "kept"
        assert (again.data_dir == private / "data") == (os.geteuid() != 0)
    finally:
        shutil.rmtree(server.data_dir)
