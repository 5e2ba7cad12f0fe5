"""The parts of launchers that need no process: logs in files, lines, limits."""

from __future__ import annotations

import os
import resource
import threading
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.supervision.launchers import keeper_home as log_writer
from towpath.supervision.launchers import log_reader as lines
from towpath.supervision.launchers.keeper_home import MB, LaunchHome, LogWriter, kernel_limits
from towpath.supervision.launchers.launcher import LaunchState, LaunchStatus
from towpath.supervision.launchers.log_reader import LineSplitter, LogReader

# Short lines, long ones, empty ones, and bytes that are no text.
PIECES = st.lists(
    st.one_of(st.binary(max_size=60), st.sampled_from([b"\n", b"a\n", b"\xff\n", "ü\n".encode(), b"x" * 50])),
    max_size=30,
)
ENDS = {ord(end): None for end in "\r\n"}


def cut(pieces: list[bytes]) -> list[str]:
    reading = LineSplitter()
    return [line for piece in pieces for line in reading.feed(piece)] + list(reading.end())


def over() -> bool:
    return True


@given(PIECES, st.integers(1, 40), st.integers(1, 4), st.integers(0, 20))
def test_files_keep_the_end_of_what_was_written(pieces: list[bytes], file_bytes: int, files: int, tail: int) -> None:
    with TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_writer, "LONGEST_LINE", 8)
        log = Path(home, "log")
        writer = LogWriter(log, file_bytes, files)
        for piece in pieces:
            writer.write(piece)
        writer.close()
        found = [path for path in (log.with_name(f"log.{number}") for number in range(3, 0, -1)) if path.exists()]
        kept = b"".join(path.read_bytes() for path in [*found, *([log] if log.exists() else [])])
        assert b"".join(pieces).endswith(kept)
        assert all(path.stat().st_size <= file_bytes + 8 for path in Path(home).iterdir())
        assert len(list(Path(home).iterdir())) <= files
        shown = cut([kept])
        assert list(LogReader(log, files).lines(None, over)) == shown
        assert list(LogReader(log, files).lines(tail, over)) == (shown[-tail:] if tail else [])


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line), min_size=1, max_size=40))
def test_lines_that_fit_stand_in_one_file(written: list[bytes]) -> None:
    with TemporaryDirectory() as home:
        log = Path(home, "log")
        writer = LogWriter(log, 64, 50)
        for line in written:
            writer.write(line + b"\n")
        writer.close()
        assert all(path.read_bytes().endswith(b"\n") for path in Path(home).iterdir())


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_lines_do_not_depend_on_how_they_come(data: bytes, cuts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lines, "LONGEST_LINE", 50)
        places = [0, *sorted(place for place in cuts if place <= len(data)), len(data)]
        pieces = [data[start:end] for start, end in pairwise(places)]
        told = data.decode(errors="replace").translate(ENDS)
        assert "".join(cut(pieces)).translate(ENDS) == told
        assert max(map(len, cut(pieces)), default=0) <= 50


def test_a_log_is_read_while_it_is_written(tmp_path: Path) -> None:
    """Through more files than are kept at once, by a reader that is never far behind."""
    log, ended, caught_up = tmp_path / "log", threading.Event(), threading.Semaphore(8)
    count = 3_000

    def write() -> None:
        writer = LogWriter(log, 2_000, 4)
        for number in range(count):
            caught_up.acquire(timeout=60) if number % 100 == 0 else None
            writer.write(f"line {number}\n".encode())
        writer.close()
        ended.set()

    thread = threading.Thread(target=write)
    thread.start()
    read = []
    for line in LogReader(log, 4).lines(None, ended.is_set):
        read.append(line)
        if len(read) % 100 == 0:
            caught_up.release()
    thread.join()
    assert read == [f"line {number}" for number in range(count)]


def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    log, asked = tmp_path / "log", iter([False, True])

    def is_over() -> bool:
        log.write_bytes(b"here\n")
        return next(asked)

    assert list(LogReader(log, 3).lines(None, is_over)) == ["here"]
    assert list(LogReader(tmp_path / "none", 3).lines(5, over)) == []


def test_a_log_in_a_place_that_is_gone_loses_only_output(tmp_path: Path) -> None:
    home = tmp_path / "home"
    writer = LogWriter(home / "log", 1_000, 2)
    writer.write(b"lost\n")
    home.mkdir()
    writer.write(b"kept\n")
    told = (home / "log").read_text()
    assert " 5 bytes " in told
    assert told.endswith("\nkept\n")


# Limits


def test_limits_are_in_the_units_of_the_kernel() -> None:
    found = kernel_limits({"memory_mb": 100, "cpu_s": 10, "open_files": 20, "processes": None})
    assert found == [
        (resource.RLIMIT_DATA, (100 * MB, 100 * MB)),
        (resource.RLIMIT_CPU, (10, 15)),
        (resource.RLIMIT_NOFILE, (20, 20)),
    ]


def test_a_limit_above_what_the_user_may_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 4096))
    with pytest.raises(ValueError, match=r"open_files = 5000 .*4096"):
        kernel_limits({"open_files": 5000})
    assert kernel_limits({"cpu_s": 4094}) == [(resource.RLIMIT_CPU, (4094, 4096))]


# What is told


@pytest.mark.parametrize(
    ("looked", "how"),
    [
        (LaunchStatus(LaunchState.RUNNING, pid=1), "runs"),
        (LaunchStatus(LaunchState.UNKNOWN), "is not known here"),
        (LaunchStatus(LaunchState.ENDED, exit_code=3), "ended with exit code 3"),
        (LaunchStatus(LaunchState.ENDED, signal=9), "was ended by signal 9"),
        (LaunchStatus(LaunchState.ENDED, signal=9, reason="no memory"), "was ended by signal 9 (no memory)"),
        (LaunchStatus(LaunchState.ENDED, reason="there is no program 'x'"), "there is no program 'x'"),
        (LaunchStatus(LaunchState.ENDED), "is gone"),
    ],
)
def test_how_it_is_told(looked: LaunchStatus, how: str) -> None:
    assert looked.how == how


def test_the_end_of_a_launch_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    home = LaunchHome(tmp_path)
    assert home.end is None
    home.reserve_end()
    assert home.end is None
    home.write_end({"exit_code": 3})
    home.write_end({"exit_code": 4})
    assert home.end == {"exit_code": 4}
