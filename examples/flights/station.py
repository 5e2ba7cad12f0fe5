"""Where a run of the example keeps its things: the settings, what `towpath up` runs, and the keys of its clients."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.access.roles import Role
from towpath.runtime import Runtime, connect

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Path(__file__).with_name("towpath.toml")
FLOW = "examples.flights.flow:flow"
COMMAND_S = 300.0
SCOPES = ("gateway:send", "gateway:receive")


class CommandFailed(Exception):
    """What a command said when it failed."""


@dataclass(frozen=True)
class Station:
    """A directory with settings of its own."""

    home: Path
    port: int

    @classmethod
    def make(cls, home: Path, *, database: str = "", log: str = "", gateway: str = "", more: str = "") -> Station:
        """With a database and a log elsewhere, or in files here.

        `gateway` are further lines of that section of the settings, `more` are further sections.
        """
        home.mkdir(parents=True, exist_ok=True)
        port = _free_port()
        changed = {
            'url = "sqlite:///towpath.db"': f"url = {json.dumps(database or f'sqlite:///{home}/towpath.db')}",
            'url = "sqlite:///topics.db"': f"url = {json.dumps(log or f'sqlite:///{home}/topics.db')}",
            "port = 8470": f"port = {port}",
            'directory = "uploads"': f"directory = {json.dumps(str(home / 'uploads'))}\n{gateway}",
        }
        text = SETTINGS.read_text(encoding="utf-8")
        for line, other in changed.items():
            text = text.replace(f"\n{line}\n", f"\n{other}\n", 1)
        (home / "towpath.toml").write_text(f"{text}\n{more}", encoding="utf-8")
        return cls(home, port)

    @property
    def config(self) -> Path:
        return self.home / "towpath.toml"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """For all processes: none of the settings of whoever runs this, and a path on which the flow is found."""
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("TOWPATH_")}
        path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
        return {**kept, "PYTHONPATH": path}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "towpath", "--config", str(self.config), *words]

    def towpath(self, *words: str, timeout_s: float = COMMAND_S) -> str:
        """What a command prints; raises `CommandFailed` with what it says is wrong."""
        done = self._run(words, timeout_s)
        if done.returncode:
            raise CommandFailed(f"towpath {' '.join(words)}: {(done.stderr or done.stdout).strip()[-1000:]}")
        return done.stdout

    def json(self, *words: str, timeout_s: float = COMMAND_S) -> Any:
        """What a command says to programs, whether it found something wrong or not."""
        done = self._run((*words, "--json"), timeout_s)
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise CommandFailed(f"towpath {' '.join(words)}: {done.stderr.strip()[-1000:]}") from error

    def connect(self) -> Runtime:
        return connect(config=self.config)

    def key(self, client: str) -> str:
        """A key for a client, who is a user of that name."""
        with self.connect() as runtime:
            runtime.access.add_user(client, Role.VIEWER, who="flights", why="a client of the example")
            _, token = runtime.access.make_key(client, SCOPES, who="flights", why="to send flights")
        return token.text

    def _run(self, words: tuple[str, ...], timeout_s: float) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                self.command(*words),
                cwd=self.home,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(f"towpath {' '.join(words)} did not end within {timeout_s:g} s") from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
