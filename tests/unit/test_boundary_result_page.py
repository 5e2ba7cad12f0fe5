"""Pages over the files of a result: however they are cut, each row comes once, in the order of the files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from towpath.errors import BadCursor
from towpath.gateway.outlet.page import START, Cursor, place_of, read_rows
from towpath.gateway.outlet.store import ResultFile, count_lines, files_in, lines_name, stage_directory

LINES = st.lists(st.binary(max_size=12).map(lambda each: each.replace(b"\n", b"") + b"\n"), min_size=1, max_size=8)


def written(directory: Path, contents: list[list[bytes]]) -> list[ResultFile]:
    directory.mkdir(parents=True, exist_ok=True)
    for number, lines in enumerate(contents):
        name = lines_name(1 + number // 3, number, "result stops", f"unit {number % 2}")
        (directory / name).write_bytes(b"".join(lines))
    return files_in(directory)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(LINES, max_size=5), most_rows=st.integers(1, 9), most_bytes=st.integers(1, 40))
def test_pages_of_any_size_give_everything_once(
    tmp_path_factory: pytest.TempPathFactory, contents: list[list[bytes]], most_rows: int, most_bytes: int
) -> None:
    files = written(tmp_path_factory.mktemp("pages") / "s", contents)
    expected = [line for lines in contents for line in lines]
    at, found, ends = START, b"", []
    for _ in range(len(expected) + 1):
        rows = read_rows(files, at, "", most_rows, most_bytes, is_complete=True)
        assert rows.rows <= most_rows
        assert rows.rows == rows.lines.count(b"\n")
        assert rows.rows > 0 or rows.is_end, "a page has a row if there is one"
        found, at = found + rows.lines, rows.at
        assert at.row == found.count(b"\n")
        ends.append(rows.is_end)
        if rows.is_end:
            break
    assert found == b"".join(expected)
    assert ends[-1]
    again = read_rows(files, at, "", most_rows, most_bytes, is_complete=True)
    assert (again.rows, again.at, again.is_end) == (0, at, True)


def test_what_comes_later_stands_behind(tmp_path: Path) -> None:
    files = written(tmp_path / "s", [[b"1\n", b"2\n"]])
    first = read_rows(files, START, "", 10, 100, is_complete=False)
    assert (first.lines, first.is_end) == (b"1\n2\n", False)
    more = written(tmp_path / "s", [[b"1\n", b"2\n"], [b"3\n"]])
    assert read_rows(more, first.at, "", 10, 100, is_complete=True) == (b"3\n", 1, at_end(more, 2, 3), True)


def at_end(files: list[ResultFile], byte: int, row: int) -> Cursor:
    last = files[-1]
    return Cursor(*last.place, last.key, byte, row)


def test_a_made_up_byte_is_refused(tmp_path: Path) -> None:
    files = written(tmp_path / "s", [[b"12\n", b"34\n"]])
    assert place_of(files, at_end(files, 3, 1), "c").byte == 3
    for byte in (0, 1, 99):
        with pytest.raises(BadCursor):
            place_of(files, at_end(files, byte, 1), "c")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCursor):
        read_rows([], Cursor(0, 1, 2, "0" * 16, 3, 4), "c", 1, 1, is_complete=True)


def test_only_whole_files_are_seen_in_the_order_of_their_batches(tmp_path: Path) -> None:
    names = [lines_name(generation, batch, "o", "u/1") for generation, batch in ((2, 0), (1, 10), (1, 9), (10, 1))]
    for name in (*names, f".{names[0]}.abc.tmp", "_SUCCESS", "other.jsonl"):
        (tmp_path / name).write_bytes(b"1\n")
    found = [(file.generation, file.batch) for file in files_in(tmp_path)]
    assert found == [(1, 9), (1, 10), (2, 0), (10, 1)]
    assert count_lines(tmp_path / names[0]) == 1
    assert files_in(tmp_path / "nothing") == []


def test_names_of_stages_and_units_may_be_anything() -> None:
    long = "ä/..+" * 200
    assert len(stage_directory(long)) < 200
    assert "/" not in stage_directory(long)
    assert len(lines_name(1, 1, long, long)) < 200
    assert stage_directory("a+b") != stage_directory("a_b")
    assert lines_name(1, 1, "a", "b+c") != lines_name(1, 1, "a", "b_c")
