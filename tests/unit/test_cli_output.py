"""What commands show: exact JSON, tables that fit, and nothing that a terminal would obey."""

from __future__ import annotations

import json
import os
import pty
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cli import on_terminal

from towpath.cli.output import Column, age, can_redraw, plain, pretty, print_table, short_time, time_and_age
from towpath.core.exact_json import Exact, read_exactly, to_json

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES, st.sampled_from(["", "  "]))
def test_json_says_what_the_value_is(value: object, indent: str) -> None:
    assert json.loads(to_json(value, indent)) == value


@pytest.mark.parametrize("number", ["1.10", "1e400", "123456789012345678901234567890", "-0.0", "9" * 5000])
def test_numbers_are_shown_as_they_are_written(number: str) -> None:
    assert to_json(read_exactly(f'{{"n": [{number}]}}')) == f'{{"n": [{number}]}}'


def test_exact_text_goes_in_unchanged() -> None:
    assert to_json({"payload": Exact('{"a":1.50}')}) == '{"payload": {"a":1.50}}'


@pytest.mark.parametrize(
    ("kind", "can"), [("xterm-256color", True), ("dumb", False), ("Dumb", False), ("unknown", False), ("", True)]
)
def test_only_a_terminal_that_is_not_dumb_draws_lines_again(
    kind: str, can: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", kind)
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "w") as terminal:
        assert can_redraw(terminal) is can


def test_nothing_is_drawn_again_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out, into = os.pipe()
    with os.fdopen(out, "rb"), os.fdopen(into, "w") as pipe:
        assert not can_redraw(pipe)


def test_times_are_iso() -> None:
    assert to_json([NOW]) == '["2026-03-01T12:00:00+00:00"]'


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\nb", "\x9b31m", "\u202egnp.exe", "a\rb", "\x7f"])
def test_nothing_reaches_the_terminal_that_it_would_obey(text: str) -> None:
    assert plain(text).isprintable()
    assert plain("žluť 漢字 ok") == "žluť 漢字 ok"


def test_pretty_json_is_safe_too() -> None:
    assert pretty({"a": "\x9b31m"}) == '{\n  "a": "\\x9b31m"\n}'


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86400 * 3, "3d"), (-90, "+1m"), (-0.5, "0s")],
)
def test_ages(seconds: float, shown: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == shown


def test_times_are_as_short_as_they_can_be() -> None:
    assert short_time(NOW - timedelta(hours=1), NOW) == "11:00:00"
    assert short_time(NOW - timedelta(days=1), NOW) == "02-28 12:00"
    assert short_time(NOW - timedelta(days=400), NOW) == "2025-01-25"
    assert time_and_age(NOW - timedelta(hours=1), NOW) == "2026-03-01 11:00:00 UTC (1h ago)"
    assert time_and_age(NOW + timedelta(hours=1), NOW) == "2026-03-01 13:00:00 UTC (in 1h)"
    assert time_and_age(None, NOW) is None


COLUMNS = [Column("id", whole=True), Column("name"), Column("n", right=True), Column("more", from_width=100)]
ROWS: list[list[object]] = [["i" * 36, "x" * 60, 7, "m"], ["j", None, 1234, None]]


@pytest.mark.parametrize("width", [50, 80, 140])
def test_a_table_fits_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_terminal(monkeypatch, width)
    print_table(COLUMNS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3, "a row is one line"
    assert max(map(len, lines)) <= width
    assert ("more" in lines[0]) == (width >= 100)
    assert "i" * 36 in lines[1], "an id is never cut"
    assert ("…" in lines[1]) == (width < 140), "what is cut says so"


def test_a_table_in_a_pipe_is_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_table(COLUMNS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"{'i' * 36}  {'x' * 60}     7  m"
    assert lines[2] == f"{'j':<36}  {'':<60}  1234"


def test_a_table_of_nothing_has_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([Column("id"), Column("state")], [])
    assert capsys.readouterr().out == "id  state\n"


def test_markup_in_a_cell_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([Column("why")], [["[bold]x[/bold] :smile: 12"]])
    assert "[bold]x[/bold] :smile: 12" in capsys.readouterr().out
