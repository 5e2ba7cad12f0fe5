"""What `send` and `receive` say while they work, where there is no terminal."""

from __future__ import annotations

import pytest

from towpath.cli.gateway.views import ReceiveProgress, SendProgress, left_text
from towpath.cli.output import counted, size_text
from towpath.client.protocol import SenderPosition
from towpath.client.sender import Sent
from towpath.client.state import ReceivedQuery


class Hands:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def sent(sender: str, position: int) -> Sent:
    return Sent(sender, SenderPosition(position, 1, 1, 0, 0))


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB")]
)
def test_sizes(count: int, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (59, "59s"), (61, "1m01s"), (3600, "1h00m"), (7265, "2h01m")]
)
def test_times_left(seconds: float, text: str) -> None:
    assert left_text(seconds) == text


def test_what_an_earlier_run_has_sent_does_not_count_for_the_rate(capsys: pytest.CaptureFixture[str]) -> None:
    hands = Hands()
    with SendProgress(hands) as progress:
        progress.on_sent(sent("a", 900 << 10), 1000 << 10)
        progress.on_sent(sent("b", 0), 1000 << 10)
        hands.now = 10.0
        progress.on_sent(sent("a", 1000 << 10), 1000 << 10)
    said = capsys.readouterr().err
    assert [part for part in ("1000.0 KiB", "2.0 MiB", "10.0 KiB/s", "1m40s") if part not in said] == []


def test_without_an_end_there_is_no_time_left() -> None:
    hands = Hands()
    progress = SendProgress(hands)
    progress.on_sent(sent("a", 0), None)
    hands.now = 2.0
    progress.on_sent(sent("a", 4096), None)
    assert progress.text().startswith("4.0 KiB ")
    assert progress.text().endswith(" 2.0 KiB/s")


def test_the_same_wait_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    hands = Hands()
    progress = SendProgress(hands)
    waiting = progress.on_wait("a")
    for why in ("no answer in time", "no answer in time", "the log is away"):
        waiting(why, 1.0)
    hands.now = 31.0
    waiting("the log is away", 1.0)
    first, *later = capsys.readouterr().err.splitlines()
    assert first.startswith("a: no answer in time")
    assert [line.startswith("a: the log is away") for line in later] == [True, True]


def test_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert (counted(1, "row"), counted(1000, "row")) == ("1 row", "1,000 rows")
    hands = Hands()
    progress = ReceiveProgress(hands)
    progress.on_received(ReceivedQuery("stops", 10, 1))
    hands.now = 6.0
    progress.on_received(ReceivedQuery("fares", 10, 2))
    progress.on_wait("no answer in time", 1.0)
    progress.on_wait("no answer in time", 1.0)
    rows, waiting = capsys.readouterr().err.splitlines()
    assert "stops: 1 " in rows
    assert "fares: 2 " in rows
    assert "no answer in time" in waiting
