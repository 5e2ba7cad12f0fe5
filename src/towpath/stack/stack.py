"""The servers of one project, under its state directory.

Each server has a directory of its own there, with its data and a record of its port. Whoever starts, stops or deletes
servers holds the stack's lock; a second one waits. Looking needs no lock.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from towpath.errors import ServerFailed
from towpath.spark.artifacts import FetchProgress, exclusively
from towpath.stack.daemon import free_port, require_free
from towpath.stack.kafka import KafkaServer
from towpath.stack.model import ServerName, ServerRecord, ServerState
from towpath.stack.postgres import PostgresServer
from towpath.stack.search import ElasticsearchServer
from towpath.stack.server import Server, SettingsSections, explaining
from towpath.stack.spark_cluster import SparkCluster

# What runs is found by its pid files, on whatever port it is.
ANY_RECORD = ServerRecord(port=0)


class Stack:
    """Starts, shows, stops and deletes the servers of a project."""

    def __init__(self, directory: Path, java_home: str = "") -> None:
        self._directory = directory.expanduser().absolute()
        self._java_home = java_home

    def there(self) -> list[ServerName]:
        """The servers that were started here at some time, and not reset since."""
        return [name for name in ServerName if ServerRecord.is_there(self._home(name))]

    def up(
        self, names: Sequence[ServerName], ports: Mapping[ServerName, int], workers: int | None, audience: StackAudience
    ) -> None:
        """Start servers and wait until all of them answer; running ones are left as they are.

        A server keeps its port from start to start unless `ports` names another; 0 is any free one.
        """
        with self._alone(audience):
            self._hide_from_git()
            servers = [self._plan(name, ports.get(name), workers, audience) for name in names]
            for server in servers:
                server.prepare(audience.fetching)
            asleep = [server for server in servers if not server.is_running]
            watch = _Watch(asleep, audience)
            for server in asleep:
                watch.look()
                server.launch()
            for server in servers:
                server.await_ready(watch.look)

    def status(self, name: ServerName) -> Status:
        """How one server is now."""
        record = ServerRecord.read(self._home(name))
        if record is None:
            return Status(name, ServerState.ABSENT)
        server = self._server(name, record)
        state = ServerState.STOPPED
        if server.attach():
            state = ServerState.RUNNING if server.is_healthy() else ServerState.STARTING
        return Status(name, state, server.url, tuple(server.pids), server.version, server.data_dir, server.settings)

    def logs(self, name: ServerName) -> list[Path]:
        """The files that the server's processes write to."""
        return self._existing(name).logs

    def down(self, name: ServerName, audience: StackAudience) -> bool:
        """Stop a server; False when it did not run."""
        if ServerRecord.read(self._home(name)) is None:
            return False
        with self._alone(audience):
            server = self._existing(name)
            was_running = bool(server.pids)
            server.stop()
        return was_running

    def reset(self, name: ServerName, audience: StackAudience) -> None:
        """Stop a server and delete its data, also one whose record cannot be read."""
        with self._alone(audience), explaining(name, self._home(name)):
            if not ServerRecord.is_there(self._home(name)):
                raise _never_started(name)
            server = self._server(name, ANY_RECORD)
            server.stop()
            if server.data_dir.exists():
                shutil.rmtree(server.data_dir)
            shutil.rmtree(self._home(name))

    def _plan(self, name: ServerName, port: int | None, workers: int | None, audience: StackAudience) -> Server:
        """The server as it is to be, with its record written: a start that is killed later can be found again."""
        home = self._home(name)
        old = ServerRecord.read(home)
        record = ServerRecord(
            (old.port if old and port is None else port) or free_port(), workers or (old.workers if old else 1)
        )
        server = self._server(name, record)
        if server.attach():
            if port and port != server.port:
                raise ServerFailed(
                    f"{name} runs on port {server.port} already; to move it, type: towpath stack down {name}"
                )
            audience.say(f"{name} runs already")
            record = ServerRecord(server.port, record.workers)
        else:
            require_free(name, record.port)
        record.write(home)
        return server

    def _existing(self, name: ServerName) -> Server:
        record = ServerRecord.read(self._home(name))
        if record is None:
            raise _never_started(name)
        return self._server(name, record)

    def _server(self, name: ServerName, record: ServerRecord) -> Server:
        data_dir = self._home(name) / "data"
        match name:
            case ServerName.KAFKA:
                return KafkaServer(data_dir, record.port, java_home=self._java_home)
            case ServerName.ELASTICSEARCH:
                return ElasticsearchServer(data_dir, record.port, java_home=self._java_home)
            case ServerName.POSTGRES:
                return PostgresServer(data_dir, record.port)
            case ServerName.SPARK:
                return SparkCluster(data_dir, record.port, record.workers, java_home=self._java_home)

    def _home(self, name: ServerName) -> Path:
        return self._directory / name

    @contextmanager
    def _alone(self, audience: StackAudience) -> Iterator[None]:
        with explaining("stack", self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            waiting = "another `towpath stack` is at work here; waiting for it …"
            with exclusively(self._directory / ".lock", lambda: audience.say(waiting)):
                yield

    def _hide_from_git(self) -> None:
        ignore = self._directory / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")


class StackAudience(Protocol):
    """Receives what happens while servers are started."""

    def fetching(self, progress: FetchProgress) -> None:
        """Files are coming."""

    def starting(self, names: Sequence[str], seconds: float) -> None:
        """These do not answer yet."""

    def say(self, text: str) -> None:
        """Something happened."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of one server."""

    name: ServerName
    state: ServerState
    url: str = ""
    pids: tuple[int, ...] = ()
    version: str = ""
    data_dir: Path | None = None
    settings: SettingsSections | None = None


class _Watch:
    """Tells an audience which servers do not answer yet, and since when."""

    def __init__(self, servers: Sequence[Server], audience: StackAudience) -> None:
        self._waiting = list(servers)
        self._audience = audience
        self._started_at = time.monotonic()

    def look(self) -> None:
        self._waiting = [server for server in self._waiting if not (server.is_running and server.is_healthy())]
        names = [server.name for server in self._waiting]
        self._audience.starting(names, time.monotonic() - self._started_at)


def _never_started(name: ServerName) -> ServerFailed:
    return ServerFailed(f"{name} was never started here; type: towpath stack up {name}")
