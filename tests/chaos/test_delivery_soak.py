"""The chaos of deliveries, short: every kind of kill once or twice, and a driver that sleeps."""

from __future__ import annotations

import random

import pytest
from rich.console import Console
from soak.delivery.plan import Plan
from soak.delivery.run import soak

KILLS = 20  # the least with a sleeper among them
SECONDS = 60


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_record_is_in_one_place() -> None:
    """What is printed is shown by pytest when this fails, with the seed."""
    plan = Plan(KILLS, SECONDS, seed=random.randrange(10**6))
    assert soak(plan, Console(width=120)).problems == []
