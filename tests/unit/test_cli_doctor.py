"""`towpath doctor`: what is missing, what to do, and that it does it."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine

from towpath.admin import doctor
from towpath.admin.checks import CheckStatus, ok
from towpath.errors import NotInstalled

Program = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Puts programs into a directory that is the whole PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("towpath.spark.java.USUAL_PLACES", ())

    def make(name: str, script: str) -> Path:
        path = directory / name
        path.write_text(f"#!{sys.executable}\nimport os, sys, pathlib\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


def java(version: str) -> str:
    return f"""print('openjdk version "{version}" 2026-01-01', file=sys.stderr)"""


def items(command: CommandLine, *words: str) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in command(*words, "--json").json["items"]}


def test_a_fit_machine(command: CommandLine, tmp_path: Path) -> None:
    ran = command.ok("doctor")
    assert "sqlite:///towpath.db" in ran.out
    found = items(command, "doctor")
    for name in ("Python", "SQLite", "settings", "disk space", "write-ahead log", "database"):
        assert found[name]["health"] == "ok", found[name]
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


@pytest.mark.parametrize(
    ("words", "name", "remedy"),
    [
        (["--config", "none.toml"], "settings", "mend it"),
        (["--database", "mysql://x"], "settings", "mend it"),
        (["--database", "sqlite:///no/where.db"], "database", "mkdir -p"),
        (["--database", "postgresql://u:secret@127.0.0.1:1/x"], "database", "start it"),
        (["--database", "sqlite:///no-database"], "database", "mend database.url"),
    ],
)
def test_what_is_wrong_has_its_remedy(words: list[str], name: str, remedy: str, command: CommandLine) -> None:
    Path("no-database").write_text("this is some text, and certainly no database " * 100)
    ran = command(*words, "doctor")
    assert ran.code == 1
    assert "secret" not in ran.out
    item = items(command, *words, "doctor")[name]
    assert item["health"] == "missing"
    assert remedy in item["remedy"]


def test_old_python() -> None:
    assert doctor.python((3, 10, 4)).health is CheckStatus.MISSING
    assert doctor.python((3, 11, 0)).health is CheckStatus.OK


@pytest.mark.parametrize(
    ("version", "health"), [("17.0.10", "ok"), ("21.0.1", "ok"), ("11.0.2", "warning"), ("1.8.0_392", "warning")]
)
def test_java_versions(version: str, health: str, program: Program) -> None:
    program("java", java(version))
    assert doctor.java(is_needed=False).health == health


def test_a_java_that_does_not_work(program: Program) -> None:
    program("java", "sys.exit(1)")
    assert doctor.java(is_needed=True).health is CheckStatus.MISSING


def test_little_disk_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_free(free: int) -> CheckStatus:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 10**12 - free, free))
        return doctor.disk(tmp_path).health

    assert [with_free(n) for n in (10**7, 10**9, 10**11)] == [CheckStatus.MISSING, CheckStatus.WARNING, CheckStatus.OK]


def test_wake_ups_that_do_not_work_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    not_a_directory = tmp_path / f"towpath-{os.getuid()}"
    not_a_directory.write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert doctor._bells().health is CheckStatus.WARNING


def test_what_a_purpose_needs_is_missing_and_else_a_warning(command: CommandLine, program: Program) -> None:
    assert items(command, "doctor")["Java"]["health"] == "warning"
    assert command("doctor").code == 0
    assert items(command, "doctor", "--for", "test")["Java"]["health"] == "warning"
    found = items(command, "doctor", "--for", "flows", "--for", "demo")["Java"]
    assert found["health"] == "missing"
    assert "openjdk-17-jre-headless" in found["remedy"]
    assert command("doctor", "--for", "flows").code == 1


def apt_get(log: Path, java_at: Path, fails_first: bool) -> str:
    return f"""
log = pathlib.Path({str(log)!r})
before = log.read_text() if log.exists() else ""
log.write_text(before + " ".join(sys.argv[1:]) + "\\n")
if "install" in sys.argv:
    if {fails_first} and "update" not in before:
        print("E: Unable to locate package"); sys.exit(100)
    java = pathlib.Path({str(java_at)!r})
    java.write_text({f"#!{sys.executable}{chr(10)}import sys{chr(10)}" + java("17.0.1")!r})
    java.chmod(0o755)
"""


@pytest.mark.parametrize("fails_first", [False, True])
def test_fix_installs_what_is_missing(
    fails_first: bool, command: CommandLine, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(doctor, "postgres", lambda *, is_needed: ok("PostgreSQL server", "here"))
    log = tmp_path / "apt.log"
    program("apt-get", apt_get(log, tmp_path / "bin" / "java", fails_first))
    ran = command.ok("doctor", "--for", "flows", "--fix")
    assert "installing openjdk-17-jre-headless" in ran.err
    install = "install -y --no-install-recommends openjdk-17-jre-headless"
    assert log.read_text().splitlines() == ([install, "update", install] if fails_first else [install])
    command.ok("doctor", "--for", "flows", "--fix")
    assert log.read_text().count(install) == (2 if fails_first else 1), "what is there is not installed again"


def test_fix_without_root_says_what_to_type(
    command: CommandLine, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    program("apt-get", "sys.exit(1)")
    command("doctor", "--for", "flows", "--fix").refused(
        3, "sudo apt-get install -y --no-install-recommends", "openjdk-17-jre-headless"
    )


def test_fix_where_there_is_no_apt_get(command: CommandLine, program: Program) -> None:
    command("doctor", "--for", "flows", "--fix").refused(3, "openjdk-17-jre-headless")


def test_fix_that_fails_shows_the_last_lines(
    command: CommandLine, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(doctor, "postgres", lambda *, is_needed: ok("PostgreSQL server", "here"))
    program("apt-get", "print('E: no network'); sys.exit(100)")
    ran = command("doctor", "--for", "flows", "--fix")
    assert ran.code == 1
    assert "E: no network" in ran.err.splitlines()[-1]


def test_a_missing_postgresql_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> Path:
        raise NotInstalled("the PostgreSQL server", "pip install x")

    monkeypatch.setattr(doctor, "server_programs", none)
    assert doctor.postgres(is_needed=False).health is CheckStatus.WARNING
    found = doctor.postgres(is_needed=True)
    assert (found.health, found.package) == (CheckStatus.MISSING, "postgresql")
    assert "pip install x" in found.remedy
