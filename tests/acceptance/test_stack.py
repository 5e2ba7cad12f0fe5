"""`towpath stack`, for real: three servers with one command, and nothing left of them afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from towpath.core import os_processes as processes
from towpath.testing.clock import wait_until

SERVERS = ["kafka", "elasticsearch", "postgres"]
TIMEOUT_S = 240
# All ways to the network lead to a port where nobody listens. Java's is the one that matters, for only Ivy fetches;
# tests/integration/test_stack_cli.py shows that with it and an empty cache nothing can be fetched.
NO_WAY_OUT = {
    "JAVA_TOOL_OPTIONS": " ".join(f"-D{kind}.proxyHost=127.0.0.1 -D{kind}.proxyPort=1" for kind in ("http", "https")),
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:1"),
}


class Project:
    """A directory in which somebody types commands."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # Variables of the person's own set-up must not get in.
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}

    def towpath(self, *words: str, **variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "towpath", *words],
            cwd=self.directory,
            env={**self._environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def servers(self) -> dict[str, dict[str, Any]]:
        items = json.loads(self.towpath("stack", "status", "--json"))["items"]
        return {item["name"]: item for item in items}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.towpath("stack", "reset", "--yes")


def running() -> list[processes.RunningProcess]:
    found = (processes.find_process(int(path.name)) for path in processes.PROC.iterdir() if path.name.isdigit())
    return [it for it in found if it is not None]


def living(numbers: set[int]) -> list[processes.RunningProcess]:
    """The processes of these numbers and groups, and their children: PostgreSQL's have groups of their own."""
    return [it for it in running() if not numbers.isdisjoint({it.pid, it.group, parent_of(it.pid)})]


def at_work_in(directories: set[str]) -> list[processes.RunningProcess]:
    return [it for it in running() if any(it.is_marked(directory) for directory in directories)]


def parent_of(pid: int) -> int:
    try:
        return int((processes.PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except OSError:
        return 0  # it has just ended


@pytest.mark.part("guides")
@pytest.mark.timeout(300)  # it starts three servers twice
def test_three_servers_with_one_command(project: Project) -> None:
    said = project.towpath("stack", "up", *SERVERS)

    first = project.servers()
    assert {name: it["state"] for name, it in first.items()} == dict.fromkeys(SERVERS, "running")
    settings = project.directory / "printed.toml"
    settings.write_text(said.partition("towpath.toml:\n")[2])
    assert tomllib.loads(settings.read_text()) == {
        "log": {"url": first["kafka"]["url"]},
        "database": {"url": first["postgres"]["url"]},
    }
    project.towpath("--config", str(settings), "topic", "create", "orders")
    assert "postgresql://" in project.towpath("--config", str(settings), "doctor")

    leaders = {pid for it in first.values() for pid in it["pids"]}
    groups = {os.getpgid(pid) for pid in leaders}
    everybody = {it.pid for it in living(leaders | groups)}
    assert len(everybody) > len(SERVERS), "PostgreSQL and Elasticsearch have children"
    project.towpath("stack", "down")
    # A process that has said goodbye is in the list for a moment longer.
    wait_until(lambda: living(everybody | groups) == [], 60, "nothing is left")
    directories = {it["data_dir"] for it in first.values()}
    assert at_work_in(directories) == []

    project.towpath("stack", "up", *SERVERS, **NO_WAY_OUT)
    second = project.servers()
    assert {name: (it["state"], it["url"]) for name, it in second.items()} == {
        name: ("running", it["url"]) for name, it in first.items()
    }
    assert "orders" in project.towpath("--config", str(settings), "topic", "list")

    project.towpath("stack", "reset", "--yes")
    assert [path for path in directories if Path(path).exists()] == []
    assert project.servers() == {}
    assert at_work_in(directories) == []
