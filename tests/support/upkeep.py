"""A process whose host and janitors go round only when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.actors import Counter, Doer, Parent, Sleeper
from tests.support.quiet import Quiet
from tests.support.tables import rows

from towpath.actors import Actor
from towpath.actors.engine.host import Host
from towpath.actors.instance import Instance
from towpath.testing.clock import wait_until

DAY_S = 86_400.0


class Scene:
    """One process whose host and janitors go round only when they are told."""

    def __init__(self, quiet: Quiet) -> None:
        self.quiet = quiet
        self.database = quiet.database
        self.actors = quiet.runtime.actors
        self.actors.register(Counter, Parent, Sleeper, Doer)
        self.host: Host = self.actors.host()

    def turn(self, until: Callable[[], object]) -> None:
        wait_until(lambda: self.host.run_once() is not None and until(), timeout_s=30)

    def run(self, actor: type[Actor], state: Any) -> Any:
        run = self.actors.start(actor, state, wants_answer=True)
        self.turn(lambda: self.actors.outbox().poll(run))
        answer = self.actors.outbox().poll(run)
        assert answer is not None
        return answer.payload

    def children(self) -> list[Instance]:
        return [each for each in self.actors.instances() if each.parent is not None]

    def clean(self) -> int:
        return sum(self.host.janitor.clean().values())

    def inboxes(self) -> list[str]:
        return [row["name"] for row in rows(self.database, "inbox")]


@pytest.fixture
def scene(quiet: Quiet) -> Scene:
    Doer.actions.clear()
    return Scene(quiet)
