"""The directory of a run: its settings, and the commands that are typed there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soak.up.work import HOME

ROOT = Path(__file__).parents[2]
COMMAND_S = 300.0
SETTINGS = """
[database]
url = {database}

[log]
url = {log}

[up.flow]
kind = "flow"
target = "soak.up.work:flow"
environment = {{ {home} = {directory}, PYTHONPATH = {root} }}

[up.actors]
kind = "actors"
arguments = ["soak.up.work"]
copies = 2
environment = {{ PYTHONPATH = {root} }}

[up.desk]
kind = "desk"
"""


class CommandFailed(Exception):
    """What a command said when it failed."""


@dataclass(frozen=True)
class Project:
    """Where everything of a run is."""

    home: Path
    database: str

    @classmethod
    def make(cls, home: Path, database: str = "") -> Project:
        made = cls(home, database or f"sqlite:///{home}/towpath.db")
        words = {"database": made.database, "log": f"sqlite:///{home}/topics.db", "directory": str(home), "root": ROOT}
        quoted = {name: json.dumps(str(value)) for name, value in words.items()}
        made.config.write_text(SETTINGS.format(home=HOME, **quoted), encoding="utf-8")
        return made

    @property
    def config(self) -> Path:
        return self.home / "towpath.toml"

    def towpath(self, *words: str, timeout_s: float = COMMAND_S) -> str:
        """What a command prints; raises `CommandFailed` with what it says is wrong."""
        done = self._run(words, timeout_s)
        if done.returncode:
            raise CommandFailed(f"towpath {' '.join(words)}: {(done.stderr or done.stdout).strip()[-1000:]}")
        return done.stdout

    def json(self, *words: str) -> Any:
        """What a command says to programs, whether it found something wrong or not."""
        done = self._run((*words, "--json"), COMMAND_S)
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise CommandFailed(f"towpath {' '.join(words)}: {done.stderr.strip()[-1000:]}") from error

    def _run(self, words: tuple[str, ...], timeout_s: float) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "towpath", "--config", str(self.config), *words]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), HOME: str(self.home)}
        try:
            return subprocess.run(
                command, cwd=self.home, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(f"towpath {' '.join(words)} did not end within {timeout_s:g} s") from error
