"""A plan from start to verdict."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from rich.console import Console

from soak.queue.drill import Drill
from soak.queue.plan import Plan
from soak.queue.report import show, watching
from soak.queue.stores import open_store
from soak.queue.verdict import Verdict, judge


def soak(plan: Plan, console: Console) -> Verdict:
    """Run it and show it. The journals and logs are kept when it does not hold."""
    home = Path(tempfile.mkdtemp(prefix="towpath-soak-"))
    with open_store(plan.database, home) as store, watching(plan, home, console) as watch:
        outcome = Drill(plan, store, home, watch).run()
        verdict = judge(plan, home, outcome)
    show(plan, verdict, console)
    if verdict.holds:
        shutil.rmtree(home)
    else:
        console.print(f"journals and logs: {home}", soft_wrap=True)
    return verdict
