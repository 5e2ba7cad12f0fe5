"""The page about schedules, as a reader would follow it: its program runs, and its commands work on what that made."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.cli import CommandLine
from tests.unit.test_docs import DOCS, examples

from towpath.actors.schedules.model import Interval
from towpath.runtime import Runtime

PAGE = DOCS / "how-to" / "schedule-actors.md"


def test_the_program_and_the_commands(
    command: CommandLine,
    variables: dict[str, str],
    make_runtime: Callable[..., Runtime],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, block in examples(PAGE):
        exec(compile("\n" * line + block, PAGE.name, "exec", dont_inherit=True), namespace)
    said = ""
    for line in re.findall(r"^\$ (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        program, *words = shlex.split(line)
        assert program == "towpath"
        said += command.ok(*words).out
    assert "the backup is at half past three" in said
    found = {each.name: each for each in make_runtime().actors.schedules.list()}
    assert set(found) == {"hall", "nightly", "weekly-walls"}
    assert found["hall"].is_enabled
    assert found["nightly"].rhythm == Interval(12 * 3600)
    assert (found["weekly-walls"].instance, found["weekly-walls"].payload) == ("walls", {"room": "attic"})
