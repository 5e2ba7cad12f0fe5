"""A plan from start to verdict."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from rich.console import Console

from soak.delivery.drill import Drill
from soak.delivery.plan import Plan
from soak.delivery.report import show, watching
from soak.delivery.verdict import Verdict
from towpath.testing.quick_java import quicken_spark


def soak(plan: Plan, console: Console) -> Verdict:
    """Run it and show it. The logs of the drivers, and all deviations, are kept when it does not hold."""
    quicken_spark()  # two hundred kills are many starts
    home = Path(tempfile.mkdtemp(prefix="towpath-chaos-"))
    holds = False
    try:
        with watching(console) as watch:
            outcome = Drill(plan, home, watch).run()
        show(plan, outcome, console)
        holds = outcome.verdict.holds
        (home / "deviations.txt").write_text("\n".join(outcome.verdict.problems), encoding="utf-8")
        return outcome.verdict
    finally:
        if holds:
            shutil.rmtree(home, ignore_errors=True)
        else:
            console.print(f"logs and checkpoints: {home}", soft_wrap=True)
