"""What the servers that run on Java have in common: one process, a port, settings of their own."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

from towpath.spark.java import Java, find_java
from towpath.stack.daemon import Daemon
from towpath.stack.ports import free_port, require_free
from towpath.stack.server import Server, explaining
from towpath.stack.server_user import ServerUser

# Options for every Java of the user's shell would double heaps, open ports and write lines into logs.
LEFT_OUT = frozenset({"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "CLASSPATH"})


def environment(java: Java, **more: str) -> dict[str, str]:
    """The variables for a server: ours, less what is meant for other programs."""
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    return {**kept, "JAVA_HOME": str(java.home), **more}


class JavaServer(Server):
    """One process on Java with one port for clients."""

    def __init__(
        self, data_dir: Path, user: ServerUser, port: int | None, settings: Mapping[str, str] | None, java_home: str
    ) -> None:
        self._user = user
        self.data_dir = user.reachable_directory(data_dir.absolute())
        self._port = port or None
        self._own_settings = dict(settings or {})
        self._java_home = java_home
        self._java_found: Java | None = None
        self._daemon = Daemon("server", self.data_dir, user)

    @property
    def pids(self) -> list[int]:
        pid = self._daemon.pid
        return [pid] if pid else []

    @property
    def logs(self) -> list[Path]:
        return [self._daemon.log]

    def attach(self) -> bool:
        if not self.is_running:
            return False
        self._port = self._port_of_running()
        return True

    def launch(self) -> None:
        if self.attach():
            return
        with explaining(self.name, self.data_dir):
            # What a start that was killed has left of the children of its process.
            self._daemon.kill()
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._user.own(self.data_dir)
            self._port = self._port or free_port()
            require_free(self.name, self._port)
            self._set_up()
            self._daemon.start(self._command(), self._environment(), self._working_directory())

    def stop(self) -> None:
        self._daemon.stop()

    def kill(self) -> None:
        self._daemon.kill()

    @property
    def _java(self) -> Java:
        if self._java_found is None:
            self._java_found = find_java(self._java_home)
        return self._java_found

    @abstractmethod
    def _set_up(self) -> None:
        """Write what the process reads when it starts; at the first time also make empty data."""

    @abstractmethod
    def _command(self) -> list[str]:
        """What to run; one word holds the data directory."""

    @abstractmethod
    def _environment(self) -> dict[str, str]:
        """With which variables."""

    def _working_directory(self) -> Path:
        return self.data_dir

    @abstractmethod
    def _port_of_running(self) -> int:
        """Which port the running process was told to use."""
