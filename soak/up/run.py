"""A plan from start to verdict."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from soak.up.drill import Drill, Watch
from soak.up.plan import Plan
from soak.up.verdict import Verdict
from towpath.testing.servers import postgres_server

LINE_EVERY_S = 10.0


def soak(plan: Plan, console: Console, database: str = "sqlite") -> Verdict:
    """Run it and show it. The directory, with all logs, is kept when it does not hold."""
    home = Path(tempfile.mkdtemp(prefix="towpath-chaos-"))
    with ExitStack() as stack:
        url = stack.enter_context(postgres_server()).url if database == "postgres" else ""
        verdict = Drill(plan, home, watching(console), url).run()
    show(plan, verdict, console)
    if verdict.holds:
        shutil.rmtree(home)
    else:
        console.print(f"settings, databases and logs: {home}", soft_wrap=True)
    return verdict


def watching(console: Console) -> Watch:
    """A line when something else begins, and now and then."""
    said_at, said = 0.0, ""

    def watch(text: str) -> None:
        nonlocal said_at, said
        begins = text.partition(":")[0].partition("/")[0].rstrip("0123456789")
        if begins != said or time.monotonic() - said_at > LINE_EVERY_S:
            said_at, said = time.monotonic(), begins
            console.print(text, soft_wrap=True, highlight=False)

    return watch


def show(plan: Plan, verdict: Verdict, console: Console) -> None:
    table = Table(title=f"Everything under kills, seed {plan.seed}", show_header=False, title_justify="left")
    for name, value in verdict.rows.items():
        table.add_row(name, value)
    console.print(table)
    for problem in verdict.problems:
        console.print(f"✗ {problem}", style="red", highlight=False, soft_wrap=True)
    if verdict.holds:
        console.print("✓ everything is up, and every record and every run is in its one place", style="green")
