"""Bytes to lines: whole ones, the same however they are cut; what is done with a chunk, by its numbers; and turns."""

from __future__ import annotations

import csv
import gzip
import io
import threading
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import BadChunk, BadValue, ChunkGap, ChunkTooLarge
from towpath.gateway.lines.lines import LARGEST, BytePosition, Format, LineCut, cut_lines, known_bytes, unzipped
from towpath.gateway.sender_run import FairGate
from towpath.testing.clock import wait_until

MOST = 12


def cut(data: bytes, format: Format = "csv", most: int = MOST, *, is_last: bool = False) -> LineCut:
    return cut_lines(data, format, most, is_last=is_last)


@pytest.mark.parametrize(
    ("data", "lines", "used"),
    [
        (b"", [], 0),
        (b"a", [], 0),
        (b"a\n", [b"a"], 2),
        (b"a\nb", [b"a"], 2),
        (b"a\r\n\nb\n", [b"a\r", b"", b"b"], 6),
        (b'"a\nb",c\nd', [b'"a\nb",c'], 8),
        (b'"a""b"\n', [b'"a""b"'], 7),
        (b'a"b\n', [b'a"b'], 4),  # a quote inside a field is a character
        (b'x\n"a', [b"x"], 2),
        (b'"a""', [], 0),  # the second quote may be followed by a third
    ],
)
def test_whole_lines_are_taken(data: bytes, lines: list[bytes], used: int) -> None:
    assert cut(data) == LineCut(lines, used)


def test_json_knows_no_quotes_of_csv() -> None:
    assert cut(b'"a\nb"\n', "jsonl").lines == [b'"a', b'b"']


@pytest.mark.parametrize("data", [b"a\nb", b'"a\nb"', b'x,"a'])
def test_the_last_one_needs_no_end(data: bytes) -> None:
    assert cut(data, is_last=True).used == len(data)


def test_a_line_that_is_too_long_is_told_when_its_end_is_not_there() -> None:
    assert cut(b"a\n" + b"x" * MOST) == LineCut([b"a"], 2)
    assert cut(b"a\n" + b"x" * (MOST + 1)) == LineCut([b"a"], 2, is_too_long=True)
    assert cut(b"x" * 99 + b"\nb\n").lines == [b"x" * 99, b"b"]
    assert cut(b'"' + b"x" * (MOST + 1)).is_too_long


def test_a_quote_that_does_not_close_takes_its_own_line_only() -> None:
    data = b'"a\n' + b"bbbb\n" * 5
    assert cut(data).lines == [b'"a', *[b"bbbb"] * 5]
    assert cut(data[:MOST]).lines == []  # it may close yet
    assert cut(b'"a\nb\n', is_last=True).lines == [b'"a', b"b"]


@given(st.lists(st.lists(st.text(alphabet='ab,"\n', max_size=4), min_size=2, max_size=3), max_size=6))
def test_what_a_csv_writer_writes_is_cut_as_it_was_written(rows: list[list[str]]) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\n").writerows(rows)
    data = written.getvalue().encode()
    lines = cut(data, most=1_000).lines
    assert [next(csv.reader([line.decode()], strict=True)) for line in lines] == rows


PIECES = st.lists(st.integers(1, 40), max_size=60)


@given(st.text(alphabet='a",\n\r', max_size=80), PIECES, st.sampled_from(["csv", "jsonl"]))
def test_lines_do_not_depend_on_where_chunks_were_cut(text: str, pieces: list[int], format: Format) -> None:
    """As a client sends: from what was acknowledged, more when nothing was taken, and in the end all of the rest."""
    data = text.encode()
    whole = cut(data, format, is_last=True)
    found: list[bytes] = []
    at, room = 0, 0
    for piece in pieces:
        room += piece
        is_last = at + room >= len(data)
        part = cut(data[at : at + room], format, is_last=is_last)
        found += part.lines
        at += part.used
        room = 0 if part.used else room
        if part.is_too_long and not part.used:
            break
    rest = cut(data[at:], format, is_last=True)
    assert found + rest.lines == whole.lines


# Chunks by their numbers


@pytest.mark.parametrize(
    ("offset", "sequence", "length", "known"),
    [
        (100, 8, 50, 0),
        (60, 8, 50, 40),  # an overlap is cut
        (50, 8, 50, None),  # all of it is known
        (0, 9, 100, None),
        (100, 7, 50, None),  # the number was taken before
        (500, 3, 50, None),
        (100, 8, 0, None),
    ],
)
def test_a_chunk_is_taken_cut_or_known(offset: int, sequence: int, length: int, known: int | None) -> None:
    assert known_bytes(BytePosition(100, 7), BytePosition(offset, sequence), length) == known


def test_a_gap_is_refused_with_the_place_to_go_on_from() -> None:
    with pytest.raises(ChunkGap) as told:
        known_bytes(BytePosition(100, 7), BytePosition(101, 8), 50)
    assert told.value.position == 100


@pytest.mark.parametrize("wrong", [-1, LARGEST + 1, True, "1", 1.0, None])
def test_numbers_are_numbers(wrong: object) -> None:
    with pytest.raises(BadValue):
        BytePosition(wrong, 1)  # type: ignore[arg-type]
    with pytest.raises(BadValue):
        BytePosition(0, wrong)  # type: ignore[arg-type]


# Compressed ones


def test_a_chunk_is_unzipped_as_it_was() -> None:
    data = b"line\n" * 1000
    assert unzipped(gzip.compress(data), len(data)) == data


@pytest.mark.parametrize(
    "data",
    [b"", b"plain", gzip.compress(b"x" * 99)[:-4], gzip.compress(b"a") * 2, zlib.compress(b"a")],
    ids=["empty", "plain", "cut off", "two members", "zlib"],
)
def test_what_is_no_whole_gzip_is_refused(data: bytes) -> None:
    with pytest.raises(BadChunk):
        unzipped(data, 1000)


def test_a_bomb_is_cut_off() -> None:
    with pytest.raises(ChunkTooLarge) as caught:
        unzipped(gzip.compress(bytes(50 << 20)), 1024)
    assert caught.value.limit == 1024


# Turns


def test_turns_are_taken_in_the_order_of_arrival() -> None:
    gate, order, threads = FairGate(1), list[int](), list[threading.Thread]()

    def come(number: int) -> None:
        with gate.turn():
            order.append(number)

    with gate.turn():
        for number in range(8):
            threads.append(threading.Thread(target=come, args=(number,)))
            threads[-1].start()
            wait_until(lambda: len(gate._waiting) == len(threads), 10, "it waits")
        assert order == []
    for thread in threads:
        thread.join(10)
    assert order == list(range(8))


def test_a_turn_that_fails_is_passed_on() -> None:
    gate = FairGate(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), gate.turn():
            _ = 1 / 0
