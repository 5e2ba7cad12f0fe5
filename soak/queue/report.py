"""What people see: progress while it runs, and the table at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from soak.queue.drill import Progress, Watch
from soak.queue.plan import PRODUCERS, Plan, handled_journal, sent_journal
from soak.queue.verdict import Verdict

LINE_EVERY_S = 10.0
LIVE_EVERY_S = 0.5
PROBLEMS_SHOWN = 20


class Lines:
    """Counts the lines of growing files without reading them again from the start."""

    def __init__(self, paths: list[Path], word: bytes) -> None:
        self._read = dict.fromkeys(paths, 0)
        self._word = word
        self.count = 0

    def look(self) -> int:
        for path, at in self._read.items():
            if path.exists():
                with path.open("rb") as file:
                    file.seek(at)
                    whole = file.read().rpartition(b"\n")[0]
                self._read[path] = at + len(whole)
                self.count += whole.count(self._word)
        return self.count


@contextmanager
def watching(plan: Plan, home: Path, console: Console) -> Iterator[Watch]:
    """Shows a live table on a terminal, and a line now and then elsewhere."""
    sent = Lines([sent_journal(home, slot) for slot in range(PRODUCERS)], b'"sent"')
    handled = Lines([handled_journal(home, slot) for slot in range(plan.workers)], b'"id"')
    shown_at = 0.0

    def text(progress: Progress) -> str:
        faults = f" · {progress.faults[-1]}" if progress.faults else ""
        return (
            f"{plan.name} · {progress.phase} · {progress.passed_s:.0f}/{plan.seconds:.0f} s · "
            f"sent {sent.look():,} · handled {handled.look():,} · kills {progress.kills}{faults}"
        )

    with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:

        def watch(progress: Progress) -> None:
            nonlocal shown_at
            if time.monotonic() - shown_at < (LIVE_EVERY_S if live else LINE_EVERY_S):
                return
            shown_at = time.monotonic()
            if live:
                live.update(text(progress), refresh=True)
            else:
                console.print(text(progress), soft_wrap=True)

        yield watch


def show(plan: Plan, verdict: Verdict, console: Console) -> None:
    table = Table(title=f"Soak of the queue on {plan.name}, seed {plan.seed}", show_header=False, title_justify="left")
    for name, value in verdict.rows:
        table.add_row(name, value)
    console.print(table)
    for problem in verdict.problems[:PROBLEMS_SHOWN]:
        console.print(f"✗ {problem}", style="red", highlight=False, soft_wrap=True)
    if len(verdict.problems) > PROBLEMS_SHOWN:
        console.print(f"✗ … and {len(verdict.problems) - PROBLEMS_SHOWN:,} more", style="red")
    if verdict.holds:
        console.print("✓ every message came to its end once, and whatever was done twice is explained", style="green")
