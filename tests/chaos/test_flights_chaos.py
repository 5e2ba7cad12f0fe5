"""Flights under kills, short: every kind of process once, while three clients send and receive."""

from __future__ import annotations

import random

import pytest
from rich.console import Console
from soak.flights.plan import Plan, Target
from soak.flights.run import EMBEDDED, SERVERS, soak

KILLS = len(Target)
ROWS = 2_000


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("ground", [EMBEDDED, SERVERS])
def test_all_answers_equal_the_oracles(ground: str) -> None:
    """What is printed is shown by pytest when this fails, with the seed."""
    plan = Plan(KILLS, seed=random.randrange(10**6), rows=ROWS, pause_s=2.0)
    assert soak(plan, Console(width=120), ground).verdict.problems == []
