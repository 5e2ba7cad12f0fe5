"""Running the command line in this process: the whole way from words to exit code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from towpath import cli


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    def refused(self, code: int, *parts: str) -> None:
        """It failed in the way that is right: one line that says what, nothing else, no trace."""
        assert self.code == code, self
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        assert [part for part in parts if part not in self.err] == [], self.err


class CommandLine:
    """`towpath …` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> Ran:
        self._capsys.readouterr()
        code = cli.main([str(word) for word in words])
        written = self._capsys.readouterr()
        return Ran(code, written.out, written.err)

    def ok(self, *words: object) -> Ran:
        ran = self(*words)
        assert ran.code == 0, ran
        return ran


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """`towpath` as a function."""
    return CommandLine(capsys)


@pytest.fixture
def variables(database_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings of the test's database as variables, set for this process."""
    found = {f"TOWPATH_DATABASE__{key.upper()}": str(value) for key, value in database_settings.items()}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


def on_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """What is written from here on goes to a terminal of this width that knows no colours."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(width))
