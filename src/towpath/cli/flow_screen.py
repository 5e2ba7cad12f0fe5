"""What a running flow shows while it runs, on standard error: a picture on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TextIO

from towpath.cli.flow_view import Shown, picture
from towpath.cli.flow_words import moved_text, trouble_of
from towpath.cli.output import can_redraw, plain
from towpath.events import Event, EventKind
from towpath.flow.look import state_word

if TYPE_CHECKING:
    from rich.console import RenderableType

STATUS_EVERY_S = 10.0
DRAW_EVERY_S = 0.25
KEPT = (EventKind.FLOW_CHANGED, EventKind.FLOW_GAP_FOUND)


class Screen(Protocol):
    """Where a run shows itself."""

    def phase(self, text: str, seconds: float) -> None:
        """What is being done before the flow runs, and for how long by now."""

    def say(self, text: str) -> None:
        """One line that stays; from any thread."""

    def note(self, text: str) -> None:
        """What the person should know from now on."""

    def on_event(self, event: Event) -> None:
        """A subscriber of the process's events, called from any thread."""

    def stages(self, stages: Sequence[Shown], now: int) -> None:
        """How the stages are; called often."""

    def close(self) -> None:
        """The picture goes; lines stay."""


def open_screen(title: str) -> Screen:
    return Picture(title) if can_redraw(sys.stderr) else Lines()


def _own_way() -> TextIO:
    """Spark's Java gets the standard error of this process; the screen keeps a way of its own to where that led."""
    return os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")


def told(event: Event) -> str:
    """A line about an event of a flow, or nothing."""
    match event.kind:
        case EventKind.FLOW_MOVED:
            return moved_text(event)
        case EventKind.FLOW_CHANGED:
            return f"{event.subject} is not as in its last run: {'; '.join(event.data['changes'])}"
        case EventKind.FLOW_GAP_FOUND:
            where = "{topic}/{partition} from {from} to before {to}".format_map(event.data)
            return f"{event.subject}: {where} will never be read: {event.why}"
    return ""


class Lines:
    """One line at every unusual move, and the state of each stage every ten seconds."""

    def __init__(self) -> None:
        self._stream = _own_way()
        self._lock = threading.Lock()
        self._phase = ""
        self._status_at = time.monotonic()

    def phase(self, text: str, seconds: float) -> None:
        if text != self._phase:
            self._phase = text
            self.say(f"{text} …")

    def say(self, text: str) -> None:
        with self._lock:
            self._stream.write(f"{datetime.now(UTC):%H:%M:%S} {plain(text)}\n")
            self._stream.flush()

    def note(self, text: str) -> None:
        self.say(text)
        self._status_at = time.monotonic()

    def on_event(self, event: Event) -> None:
        if text := told(event):
            self.say(text)

    def stages(self, stages: Sequence[Shown], now: int) -> None:
        if time.monotonic() - self._status_at < STATUS_EVERY_S:
            return
        self._status_at = time.monotonic()
        for stage in stages:
            counts = ", ".join(f"{count:,} {name}" for name, count in stage.counts.items())
            lag, rate = stage.sample.get("lag", "-"), stage.sample.get("rate", 0.0)
            trouble = trouble_of(stage.pilot, now)
            self.say(
                f"{stage.name}: {state_word(stage.pilot, stage.sample)}, {counts}, lag {lag}, {rate:,.1f}/s"
                + (f"; {trouble}" if trouble else "")
            )

    def close(self) -> None:
        self._stream.close()


class Picture:
    """One picture that moves, with the few lines that are worth keeping above it."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self._stream = _own_way()
        self._console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._title = title
        self._note = ""
        self._drawn_at = 0.0
        self._live.start()

    def phase(self, text: str, seconds: float) -> None:
        from rich.text import Text

        self._draw(Text(f"{self._title}: {text} … {seconds:.0f} s"))

    def say(self, text: str) -> None:
        self._console.print(plain(text), soft_wrap=True)

    def note(self, text: str) -> None:
        self._note = plain(text)

    def on_event(self, event: Event) -> None:
        if event.kind in KEPT:
            self._console.print(plain(told(event)), style="yellow", soft_wrap=True)

    def stages(self, stages: Sequence[Shown], now: int) -> None:
        from rich.console import Group
        from rich.text import Text

        head = Text.assemble((self._title, "bold"), ("  " + self._note, "dim"), no_wrap=True, overflow="ellipsis")
        self._draw(Group(head, "", picture(stages, now, self._console.height)))

    def close(self) -> None:
        self._live.stop()
        self._stream.close()

    def _draw(self, drawn: RenderableType) -> None:
        if time.monotonic() - self._drawn_at >= DRAW_EVERY_S:
            self._drawn_at = time.monotonic()
            self._live.update(drawn, refresh=True)
