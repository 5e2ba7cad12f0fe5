"""What runs under the kills: a flow in which some records fail for a while and some for good, and a long actor."""

from __future__ import annotations

import os
import time
from typing import Any

from towpath import Flow, table, topic
from towpath.actors import Actor, End, Resume, Turn, state
from towpath.policy import constant, isolate, repeat_after

HOME = "CHAOS_HOME"
FLOW, SOURCE, TABLE, ACTOR = "chaos", "source", "loaded", "walk"
GOOD, LATE, BAD = "good", "late", "bad"
LATE_S = 4.0
STEPS = 5


class NotYet(Exception):
    """It would load later."""


def work(document: dict[str, Any]) -> dict[str, Any]:
    if document["kind"] == BAD:
        raise ValueError("told to")
    if document["kind"] == LATE and time.time() < document["until"]:
        raise NotYet("its time has not come")
    return document


def made(home: str) -> Flow:
    """The flow, with its table in the directory of the run."""
    flow = Flow(FLOW, delivery="exactly-once")
    worked = flow.each(topic(SOURCE), name="work")(work)
    flow.load(worked, table(TABLE, url=f"sqlite:///{home}/loaded.db"), name=TABLE)
    flow.on_error(repeat_after(constant("2s", times=100)), exception="NotYet")
    flow.on_error(isolate)
    return flow


@state(resume=Resume.RETRY)
class Step:
    """One of several, each a commit of its own."""

    number: int
    taken: int = 0


class Walk(Actor):
    """Takes its steps, one after the other, and says how many there were."""

    def transition(self, state: Step | End, _: Turn) -> Step | End | None:
        match state:
            case Step(number, taken) if taken < STEPS:
                time.sleep(0.2)
                return Step(number, taken + 1)
            case Step(number, taken):
                return End({"number": number, "steps": taken})
        return None


flow = made(os.environ[HOME]) if HOME in os.environ else None
