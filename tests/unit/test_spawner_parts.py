"""The pieces of spawners that need no process: declarations, settings for children, output of commands, logs."""

from __future__ import annotations

import math
import os
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.spawned import Hand

from towpath import settings
from towpath.actors import Job, Spawner
from towpath.actors.definition import define
from towpath.actors.graph.shape import moves_in_code
from towpath.actors.spawner.job import ERROR_BYTES, CommandOutput, ErrorOutput
from towpath.actors.spawner.launch import (
    KEPT_BYTES,
    MOST_BYTES,
    SHOWN_CHARACTERS,
    SpawnedLog,
    SpawnTask,
    environment,
    is_running,
    variables,
)
from towpath.errors import BadActor
from towpath.settings import Settings

# Declarations


def declared(**attributes: Any) -> type[Spawner]:
    body = {"__doc__": "Runs something.", "inbox": "crawl", "entry": "harvest.crawl:main", **attributes}
    return type("Declared", (Spawner,), body)


def test_a_declaration_that_works() -> None:
    assert define(declared()).about == "Runs something."
    assert define(declared(entry="", command=("node", "crawl.js"))).first.name == "Watch"


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"inbox": ""}, "inbox"),
        ({"inbox": "two words"}, "inbox"),
        ({"inbox": "actor:crawler:main"}, "an actor's"),
        ({"entry": ""}, "runs"),
        ({"command": ("node",)}, "runs"),
        ({"entry": "", "command": "node crawl.js"}, "command"),
        ({"entry": "", "command": ("node", "")}, "command"),
        ({"entry": "harvest.crawl"}, "'module:function'"),
        ({"entry": "harvest.crawl:"}, "'module:function'"),
        ({"retries": -1}, "retries"),
        ({"look_s": 0}, "seconds"),
        ({"__doc__": None}, "docstring"),
    ],
)
def test_declarations_that_cannot_work(attributes: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadActor, match=problem):
        define(declared(**attributes))


def test_the_moves_of_a_class_that_only_says_what_it_runs() -> None:
    moves = {(move.source, move.target) for move in moves_in_code(Hand, set(define(Hand).states))}
    assert {("Watch", "Launch"), ("Launch", "Attend"), ("Attend", "Stop"), ("Attend", "Watch")} <= moves
    assert ("Attend", "Failed") in moves


# Settings


def test_a_child_reads_the_same_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever a file in its directory says."""
    (tmp_path / "towpath.toml").write_text(
        "[queue]\npoll_s = 9.0\n[queue.retention]\nok_s = 5.0\n[spark.conf]\na = 'b'\n"
    )
    monkeypatch.chdir(tmp_path)
    given = Settings(
        database={"url": "postgresql://me:pass word=%22'$x@host:1/db", "schema": "other", "auto_upgrade": False},
        queue={"max_payload_bytes": 77, "retention": {"ok_s": "never", "err_s": 1e-6}},
        actors={"modules": ["shop.actors", 'it\'s "x".py'], "workers": 3},
        log={"client": {"sasl.password": "{}"}},
        logging={"format": "json"},
    )
    for name, value in variables(given).items():
        monkeypatch.setenv(name, value)
    assert settings.load() == given


def test_what_a_child_finds_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_CRASH", "turn_done:1")
    monkeypatch.setenv("SOMETHING_ELSE", "kept")
    task = SpawnTask("crawler", "main", "crawl", "", ("node", "crawl.js"), 2.0, 5.0)
    found = environment(Settings(), task, "the-launch")
    assert "TOWPATH_CRASH" not in found  # it is the host that is to die there
    assert found["SOMETHING_ELSE"] == "kept"
    assert found["TOWPATH_PROCESS__NAME"] == "crawler"
    monkeypatch.setattr(os, "environ", found)
    assert SpawnTask.from_environment() == task


# Output of commands


class Heard:
    def __init__(self, longest: int = 100) -> None:
        self.progress: list[tuple[float, str]] = []
        self.output = CommandOutput(longest, lambda percent, stage: self.progress.append((percent, stage)))


OUTPUT = (
    b'hello\ntowpath: 40% fetching \xff\n\n  {"a": 1}  \r\ntowpath:100 %\ntowpath: 1000% no\n'
    + b"y" * 150
    + b"\n[2]\n \n"
)


@given(st.lists(st.integers(min_value=0, max_value=len(OUTPUT)), max_size=10))
def test_output_means_the_same_in_any_pieces(cuts: list[int]) -> None:
    heard = Heard()
    places = [0, *sorted(cuts), len(OUTPUT)]
    for start, end in pairwise(places):
        heard.output.feed(OUTPUT[start:end])
    assert heard.progress == [(40.0, "fetching \N{REPLACEMENT CHARACTER}"), (100.0, "")]
    assert heard.output.answer() == [2]


@given(st.binary(max_size=400))
def test_any_output_at_all(data: bytes) -> None:
    heard = Heard()
    heard.output.feed(data)
    heard.output.answer()


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (b"", None),
        (b"null", None),
        (b'"x"', "x"),
        (b"text\n3\ntext", None),
        (b"3\n" + b"9" * 101, None),
        (b"-Infinity", None),
        (b"[" * 90, None),
        (b'{"a": 1}\ntowpath: 5% on', {"a": 1}),
    ],
)
def test_answers(output: bytes, answer: Any) -> None:
    heard = Heard()
    heard.output.feed(output)
    assert heard.output.answer() == answer


@given(st.lists(st.binary(max_size=3 * ERROR_BYTES), max_size=5))
def test_only_the_end_of_errors_is_kept(pieces: list[bytes]) -> None:
    errors = ErrorOutput()
    for piece in pieces:
        errors.feed(piece)
    assert len(errors.end) <= SHOWN_CHARACTERS + 1


# Progress


class FakeMessage:
    payload: ClassVar[None] = None


@pytest.mark.parametrize(
    ("said", "told"), [(-1, 0.0), (0.5, 0.5), (100.001, 100.0), (math.inf, 100.0), (math.nan, 0.0), (True, 1.0)]
)
def test_progress_stays_within_its_bounds(said: float, told: float) -> None:
    job = Job(FakeMessage(), None)  # type: ignore[arg-type]
    job.progress(said, "stage")
    assert job.told == (told, "stage")


# Logs


def test_a_log_keeps_the_end(tmp_path: Path) -> None:
    log = SpawnedLog(tmp_path / "new" / "place", "crawler", "main")
    with log.open("one") as file:
        file.write(b"first\n" + b"x" * MOST_BYTES + b"\nlast words \x1b[31m\n")
        log.cut()
        file.write(b"and more\n")
    assert log.path.stat().st_size < KEPT_BYTES + 1000
    assert log.tail("one").endswith("last words \N{REPLACEMENT CHARACTER}[31m\nand more")
    with log.open("two"):
        pass
    assert log.tail("two") == ""
    with log.open("three") as file:
        file.write(b"only this\n")
    assert log.tail("three") == "only this"


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    log = SpawnedLog(tmp_path, "crawler", "main")
    log.cut()
    assert log.tail("one") == ""


@pytest.mark.parametrize("instance", ["../../etc/passwd", ".", "x" * 100, "界" * 100, "a:b"])
def test_a_log_lies_in_its_directory(tmp_path: Path, instance: str) -> None:
    log = SpawnedLog(tmp_path, "crawler", instance)
    assert log.path.parent == tmp_path
    with log.open("one"):
        pass
    assert log.path.is_file()


# Life


def test_a_number_alone_says_nothing() -> None:
    assert not is_running(os.getpid(), "a launch that this process is not of")
    assert not is_running(2**22 + 1, "any")
