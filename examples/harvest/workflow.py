"""The workflow and its processes, as actors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from examples.harvest.parts.order import Order

from towpath.actors import Actor, End, Failed, Resume, Turn, Wait, state
from towpath.actors.spawner.spawner import Spawner
from towpath.errors import BadState, RequestDied

HARVEST = "harvest"
PEOPLE = "harvest-people"  # where people are asked whether a part may start
MAY_START = "may-start"
SPARK_LINGERS_S = 60.0  # starting it takes seconds: it waits a while for the next order


class CrawlProcess(Spawner):
    """Runs a process that visits sites."""

    name = "harvest-crawl"
    inbox = "harvest-crawl"
    entry = "examples.harvest.parts.crawling:crawl"
    retries = 25  # it goes on where it was, so that trying again is cheap


class ProcessProcess(Spawner):
    """Runs a process that makes documents of pages, with Spark."""

    name = "harvest-process"
    inbox = "harvest-process"
    entry = "examples.harvest.parts.processing:process"
    retries = 25
    linger_s = SPARK_LINGERS_S


class LoadProcess(Spawner):
    """Runs a process that loads documents into the table that is searched, with Spark."""

    name = "harvest-load"
    inbox = "harvest-load"
    entry = "examples.harvest.parts.loading:load"
    retries = 25
    linger_s = SPARK_LINGERS_S


PARTS: dict[str, type[Spawner]] = {"crawl": CrawlProcess, "process": ProcessProcess, "load": LoadProcess}


@dataclass(frozen=True)
class Plan:
    """What a run is to do."""

    home: str
    sites: tuple[str, ...]
    connect_to: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[str, ...] = tuple(PARTS)
    asks_before: tuple[str, ...] = ()  # parts that wait for a person; the others start by themselves

    def without_first(self) -> Plan:
        return replace(self, parts=self.parts[1:])


@state(resume=Resume.RETRY)
class Begin:
    """A run was asked for; the plan is looked at."""

    plan: Plan


@state(resume=Resume.RETRY)
class Next:
    """A part has ended, or none was begun; `made` is what came of those that ended."""

    plan: Plan
    made: dict[str, Any]


@state(resume=Resume.RETRY)
class Asked:
    """A person was asked whether the next part may start."""

    plan: Plan
    made: dict[str, Any]
    question_id: str


@state(resume=Resume.RETRY)
class Call:
    """The next part starts."""

    plan: Plan
    made: dict[str, Any]


@state(resume=Resume.RETRY)
class Called:
    """The next part was given its order, and has ended with an answer."""

    plan: Plan
    made: dict[str, Any]
    order_id: str


class Harvest(Actor):
    """Crawls sites, makes documents of their pages, and loads those into a table that can be searched."""

    name = HARVEST

    def transition(self, state: Begin | Next | Asked | Call | Called | End | Failed, turn: Turn) -> Any:
        match state:
            case Begin(plan):
                return _looked_at(plan)
            case Next(plan, made):
                if not plan.parts:
                    return End(made)
                return _ask(state, turn) if plan.parts[0] in plan.asks_before else Call(plan, made)
            case Asked(plan, made, question_id):
                refusal = _refusal(turn, question_id)
                part = plan.parts[0]
                return Call(plan, made) if refusal is None else Failed(f"{part} was not allowed to start: {refusal}")
            case Call(plan, made):
                part = plan.parts[0]
                order = Order(plan.home, plan.sites, plan.connect_to, f"{turn.actor}:{turn.instance} {turn.run_id}")
                order_id = turn.send(PARTS[part].inbox, part, order.payload())
                return Wait(order_id, Called(plan, made, order_id))
            case Called():
                return _gathered(state, turn)


def _looked_at(plan: Plan) -> Next:
    unknown = [part for part in (*plan.parts, *plan.asks_before) if part not in PARTS]
    if unknown:
        raise BadState(f"there is no part {unknown[0]!r}; parts: {', '.join(PARTS)}")
    if not plan.sites:
        raise BadState("the plan names no site")
    return Next(plan, {})


def _ask(state: Next, turn: Turn) -> Wait:
    part = state.plan.parts[0]
    question = {"part": part, "sites": list(state.plan.sites), "made": state.made}
    question_id = turn.send(PEOPLE, MAY_START, question)
    return Wait(question_id, Asked(state.plan, state.made, question_id))


def _refusal(turn: Turn, question_id: str) -> str | None:
    """What a person has said against it. `false` and an error are a no; anything else is a yes."""
    try:
        answer = turn.answer(question_id)
    except RequestDied as error:
        return str(error)
    if answer is None or not answer.is_ok:
        return "no" if answer is None else str(answer.payload["error"])
    return "a person has said no" if answer.payload is False else None


def _gathered(state: Called, turn: Turn) -> Next | Failed:
    part = state.plan.parts[0]
    try:
        answer = turn.answer(state.order_id)
    except RequestDied as error:
        return Failed(f"{part} was given up: {error}")
    if answer is None or not answer.is_ok:
        return Failed(f"{part} failed: {'no answer' if answer is None else answer.payload['error']}")
    return Next(state.plan.without_first(), {**state.made, part: answer.payload})


ACTORS: tuple[type[Actor], ...] = (Harvest, *PARTS.values())
