"""`towpath stack` with real servers: up, seen, stopped, deleted, and what happens when it is killed or disturbed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.cli import CommandLine

from towpath import settings
from towpath.core import os_processes as processes
from towpath.spark.artifacts import exclusively
from towpath.stack.daemon import free_port
from towpath.testing.clock import wait_until

TOWPATH = [sys.executable, "-m", "towpath"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: CommandLine) -> Iterator[Path]:
    """An empty directory to work in, whose servers are stopped and deleted afterwards."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    command.ok("stack", "reset", "--yes")
    assert list((tmp_path / ".towpath" / "stack").glob("*/")) == []


def item(command: CommandLine, name: str) -> dict[str, Any]:
    (found,) = command("stack", "status", name, "--json").json["items"]
    return dict(found)


def test_a_server_from_up_to_reset(command: CommandLine, project: Path) -> None:
    ran = command.ok("stack", "up", "postgres", "--write")
    assert "postgres" in ran.err
    assert ran.lines[1].split()[:2] == ["postgres", "running"]
    url = item(command, "postgres")["url"]
    profile = project / "towpath.stack.toml"
    assert tomllib.loads(profile.read_text()) == {"database": {"url": url}}
    assert settings.load(file=profile).database.url == url
    with psycopg.connect(url) as connection:
        connection.execute("create table note (text text)")

    again = command.ok("stack", "up", "postgres")
    assert "postgres" in again.err
    assert f'[database]\nurl = "{url}"' in again.out

    command.ok("stack", "down")
    command.ok("stack", "down")
    stopped = item(command, "postgres")
    assert (stopped["state"], stopped["url"], stopped["pids"]) == ("stopped", url, [])
    assert command("stack", "status", "postgres").code == 1

    command.ok("stack", "up", "postgres")
    assert item(command, "postgres")["url"] == url, "it keeps its port"
    with psycopg.connect(url) as connection:
        connection.execute("select * from note")
    assert "ready to accept connections" in command.ok("stack", "logs", "postgres", "-n", "20").out

    assert (project / ".towpath" / "stack" / ".gitignore").read_text() == "*\n"
    data_dir = Path(item(command, "postgres")["data_dir"])
    command.ok("stack", "reset", "postgres", "--yes")
    assert not data_dir.exists()
    assert command.ok("stack", "status", "--json").json == {"items": []}


def test_ports(command: CommandLine, project: Path) -> None:
    port = free_port()  # one that no client takes for its own end while nobody listens there
    with socket.create_server(("127.0.0.1", port)):
        command("stack", "up", "postgres", "--port", f"postgres={port}").refused(
            1, f"port {port} ", "--port postgres=N"
        )
    command.ok("stack", "up", "postgres", "--port", f"postgres={port}")
    assert f":{port}/" in item(command, "postgres")["url"]
    command("stack", "up", "postgres", "--port", "postgres=1").refused(1, f"port {port} ", "stack down")
    command.ok("stack", "down")
    with socket.create_server(("127.0.0.1", port)):
        command("stack", "up", "postgres").refused(1, f"port {port} ")
        command.ok("stack", "up", "postgres", "--port", "postgres=0")


@pytest.mark.part("kills")
def test_a_stranger_with_the_number_of_a_server_is_not_touched(command: CommandLine, project: Path) -> None:
    """After a crash of the machine the pid file may name anybody, here this very process."""
    command.ok("stack", "up", "postgres")
    found = item(command, "postgres")
    data_dir = Path(found["data_dir"])
    lines = (data_dir / "postmaster.pid").read_text().split("\n")
    os.kill(found["pids"][0], signal.SIGQUIT)
    wait_until(lambda: processes.find_process(found["pids"][0]) is None)
    (data_dir / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lines[1:]]))
    assert item(command, "postgres")["state"] == "stopped"
    command.ok("stack", "down")
    command.ok("stack", "up", "postgres")


@pytest.mark.part("kills")
def test_a_second_one_waits_for_the_first(command: CommandLine, project: Path) -> None:
    with exclusively(project / ".towpath" / "stack" / ".lock"):
        second = subprocess.Popen([*TOWPATH, "stack", "up", "postgres"], stderr=subprocess.PIPE, text=True)
        assert second.stderr is not None
        assert "`towpath stack`" in second.stderr.readline()
        assert item(command, "postgres")["state"] == "absent"
    second.communicate(timeout=120)
    assert second.returncode == 0
    assert item(command, "postgres")["state"] == "running"


@pytest.mark.part("kills")
def test_up_that_was_killed_is_taken_up_again(command: CommandLine, project: Path) -> None:
    """The broker that was being started is the one that the next `up` waits for; a `down` would find it too."""
    first = subprocess.Popen([*TOWPATH, "stack", "up", "kafka"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pid_file = project / ".towpath" / "stack" / "kafka" / "data" / "server.pid"
    wait_until(lambda: pid_file.exists() and pid_file.read_text(), 60, "the broker is being started")
    first.kill()
    first.wait()
    broker = int(pid_file.read_text())
    os.kill(broker, signal.SIGSTOP)  # it comes no further while we look
    try:
        starting = item(command, "kafka")
    finally:
        os.kill(broker, signal.SIGCONT)
    assert starting["state"] == "starting"
    ran = command.ok("stack", "up", "kafka", "--json")
    (running,) = ran.json["items"]
    assert (running["state"], running["pids"], running["url"]) == ("running", starting["pids"], starting["url"])

    os.kill(running["pids"][0], signal.SIGKILL)
    wait_until(lambda: item(command, "kafka")["state"] == "stopped")
    assert json.loads((project / ".towpath" / "stack" / "kafka" / "server.json").read_text())["port"]


def test_without_network_and_cache(project: Path) -> None:
    """Java is told to go through a proxy that is not there."""
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(project / "cache"),
        "JAVA_TOOL_OPTIONS": "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1 "
        "-Dhttp.proxyPort=1",
    }
    words = [*TOWPATH, "stack", "up", "kafka"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 3
    *progress, error = done.stderr.splitlines()
    assert error.startswith("error: kafka ")
    assert all("kafka" in line for line in progress)
