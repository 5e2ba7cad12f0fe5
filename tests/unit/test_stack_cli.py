"""`towpath stack`, what needs no server: wrong words, an empty project, the profile that it must not overwrite."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.support.cli import CommandLine

from towpath.cli.stack_views import StartDisplay
from towpath.spark import artifacts
from towpath.stack.model import ServerRecord


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "(kafka, elasticsearch, postgres, spark)"),
        (["mysql"], "mysql"),
        (["kafka", "--port", "9092"], "SERVER=N"),
        (["kafka", "--port", "postgres=5432"], "(kafka)"),
        (["kafka", "--port", "kafka=x"], "number"),
        (["kafka", "--port", "kafka=65536"], "number"),
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
    assert "kafka" in command.ok("stack", "down", "kafka").out
    command.ok("stack", "reset", "--yes")
    assert command.ok("stack", "logs").out == ""
    command("stack", "logs", "kafka").refused(1, "towpath stack up kafka")
    absent = command("stack", "status", "kafka")
    assert (absent.code, absent.lines[1].split()) == (1, ["kafka", "absent"])
    assert list(tmp_path.iterdir()) == []


def test_a_profile_of_somebody_else_is_not_overwritten(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "towpath.stack.toml").write_text("[log]\n")
    command("stack", "up", "kafka", "--write").refused(3, "towpath.stack.toml")
    assert (tmp_path / "towpath.stack.toml").read_text() == "[log]\n"


def test_nobody_to_ask(command: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ServerRecord(9092).write(tmp_path / ".towpath" / "stack" / "kafka")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    ran = command("stack", "reset")
    assert ran.code == 2
    assert "say --yes" in ran.err


def test_one_broken_record_concerns_no_other_server(command: CommandLine, tmp_path: Path) -> None:
    stack = tmp_path / ".towpath" / "stack"
    ServerRecord(9092).write(stack / "kafka")
    ServerRecord(7077).write(stack / "spark")
    (stack / "kafka" / "server.json").write_text("{")
    told = f"error: {stack}/kafka/server.json "

    seen = command("stack", "status")
    assert (seen.code, seen.lines[1].split()[:2], len(seen.lines)) == (1, ["spark", "stopped"], 2)
    assert seen.err.startswith(told)
    assert "towpath stack reset kafka" in seen.err
    (spark,) = command("stack", "status", "--json").json["items"]
    assert spark["name"] == "spark"
    assert command("stack", "status", "spark").err == ""
    stopped = command("stack", "down")
    assert stopped.code == 1
    assert "spark" in stopped.out
    assert stopped.err.startswith(told)
    for words in (["logs", "kafka"], ["status", "kafka"], ["down", "kafka"], ["up", "kafka"]):
        command("stack", *words).refused(1, told)

    command.ok("stack", "reset", "kafka", "--yes")
    assert [path.name for path in stack.glob("*/")] == ["spark"]
    assert command.ok("stack", "status").err == ""


def test_waiting_for_a_fetch_of_another_process_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with StartDisplay() as audience:
        artifacts.tell_waiting(artifacts.KAFKA, audience.fetching)
    assert "kafka" in capsys.readouterr().err


def test_java_missing(command: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("towpath.spark.java.USUAL_PLACES", ())
    command("stack", "up", "kafka").refused(3, "Java 17 or 21", "apt-get install")


def test_a_state_directory_that_cannot_be_made(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / ".towpath").write_text("")
    command("stack", "up", "postgres").refused(1, "Not a directory")
