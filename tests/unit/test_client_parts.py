"""The parts of the client that need no server."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.client.connection import ClientKey, find_key
from towpath.client.protocol import RetryPolicy, RetryTimer
from towpath.client.sender import LEAST_BYTES, ChunkSize
from towpath.client.sources import FileSource, Piece, Spool, read_header, whole_lines
from towpath.client.state import ReceivedQuery, ReceiveState, SendState, StateFile, read_state
from towpath.client.upload import FileInput, UploadPlan
from towpath.errors import BadSettings, BadStateFile, BadValue, SourceChanged
from towpath.testing.clock import wait_until


def test_it_starts_without_the_rest_of_towpath() -> None:
    heavy = ("pydantic", "typer", "rich", "fastapi", "pyspark", "psycopg", "sqlite3", "urllib3", "towpath.settings")
    program = f"import sys, towpath.client; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


# Keys


def test_a_key_comes_from_the_file_before_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_text("tp_of_file\n")
    monkeypatch.setenv("TOWPATH_KEY", "tp_of_variable")
    assert find_key(file).header == "Bearer tp_of_file"
    assert find_key(None).header == "Bearer tp_of_variable"


@pytest.mark.parametrize("text", ["", "two words", "tp_é", "tp_a\nX-Other: b"])
def test_what_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(BadSettings) as refused:
        ClientKey(text)
    assert not text or text not in str(refused.value)


def test_no_key_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOWPATH_KEY", raising=False)
    with pytest.raises(BadSettings, match="--key-file"):
        find_key(None)
    with pytest.raises(BadSettings, match="missing"):
        find_key(tmp_path / "missing")


# Waiting


class Hands:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_waits_double_up_to_the_longest_and_begin_again_after_success() -> None:
    waits: list[float] = []
    patience = RetryTimer(RetryPolicy(0.001, 0.008), on_wait=lambda why, wait_s: waits.append(wait_s), clock=Hands())
    for _ in range(6):
        patience.wait("x")
    patience.worked()
    patience.wait("x")
    highest = [0.001, 0.002, 0.004, 0.008, 0.008, 0.008, 0.001]
    assert all(high / 2 <= wait_s <= high for wait_s, high in zip(waits, highest, strict=True)), waits


# Sizes of chunks


def test_chunks_grow_while_answers_are_quick_and_shrink_when_they_are_not() -> None:
    size = ChunkSize(most_bytes=1 << 20, first_bytes=1 << 18)
    size.answered(1 << 18, 0.1)
    assert size.bytes == 1 << 19
    size.answered(100, 0.1)  # the end of a file
    assert size.bytes == 1 << 19
    size.answered(1 << 19, 0.1)
    size.answered(1 << 20, 0.1)
    assert size.bytes == 1 << 20
    size.answered(1 << 20, 10)
    assert size.bytes == 1 << 19
    for _ in range(20):
        size.halve()
    assert size.bytes == LEAST_BYTES
    size.lower_to(1000)
    assert size.bytes == 1000
    size.halve()
    assert size.bytes == 1000


def test_while_many_send_chunks_come_to_the_share_that_the_server_tells() -> None:
    """Whatever their size was before, however long an answer takes, and also after a cut."""
    early, late = ChunkSize(1 << 23, first_bytes=1 << 23), ChunkSize(1 << 23, first_bytes=1 << 15)
    share = 150_000
    for size in (early, late):
        for _ in range(3):
            size.answered(size.bytes, 4.0, share)
        assert size.bytes == share
    early.halve()
    early.answered(early.bytes, 4.0, share)
    assert early.bytes == share
    early.answered(share, 0.1, 1 << 23)  # the others have gone
    assert early.bytes == 2 * share


def test_a_chunk_holds_a_line_also_where_the_share_does_not() -> None:
    size = ChunkSize(1 << 20, first_bytes=1 << 16)
    size.held_no_line()
    size.held_no_line()
    size.answered(1 << 18, 0.1, 1 << 16)
    assert size.bytes == 1 << 18
    for _ in range(3):
        size.held_no_line()
    assert size.bytes == 1 << 20


# Headers of CSV files


@pytest.mark.parametrize(
    ("text", "columns", "used", "lines"),
    [
        (b"a,b\n1,2\n", ("a", "b"), 4, 1),
        (b"a,b\r\n1,2\r\n", ("a", "b"), 5, 1),
        (b"\xef\xbb\xbfa,b\n1,2\n", ("a", "b"), 7, 1),
        (b'"a\nx",b\n1,2\n', ("a\nx", "b"), 8, 2),
        (b"a,b", ("a", "b"), 3, 1),
    ],
)
def test_headers(text: bytes, columns: tuple[str, ...], used: int, lines: int) -> None:
    found = read_header(io.BytesIO(text).readline, "x.csv")
    assert (found.columns, found.bytes, found.lines) == (columns, used, lines)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "header"),
        (b"a,,c\n", "header"),
        (b"a,b,a\n", "'a'"),
        (b"\xff\xfe\n", "header"),
        (b"a," * 600_000, "header"),
        (b'"' + b"a\n" * 600_000, "header"),
    ],
)
def test_what_is_no_header(text: bytes, says: str) -> None:
    with pytest.raises(BadValue, match=says):
        read_header(io.BytesIO(text).readline, "x.csv")


# Sources


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(1, 50))
def test_a_file_is_read_from_anywhere(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int, most: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-file"
    path.write_bytes(b"header\n" + data)
    at = min(at, len(data))
    with FileSource(path, begin=7) as source:
        piece = source.read(at, most)
        assert piece == Piece(data[at : at + most], at + most >= len(data))
        assert source.crc32(0, at, 0) == zlib.crc32(data[:at])
        assert source.crc32(at, len(data), zlib.crc32(data[:at])) == zlib.crc32(data)
        newline = data.find(b"\n", at)
        assert source.line_end(at) == (newline + 1 if newline >= 0 else len(data))


def test_what_is_written_behind_the_end_later_is_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "grows.jsonl"
    path.write_bytes(b"1\n")
    with FileSource(path) as source:
        path.write_bytes(b"1\n2\n")
        assert source.read(0, 100) == Piece(b"1\n", True)
        path.write_bytes(b"")
        with pytest.raises(SourceChanged):
            source.read(0, 100)


@pytest.mark.parametrize(
    ("piece", "left"),
    [
        (Piece(b"a\nb", False), Piece(b"a\n", False)),
        (Piece(b"a\nb", True), Piece(b"a\nb", True)),
        (Piece(b"ab", False), Piece(b"ab", False)),
        (Piece(b"a\n", False), Piece(b"a\n", False)),
        (Piece(b"", False), Piece(b"", False)),
    ],
)
def test_whole_lines(piece: Piece, left: Piece) -> None:
    assert whole_lines(piece) == left


def test_packed_files_and_those_that_are_none_are_refused(tmp_path: Path) -> None:
    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(BadValue, match="zcat"):
        FileSource(packed)
    with pytest.raises(BadValue, match="missing"):
        FileSource(tmp_path / "missing")
    with pytest.raises(BadValue, match=re.escape(str(tmp_path))):
        FileSource(tmp_path)


# Standard input


class Pipe:
    """A pipe whose writing end the test has."""

    def __init__(self) -> None:
        reading, self._writing = os.pipe()
        self.stream = open(reading, "rb")  # noqa: SIM115 - closed by the test

    def write(self, data: bytes) -> None:
        os.write(self._writing, data)

    def end(self) -> None:
        os.close(self._writing)


def test_standard_input_is_kept_until_it_is_acknowledged() -> None:
    pipe = Pipe()
    spool = Spool(pipe.stream, room_bytes=1000, segment_bytes=4)
    pipe.write(b"one\ntwo\nthr")
    wait_until(lambda: spool.read(0, 100).data, what="something to send")
    assert spool.read(0, 100) == Piece(b"one\ntwo\nthr", False)
    assert spool.size is None
    assert spool.crc32(0, 8, 0) == zlib.crc32(b"one\ntwo\n")
    spool.release(4)
    assert spool.read(4, 4) == Piece(b"two\n", False)
    assert spool.read(8, 100) == Piece(b"", False)  # no line has ended
    assert spool.read(4, 100, least_bytes=8) == Piece(b"", False)  # as much was sent before, and was no line
    pipe.write(b"ee\n")
    pipe.end()
    wait_until(lambda: spool.size == 14, what="the end")
    assert spool.read(8, 100) == Piece(b"three\n", True)
    assert spool.line_end(8) == 14
    spool.close()
    pipe.stream.close()


def test_who_writes_waits_when_the_room_is_used_up() -> None:
    pipe = Pipe()
    spool = Spool(pipe.stream, room_bytes=10, segment_bytes=4)
    pipe.write(b"0123456789\n")
    wait_until(lambda: spool.read(0, 5).data, what="something to send")
    pipe.write(b"later\n")
    assert spool.read(0, 100) == Piece(b"0123456789\n", False)
    spool.release(11)
    assert wait_until(lambda: spool.read(11, 100).data, what="the rest") == b"later\n"
    pipe.end()
    wait_until(lambda: spool.size is not None, what="the end")
    with pytest.raises(SourceChanged):
        spool.read(0, 100)
    spool.close()
    pipe.stream.close()


def test_a_line_longer_than_the_room_is_told() -> None:
    pipe = Pipe()
    spool = Spool(pipe.stream, room_bytes=10)
    pipe.write(b"0123456789abc")
    with pytest.raises(BadValue, match="10 bytes"):
        wait_until(lambda: spool.line_end(0), what="the end of the line")
    spool.close()
    pipe.end()
    pipe.stream.close()


# State files


def test_a_state_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with StateFile(path) as file:
        assert file.read() is None
        file.write({"kind": "send", "n": 1})
        (tmp_path / ".a.json.new").write_text("{half")  # a crash in the middle of writing
        assert read_state(path) == {"version": 1, "kind": "send", "n": 1}
        file.write({"kind": "send", "n": 2})
        assert file.read() == {"version": 1, "kind": "send", "n": 2}


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with StateFile(tmp_path / "a.json"), pytest.raises(BadStateFile, match="in use"), StateFile(tmp_path / "a.json"):
        pass
    with StateFile(tmp_path / "a.json"):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}', "\x00"])
def test_what_is_no_state_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(BadStateFile, match=r"a\.json"):
        read_state(path)


@pytest.mark.parametrize("item", [{}, {"senders": 3}, {"senders": [{}]}])
def test_a_state_of_another_kind(item: dict[str, object]) -> None:
    with pytest.raises(BadStateFile, match="towpath send"):
        SendState.read(item)
    with pytest.raises(BadStateFile, match="towpath receive"):
        ReceiveState.read(item)


def test_states_are_read_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with UploadPlan([FileInput("x", str(tmp_path / "x.csv"))], None, None) as plan:
        state = SendState.new("http://s", "x", "label", plan.senders)
    assert SendState.read(json.loads(json.dumps(state.item()))) == state
    received = ReceiveState("u", "csv", ("q", "r")).after(ReceivedQuery("q", 3, 1, "c", is_complete=True))
    assert ReceiveState.read(json.loads(json.dumps(received.item()))) == received
    with pytest.raises(BadValue):
        received.check("u", "jsonl")


# What is sent


def test_files_are_planned_by_their_names(tmp_path: Path) -> None:
    for name, text in (("a.csv", "x,y\n1,2\n"), ("b.csv", "x,y\n"), ("c.jsonl", "{}\n")):
        (tmp_path / name).write_text(text)
    wanted = [
        FileInput("in", str(tmp_path / "a.csv")),
        FileInput("in", str(tmp_path / "b.csv")),
        FileInput("o", str(tmp_path / "c.jsonl")),
    ]
    with UploadPlan(wanted, None, None) as plan:
        found = [(each.new.sender, each.new.input, each.new.format, each.new.columns) for each in plan.senders]
        assert found == [("in", "in", "csv", ("x", "y")), ("in-2", "in", "csv", ("x", "y")), ("o", "o", "jsonl", None)]
        assert [(each.begin, each.size, each.new.first_line) for each in plan.senders] == [
            (4, 4, 2),
            (4, 0, 2),
            (0, 3, 1),
        ]
        assert plan.sources["in"].read(0, 100) == Piece(b"1,2\n", True)
        assert not plan.has_standard_input


def test_a_csv_file_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n")
    with UploadPlan([FileInput("in", str(tmp_path / "a.csv"))], None, ["x", "y"]) as plan:
        [sender] = plan.senders
        assert (sender.new.columns, sender.begin, sender.size, sender.new.first_line) == (("x", "y"), 0, 4, 1)


def test_a_csv_from_standard_input() -> None:
    pipe = Pipe()
    pipe.write(b"x,y\n1,2\n")
    pipe.end()
    with UploadPlan([FileInput("in", "-")], "csv", None, pipe.stream) as plan:
        [sender] = plan.senders
        assert (sender.new.columns, sender.size, sender.begin) == (("x", "y"), None, 0)
        wait_until(lambda: plan.sources["in"].size == 4, what="all of it")
        assert plan.sources["in"].read(0, 100) == Piece(b"1,2\n", True)
    pipe.stream.close()


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ([FileInput("in", "-")], "--format"),
        ([FileInput("in", "x.parquet")], "x.parquet"),
        ([FileInput("in", "-"), FileInput("o", "-")], "once"),
    ],
)
def test_what_cannot_be_planned(wanted: list[FileInput], says: str) -> None:
    with pytest.raises(BadValue, match=says):
        UploadPlan(wanted, None, None, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n3,4\n", "4"),
        ("a,c\n1,2\n", "columns"),
        ("aa,b\n1,2\n", "columns"),
    ],
)
def test_another_file_than_when_the_upload_began(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    wanted = [FileInput("x", str(path))]
    with UploadPlan(wanted, None, None) as plan:
        state = SendState.new("http://s", "x", "", plan.senders)
        state.check_same("x", plan.senders)
        with pytest.raises(SourceChanged):
            state.check_same("y", plan.senders)
        with pytest.raises(SourceChanged):
            state.check_same("x", [])
    path.write_text(text)
    with UploadPlan(wanted, None, None) as plan, pytest.raises(SourceChanged, match=says):
        state.check_same("x", plan.senders)


def test_standard_input_cannot_be_gone_on_with() -> None:
    pipe = Pipe()
    with UploadPlan([FileInput("x", "-")], "jsonl", None, pipe.stream) as plan:
        state = SendState.new("http://s", "x", "", plan.senders)
        with pytest.raises(SourceChanged):
            state.check_same("x", plan.senders)
        pipe.end()
    pipe.stream.close()


def test_threads_of_standard_input_end() -> None:
    before = set(threading.enumerate())  # some of other tests may be about to end
    pipe = Pipe()
    spool = Spool(pipe.stream)
    spool.close()
    pipe.end()
    wait_until(lambda: before.issuperset(threading.enumerate()), what="the thread has ended")
    pipe.stream.close()
