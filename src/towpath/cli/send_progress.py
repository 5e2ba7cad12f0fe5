"""How far an upload has come: a bar for each sender on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from towpath.cli.failures import say
from towpath.cli.output import size_text
from towpath.cli.transfer_bar import SAME_WAIT_EVERY_S, TransferBar
from towpath.clock import Clock

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from towpath.client.patience import Waiting
    from towpath.client.sending import Sent


def left_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


class SendProgress(TransferBar):
    """Told by the threads that send."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock, _columns)
        self._lock = threading.Lock()
        self._at: dict[str, tuple[int, int | None]] = {}  # how far of how many bytes
        self._from: dict[str, int] = {}  # what an earlier run had sent
        self._waits: dict[str, tuple[str, float]] = {}

    def on_sent(self, sent: Sent, size: int | None) -> None:
        with self._lock:
            self._from.setdefault(sent.sender, sent.place.position)
            self._at[sent.sender] = (sent.place.position, size)
            self._waits.pop(sent.sender, None)
            if self._bar is not None:
                self._show(sent.sender, "done" if sent.is_finished else "")
            elif self._is_line_due():
                say(self.text())

    def on_wait(self, sender: str) -> Waiting:
        def waiting(why: str, wait_s: float) -> None:
            with self._lock:
                if self._bar is not None:
                    self._show(sender, f"{why}; again in {wait_s:.0f} s")
                elif self._is_news(sender, why):
                    say(f"{sender}: {why}; trying again")

        return waiting

    def text(self) -> str:
        """All senders together: how much, how fast, how long yet."""
        done = sum(at for at, _ in self._at.values())
        rate = (done - sum(self._from.values())) / max(self._clock.monotonic() - self._begun_at, 1e-6)
        if any(size is None for _, size in self._at.values()):
            return f"{size_text(done)} sent, {size_text(rate)}/s"
        total = sum(size or 0 for _, size in self._at.values())
        left = f", {left_text((total - done) / rate)} left" if rate > 0 and done < total else ""
        return f"{size_text(done)} of {size_text(total)} sent, {size_text(rate)}/s{left}"

    def _is_news(self, sender: str, why: str) -> bool:
        said, at = self._waits.get(sender, ("", 0.0))
        if said == why and self._clock.monotonic() - at < SAME_WAIT_EVERY_S:
            return False
        self._waits[sender] = (why, self._clock.monotonic())
        return True

    def _show(self, sender: str, note: str) -> None:
        assert self._bar is not None  # noqa: S101 - for the type checker
        at, size = self._at.get(sender, (0, None))
        if sender not in self._tasks:
            self._tasks[sender] = self._bar.add_task(sender, total=size, completed=at, note=note)
        self._bar.update(self._tasks[sender], completed=at, total=size, note=note)


def _columns() -> Iterable[ProgressColumn]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    return (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
