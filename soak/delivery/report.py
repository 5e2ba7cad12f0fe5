"""What people see: progress while it runs, and the table at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.live import Live
from rich.table import Table

from soak.delivery.blow import HEADINGS, victims
from soak.delivery.drill import Outcome
from soak.delivery.plan import Plan

LINE_EVERY_S = 15.0
LIVE_EVERY_S = 0.5
PROBLEMS_SHOWN = 20


@contextmanager
def watching(console: Console) -> Iterator[Callable[[str], None]]:
    """Shows a line that changes on a terminal, and one now and then elsewhere."""
    began, shown_at = time.monotonic(), 0.0
    with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:

        def watch(progress: str) -> None:
            nonlocal shown_at
            now = time.monotonic()
            if now - shown_at < (LIVE_EVERY_S if live else LINE_EVERY_S):
                return
            shown_at = now
            text = f"{now - began:,.0f} s · {progress}"
            if live:
                live.update(text, refresh=True)
            else:
                console.print(text, soft_wrap=True)

        yield watch


def show(plan: Plan, outcome: Outcome, console: Console) -> None:
    title = f"Kills and deliveries, seed {plan.seed}"
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows(outcome):
        table.add_row(name, value)
    console.print(table)
    console.print(hit(outcome))
    problems = outcome.verdict.problems
    for problem in problems[:PROBLEMS_SHOWN]:
        console.print(f"✗ {problem}", style="red", highlight=False, soft_wrap=True, markup=False)
    if len(problems) > PROBLEMS_SHOWN:
        console.print(f"✗ … and {len(problems) - PROBLEMS_SHOWN:,} more", style="red")
    if not problems:
        console.print("✓ every record is in exactly one place, and the audit agrees", style="green")


def hit(outcome: Outcome) -> Table:
    """Who was hit, and doing what: kills that find nobody at work prove nothing."""
    table = Table(title="What the victims were doing", title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in victims(outcome.reaper.blows):
        table.add_row(*row)
    return table


def rows(outcome: Outcome) -> list[tuple[str, str]]:
    reaper, tries, drivers = outcome.reaper, outcome.tries, outcome.reaper.drivers
    ended = ", ".join(f"{count} with {code}" for code, count in sorted(drivers.ended.items()))
    return [
        ("killed by SIGKILL", f"{reaper.kills:,}"),
        ("drivers that ended by themselves", ended or "none"),
        ("batches / tried again / further attempts", f"{tries.batches:,} / {tries.tried_again:,} / {tries.more:,}"),
        ("records sent", f"{outcome.sent:,}"),
        *((name, f"{count:,}") for name, count in sorted(outcome.verdict.counts.items())),
        ("deviations", f"{len(outcome.verdict.problems):,}"),
        ("duration", f"{outcome.duration_s:,.0f} s"),
    ]
