"""Wrong usage is told in one line with exit code 2; help comes quickly and for everything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.sweep import sweep
from typer.main import get_command

import towpath
from towpath import cli

SLOW_TO_LOAD = ("psycopg", "pydantic_settings", "rich", "sqlite3", "towpath.db", "towpath.queue")


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, group
    for name, inner in getattr(group, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = dict(commands(get_command(cli.app)))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@sweep("path", ALL)
def test_every_command_explains_itself(path: tuple[str, ...], command: CommandLine) -> None:
    ran = command.ok(*path, "--help")
    assert ran.out.startswith(f"Usage: {' '.join(('towpath', *path))}")
    undocumented = [p.name for p in ALL[path].params if not p.help]
    assert undocumented == []
    assert path == () or ALL[path].help


def test_help_does_not_wait_for_what_it_does_not_need() -> None:
    program = f"""
import sys
from towpath.cli import main
main(["--help"]), main(["queue", "list", "--help"]), main(["doctor", "--help"])
print([name for name in {SLOW_TO_LOAD!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_name_that_is_loaded_late_has_its_home() -> None:
    assert sorted(towpath._HOMES) == towpath.__all__
    assert set(towpath.__all__) <= set(dir(towpath))
    with pytest.raises(AttributeError, match="nonsense"):
        towpath.nonsense  # noqa: B018 - asking is the test


def test_version(command: CommandLine) -> None:
    assert command.ok("--version").out.startswith("towpath 0.")


@pytest.mark.parametrize("words", [(), ("queue",), ("event",), ("schema",), ("process",)], ids=" ".join)
def test_a_group_alone_shows_its_help(words: tuple[str, ...], command: CommandLine) -> None:
    ran = command(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Usage: towpath")


MESSAGE = "01980000-0000-7000-8000-000000000000"


@sweep(
    ("words", "said"),
    [
        (["nonsense"], "'nonsense'"),
        (["queue", "nonsense"], "'nonsense'"),
        (["queue", "list", "--nonsense"], "--nonsense"),
        (["queue", "list", "--database", "x"], "--database"),
        (["queue", "list", "--limit", "0"], "--limit"),
        (["queue", "list", "--limit", "many"], "--limit"),
        (["queue", "list", "--before", "x"], "--before"),
        (["queue", "show"], "MESSAGE"),
        (["queue", "send", "prices", "quote"], "--why"),
        (["queue", "send", "prices", "quote", "--why", " "], "--why"),
        (["queue", "send", "prices", "quote", "--why", "x", "--who", " "], "--who"),
        (["queue", "send", "prices", "quote", "--why", "x", "--header", "nothing"], "KEY=VALUE"),
        (["queue", "send", "prices", "quote", "--why", "x", "--header", "=v"], "KEY=VALUE"),
        (["queue", "send", "prices", "quote", "@/does/not/exist", "--why", "x"], "/does/not/exist"),
        (["queue", "send", "prices", "quote", "--why", "x", "--delay", "soon"], "--delay"),
        (["queue", "send", "prices", "quote", "--why", "x", "--wait", "-1"], "--wait"),
        (["queue", "reply", MESSAGE, "1"], "--why"),
        (["queue", "edit", MESSAGE, "--payload", "1"], "--why"),
        (["queue", "edit", MESSAGE, "--why", "x"], "what to change"),
        (["queue", "set-state", MESSAGE, "NEW"], "--why"),
        (["queue", "send", "prices", "quote", "\udcff", "--why", "x"], "UTF-8"),
        (["event", "list", "--kind", "nonsense"], "process_died"),
        (["doctor", "--for", "nonsense"], "flows"),
        (["demo", "--requests", "1"], "--requests"),
        (["--database", "sqlite:///x.db", "demo"], "a database of its own"),
        (["demo", "--keep", "/proc/none"], "--keep /proc/none"),
        (["demo", "--keep", "/usr"], "--keep /usr"),
    ],
)
def test_wrong_usage(words: list[str], said: str, command: CommandLine, tmp_path: Path) -> None:
    command(*words).refused(2, said, "--help")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "none.toml", "queue", "list"], "none.toml"),
        (["--config", "bad.toml", "queue", "list"], "bad.toml"),
        (["--database", "mysql://x", "queue", "list"], "database.url"),
        (["--database", "sqlite:///none.db", "queue", "list"], "towpath schema upgrade"),
        (["--database", "sqlite:///none.db", "event", "list"], "towpath schema upgrade"),
        (["--database", "sqlite:///none.db", "queue", "send", "a", "b", "--why", "x"], "towpath schema upgrade"),
        (["--database", "sqlite:///none.db", "schema", "verify"], "towpath schema upgrade"),
        (["--database", "sqlite:///none/none.db", "queue", "list"], "/none "),
        (["--database", "sqlite:///bad.toml", "schema", "upgrade"], "not a database"),
        (["--database", "postgresql://u:secret@127.0.0.1:1/x", "queue", "list"], "u:***@127.0.0.1"),
        (["--database", "postgresql://a b/c", "queue", "list"], "spaces"),
    ],
)
def test_not_configured_or_not_reachable(words: list[str], said: str, command: CommandLine, tmp_path: Path) -> None:
    Path("bad.toml").write_text("[database\n")
    ran = command(*words)
    ran.refused(3, said)
    assert "secret" not in ran.err
    assert not (tmp_path / "none.db").exists()
    assert Path("bad.toml").read_text() == "[database\n"


def test_a_variable_that_is_no_setting(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_NONSENSE", "1")
    command("queue", "list").refused(3, "TOWPATH_NONSENSE")


def test_a_look_at_the_schema_does_not_make_a_database(command: CommandLine, tmp_path: Path) -> None:
    ran = command.ok("--database", "sqlite:///none.db", "schema", "status", "--json")
    assert {item["state"] for item in ran.json["items"]} == {"pending"}
    assert list(tmp_path.iterdir()) == []


def test_debug_adds_the_trace(command: CommandLine) -> None:
    ran = command("--debug", "--config", "none.toml", "queue", "list")
    assert ran.code == 3
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-1].startswith("error: ")


def test_a_fault_of_ours_says_so(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("oops\nand more")

    monkeypatch.setattr("towpath.settings.load", fail)
    command("queue", "list").refused(1, "ZeroDivisionError: oops and more", "--debug")
