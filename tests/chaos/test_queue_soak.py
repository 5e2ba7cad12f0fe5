"""The soak of the queue, short: two workers, a kill every second, the database disturbed twice."""

from __future__ import annotations

import random

import pytest
from rich.console import Console
from soak.queue.plan import Plan
from soak.queue.run import soak

SECONDS = 30
MESSAGES = 1_200


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_every_message_ends_once(database: str) -> None:
    """What is printed is shown by pytest when this fails, with the seed."""
    plan = Plan(database, SECONDS, MESSAGES, workers=2, kill_every_s=1.0, seed=random.randrange(10**6))
    assert soak(plan, Console(width=120)).problems == ()
