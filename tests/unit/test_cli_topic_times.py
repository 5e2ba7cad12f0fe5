"""Times and ages as people type them."""

from __future__ import annotations

import pytest

from towpath.cli.context import UsageError
from towpath.cli.options import age_text, parse_age_s, parse_time_ms, shown_time

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("1.5h", 5400), ("7d", 604_800), ("never", "never")]
)
def test_ages(text: str, seconds: float | str) -> None:
    assert parse_age_s(text, "--retention") == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "0s", "1w", "inf", "nan", "1e3s", "7 d", "٧d"])
def test_what_is_no_age(text: str) -> None:
    with pytest.raises(UsageError, match="--retention"):
        parse_age_s(text, "--retention")


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("15m", NOW_MS - 900_000),
        ("99999999d", 0),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14T22:13:20.5", NOW_MS + 500),
        ("2023-11-15T00:13:20+02:00", NOW_MS),
        ("2023-11-14", 1_699_920_000_000),
        ("0001-01-01", 0),
    ],
)
def test_times(text: str, time_ms: int) -> None:
    assert parse_time_ms(text, "--since", NOW_MS) == time_ms


@pytest.mark.parametrize("text", ["", "yesterday", "10:00", "2023-13-01", "-5", "1.5"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="--since"):
        parse_time_ms(text, "--since", NOW_MS)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "never"), (604_800, "7d"), (5400, "90m"), (36_000, "10h"), (90, "90s"), (0.25, "0.25s")],
)
def test_ages_as_they_would_be_typed(seconds: float | None, text: str) -> None:
    assert age_text(seconds) == text


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [(NOW_MS + 7, "2023-11-14 22:13:20.007"), (-1, "1969-12-31 23:59:59.999"), (2**60, str(2**60))],
)
def test_times_of_records(time_ms: int, text: str) -> None:
    assert shown_time(time_ms) == text
