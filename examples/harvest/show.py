"""What people see of a harvest on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

from examples.harvest.home import Home
from examples.harvest.search import Hit, counts_by_site
from examples.harvest.workflow import MAY_START, PARTS, PEOPLE

from towpath.actors.spawner.store import spawned_of
from towpath.catalog import DataSet
from towpath.queue.model import Message
from towpath.queue.states import TERMINAL
from towpath.runtime import Runtime

LOOK_S = 0.3
CLEAR = "\r\x1b[K"


def say(text: str = "") -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def follow(runtime: Runtime, run_id: str) -> Message:
    """Show how far a run is until it has ended, or was refused; returns its start, which says how."""
    shown, is_terminal = "", sys.stdout.isatty()
    while True:
        found = runtime.queue.browser().message(run_id)
        if found.state in TERMINAL:
            if is_terminal:
                sys.stdout.write(CLEAR)
            return found
        now = _how_far(runtime)
        if now != shown and is_terminal:
            sys.stdout.write(CLEAR + now[:100])
            sys.stdout.flush()
        elif now.split(":")[0] != shown.split(":")[0]:
            say(f"  {now}")
        shown = now
        time.sleep(LOOK_S)


def _how_far(runtime: Runtime) -> str:
    asked = questions(runtime)
    if asked:
        return f"waits for a person: may {asked[0][1]} start? python -m examples.harvest answer yes (or no)"
    for part, spawner in PARTS.items():
        spawned = spawned_of(runtime.database, spawner.name)
        if spawned is not None and spawned.message_id is not None:
            attempt = f", attempt {spawned.attempt}" if spawned.attempt > 1 else ""
            return f"{part}{attempt}: {spawned.percent or 0:3.0f} % {spawned.stage or ''}"
    return "…"


def questions(runtime: Runtime) -> list[tuple[str, str]]:
    """Id and part of the questions that wait for a person."""
    waiting = runtime.queue.inbox(PEOPLE).eavesdrop(10)
    return [(message.id, message.payload["part"]) for message in waiting if message.function == MAY_START]


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as they have to be; numbers to the right."""
    cells = [list(heads), *([f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(heads))]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if cell.replace(",", "").isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def documents(home: Home) -> str:
    """How many documents there are, by site."""
    found = counts_by_site(home.search_file)
    total = ("all", sum(row[1] for row in found), sum(row[2] for row in found))
    return table(("site", "documents", "words"), [*found, total])


def data_sets(found: Iterable[DataSet]) -> str:
    """The newest last, as a terminal is read."""
    rows = [
        (
            each.id,
            each.kind,
            each.subject if len(each.subject) < 30 else f"{each.subject[:27]}…",
            each.state,
            "" if each.records is None else each.records,
            "" if each.bytes is None else each.bytes,
            each.begun_at.strftime("%H:%M:%S"),
            ", ".join(f"{count} {name}" for name, count in each.facts.items()),
        )
        for each in found
    ][::-1]
    return table(("id", "kind", "of", "state", "records", "bytes", "begun", "facts"), rows)


def hits(found: Sequence[Hit]) -> str:
    if not found:
        return "nothing was found"
    return "\n".join(f"{hit.title}\n  {hit.url}\n  {hit.excerpt}" for hit in found)
