"""`towpath console` as a process of its own, and the session of somebody who looks."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from towpath.runtime import Runtime
from towpath.web.auth import SESSION

PASSWORD = "a password of a benchmark"  # noqa: S105 - of nobody
TIMEOUT_S = 120.0


@dataclass
class Served:
    """Where it answers, and its process."""

    address: str
    pid: int
    runtime: Runtime
    _people: dict[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    def secret(self, name: str) -> str:
        """What the browser of an admin of that name holds."""
        if name not in self._people:
            access = self.runtime.access
            access.add_user(name, "admin", who="bench", why="bench", password=PASSWORD)
            begun = access.sessions.begin(name, PASSWORD, address="127.0.0.1", browser="bench")
            self._people[name] = begun.secret
        return self._people[name]

    def cookie(self, name: str = "ann") -> str:
        return f"{SESSION}={self.secret(name)}"

    @contextmanager
    def connected(self) -> Iterator[http.client.HTTPConnection]:
        with closing(http.client.HTTPConnection(self.host, timeout=TIMEOUT_S)) as connection:
            yield connection


@contextmanager
def served(runtime: Runtime, config: Path) -> Iterator[Served]:
    command = [sys.executable, "-m", "towpath", "--config", str(config), "console", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        if not said.startswith("listening at "):
            raise RuntimeError(f"the console has not come up: {said}")
        yield Served(said.split()[-1], process.pid, runtime)
    finally:
        process.terminate()
        process.communicate()
