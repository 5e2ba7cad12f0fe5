"""A plan from start to verdict."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from soak.flights.drill import Drill, Outcome
from soak.flights.plan import Plan
from soak.up.run import watching
from towpath.testing.servers import kafka_server, postgres_server

EMBEDDED, SERVERS = "embedded", "servers"


def soak(plan: Plan, console: Console, ground: str = EMBEDDED) -> Outcome:
    """Run it and show it. The directory, with all logs, is kept when it does not hold."""
    console.print(f"seed {plan.seed}, {ground}", highlight=False)
    home = Path(tempfile.mkdtemp(prefix="towpath-chaos-"))
    holds = False
    try:
        with ExitStack() as stack:
            elsewhere = {}
            if ground == SERVERS:
                bootstrap = stack.enter_context(kafka_server()).bootstrap
                url = stack.enter_context(postgres_server()).url
                elsewhere = {"database": url, "log": f"kafka://{bootstrap}"}
            outcome = Drill(plan, home, watching(console), **elsewhere).run()
        show(plan, outcome, console)
        holds = outcome.verdict.holds
        return outcome
    finally:
        if holds:
            shutil.rmtree(home, ignore_errors=True)
        else:
            console.print(f"settings, databases and logs: {home}", soft_wrap=True)


def show(plan: Plan, outcome: Outcome, console: Console) -> None:
    table = Table(title=f"Flights under kills, seed {plan.seed}", title_justify="left")
    for heading in ("client", "query", "expected", "received"):
        table.add_column(heading)
    for client, query, expected, received in outcome.verdict.rows:
        table.add_row(client, query, f"{expected:,}", f"{received:,}")
    console.print(table)
    killed = ", ".join(f"{count} × {target}" for target, count in sorted(outcome.killer.hit.items()))
    console.print(f"{outcome.killer.hit.total()} killed in {outcome.took_s:.0f} s: {killed}", highlight=False)
    for problem in outcome.verdict.problems:
        console.print(f"✗ {problem}", style="red", highlight=False, soft_wrap=True)
    if outcome.verdict.holds:
        console.print("✓ all answers equal the oracle's, and every line is in one place", style="green")
