"""`towpath stack`, what needs no server: wrong words, an empty project, the profile that it must not overwrite."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.support.cli import CommandLine

from towpath.stack.record import Record


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "say which servers to start (kafka, elasticsearch, postgres, spark), or --all"),
        (["mysql"], "mysql"),
        (["kafka", "--port", "9092"], "say SERVER=N"),
        (["kafka", "--port", "postgres=5432"], "a server that is to be started (kafka)"),
        (["kafka", "--port", "kafka=x"], "the port is a number"),
        (["kafka", "--port", "kafka=65536"], "the port is a number"),
        (["spark", "--workers", "0"], "--workers"),
    ],
)
def test_wrong_words(words: list[str], told: str, command: CommandLine, tmp_path: Path) -> None:
    command("stack", "up", *words).refused(2, told)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_project(command: CommandLine, tmp_path: Path) -> None:
    assert "towpath stack up kafka" in command.ok("stack", "status").out
    assert command.ok("stack", "status", "--json").json == {"items": []}
    assert command.ok("stack", "down").out == ""
    assert command.ok("stack", "down", "kafka").out == "kafka did not run\n"
    assert command.ok("stack", "reset", "--yes").out == "there is nothing to delete\n"
    assert command.ok("stack", "logs").out == ""
    command("stack", "logs", "kafka").refused(1, "kafka was never started here; type: towpath stack up kafka")
    absent = command("stack", "status", "kafka")
    assert (absent.code, absent.lines[1].split()) == (1, ["kafka", "absent"])
    assert list(tmp_path.iterdir()) == []


def test_a_profile_of_somebody_else_is_not_overwritten(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "towpath.stack.toml").write_text("[log]\n")
    command("stack", "up", "kafka", "--write").refused(3, "towpath.stack.toml was not written by this command")
    assert (tmp_path / "towpath.stack.toml").read_text() == "[log]\n"


def test_nobody_to_ask(command: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Record(9092).write(tmp_path / ".towpath" / "stack" / "kafka")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    ran = command("stack", "reset")
    assert ran.code == 2
    assert "say --yes" in ran.err


def test_java_missing(command: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("towpath.spark.java.USUAL_PLACES", ())
    command("stack", "up", "kafka").refused(3, "Java 17 or 21 is not installed", "apt-get install")


def test_a_state_directory_that_cannot_be_made(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / ".towpath").write_text("")
    command("stack", "up", "postgres").refused(1, "Not a directory")
