"""The rows of stages: one process runs a stage, and what it no longer runs it cannot change."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.quiet import Quiet, let_die
from tests.support.sweep import sweep
from tests.support.tables import by_hand, rows

from towpath.errors import BadName, BadValue, DatabaseError, FlowHalted, IllegalWish, NotTheOnlyOne, UnknownFlow
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.delivery.positions import OffsetRange, Positions
from towpath.flow.failures import ErrorCode
from towpath.flow.stage import RetryWaits, StageMachine, StageState, StageTrouble
from towpath.flow.stage.states import StageCommandKind
from towpath.flow.stage.store import StageRow, StageStore, claim_stage

FLOW, STAGE = "page-views", "main"
TOPOLOGY = {"steps": ["views", "label"]}
AT = Positions.of([OffsetRange("clicks", "id-1", 0, 0, 0), OffsetRange("clicks", "id-1", 1, 7, 7)])
WAITS = RetryWaits(0.2, 60.0, random.Random(1))


class Bench:
    """One stage, and the shortest way to do something with its row."""

    def __init__(self, quiet: Quiet) -> None:
        self.database = quiet.database
        self.me = quiet.process.id
        self.stages = StageStore(quiet.database)
        self.do("ensure", TOPOLOGY, "1")

    def do(self, method: str, *arguments: Any, **named: Any) -> Any:
        with self.database.transaction() as tx:
            return getattr(self.stages, method)(tx, FLOW, STAGE, *arguments, **named)

    def take(self) -> StageRow:
        return claim_stage(self.database, self.stages, FLOW, STAGE, self.me)

    def read(self) -> StageRow:
        stage: StageRow = self.do("read")
        return stage

    def begin(self, before: StageRow, **values: Any) -> StageRow:
        defaults: dict[str, Any] = {"checkpoint": "/c/1", "starting": AT, "topics": {"clicks": ["id-1"]}}
        with self.database.transaction() as tx:
            return self.stages.new_generation(tx, before, self.me, **{**defaults, **values})

    def in_state(self, state: StageState) -> StageRow:
        self.take()
        self.do("save_machine", self.me, StageMachine(state, 1, resumes=StageState.LOAD, next_try=2))
        return self.read()


@pytest.fixture
def bench(quiet: Quiet) -> Bench:
    return Bench(quiet)


def test_a_new_stage_rests_and_has_no_checkpoint(bench: Bench) -> None:
    stage = bench.read()
    assert (stage.flow, stage.name, stage.topology, stage.version) == (FLOW, STAGE, TOPOLOGY, "1")
    assert (stage.generation, stage.checkpoint, stage.starting, stage.topics) == (0, "", Positions(), {})
    assert (stage.owner, stage.wish, stage.judge, stage.sample) == (None, None, {}, {})
    assert stage.machine.state is StageState.STOPPED
    assert stage.created_at == stage.updated_at


def test_ensuring_again_leaves_the_row_alone(bench: Bench) -> None:
    before = rows(bench.database, "flow_stage")
    assert bench.do("ensure", {"other": True}, "2").topology == TOPOLOGY
    assert rows(bench.database, "flow_stage") == before


def test_an_unknown_stage_says_which_there_are(bench: Bench) -> None:
    with bench.database.read() as tx, pytest.raises(UnknownFlow, match=r"'x/y'.*: page-views/main"):
        bench.stages.read(tx, "x", "y")


def test_stages_are_listed_by_flow(bench: Bench) -> None:
    with bench.database.transaction() as tx:
        bench.stages.ensure(tx, "other", "b", {})
        bench.stages.ensure(tx, FLOW, "late", {})
        everything = [(stage.flow, stage.name) for stage in bench.stages.list(tx)]
        of_flow = [stage.name for stage in bench.stages.list(tx, FLOW)]
    assert everything == [("other", "b"), (FLOW, "late"), (FLOW, STAGE)]
    assert of_flow == ["late", STAGE]


# Who runs it


def test_a_living_owner_refuses_another(bench: Bench, make_quiet: Callable[..., Quiet]) -> None:
    assert bench.take().owner == bench.me
    assert bench.take().owner == bench.me  # the same one may ask twice
    other = Bench(make_quiet())
    with pytest.raises(NotTheOnlyOne, match=bench.me):
        other.take()
    assert bench.read().owner == bench.me


def test_a_dead_owners_stage_is_taken_over_and_the_dead_can_change_nothing(
    quiet: Quiet, make_quiet: Callable[..., Quiet]
) -> None:
    dead, other_quiet = Bench(quiet), make_quiet()
    stage = dead.take()
    running = stage.machine.started(1)
    dead.do("save_machine", dead.me, running)
    let_die(quiet, other_quiet)
    other = Bench(other_quiet)
    with pytest.raises(NotTheOnlyOne):
        other.take()  # its lease is over, but nobody has declared it dead
    other_quiet.caretaker.run_once()
    taken = other.take()
    assert (taken.owner, taken.machine) == (other.me, running)
    before = rows(other.database, "flow_stage")
    writes: list[tuple[str, tuple[Any, ...]]] = [
        ("save_machine", (running,)),
        ("save_sample", ({},)),
        ("save_judge", ({},)),
        ("save_topology", ({}, "2")),
        ("release", (running.rested(StageState.STOPPED, "over", 2),)),
    ]
    for method, arguments in writes:
        with pytest.raises(NotTheOnlyOne, match=f"{other.me} .*{dead.me}"):
            dead.do(method, dead.me, *arguments)
    with pytest.raises(NotTheOnlyOne):
        dead.begin(stage)
    assert rows(other.database, "flow_stage") == before
    other.do("ask", StageCommandKind.STOP, "ada", "enough")
    assert dead.do("wish", dead.me) is None
    wish = other.do("wish", other.me)
    assert wish.kind is StageCommandKind.STOP
    assert not dead.do("settle_wish", dead.me, wish)
    assert other.do("wish", other.me) == wish


def test_who_took_over_meanwhile_is_not_robbed(bench: Bench) -> None:
    """Between finding the owner dead and taking the stage, a third one was faster."""
    bench.do("take", "third")
    with pytest.raises(NotTheOnlyOne, match="third"):
        bench.do("take", bench.me, "first-who-died")


def test_a_released_stage_is_free(bench: Bench, make_quiet: Callable[..., Quiet]) -> None:
    running = bench.take().machine.started(1)
    with pytest.raises(BadValue, match="configure"):
        bench.do("release", bench.me, running)
    bench.do("release", bench.me, running.rested(StageState.PAUSED, "lunch", 5))
    stage = Bench(make_quiet()).take()
    assert (stage.machine.state, stage.machine.reason) == (StageState.PAUSED, "lunch")


def test_what_is_saved_is_read(bench: Bench) -> None:
    bench.take()
    running = StageMachine.new(1).started(2)
    machine = running.failed(StageTrouble(ErrorCode.NETWORK, "s", "cut \x00 off \ud800"), 3, WAITS)
    bench.do("save_machine", bench.me, machine)
    bench.do("save_sample", bench.me, {"partitions": {"clicks/0": {"lag": 3, "rate": 1.5}}})
    bench.do("save_judge", bench.me, {"window": 1})
    bench.do("save_topology", bench.me, {"steps": []}, "2")
    stage = bench.read()
    error = machine.last_error
    assert error is not None
    assert stage.machine == replace(machine, last_error=replace(error, message="cut \\0 off \\ud800"))
    assert stage.sample == {"partitions": {"clicks/0": {"lag": 3, "rate": 1.5}}}
    assert stage.judge == {"window": 1}
    assert (stage.topology, stage.version) == ({"steps": []}, "2")


@sweep("state", StageState)
def test_every_state_can_be_stored(bench: Bench, state: StageState) -> None:
    assert bench.in_state(state).machine.state is state


def test_generations_follow_each_other(bench: Bench) -> None:
    first = bench.begin(bench.take())
    assert (first.generation, first.checkpoint, first.starting, first.topics) == (1, "/c/1", AT, {"clicks": ["id-1"]})
    with pytest.raises(FlowHalted, match="generation 1"):
        bench.begin(replace(first, generation=0))
    assert bench.begin(first, checkpoint="/c/2").generation == 2


def test_a_generation_does_not_begin_over_an_open_batch(bench: Bench) -> None:
    first, ledger = bench.begin(bench.take()), Ledger(bench.database, bench.me)
    with bench.database.transaction() as tx:
        ledger.snapshot(tx, FLOW, STAGE, 1, 0, "0" * 64, AT)
    with pytest.raises(FlowHalted, match="open"):
        bench.begin(first)
    with bench.database.transaction() as tx:
        ledger.supersede_open(tx, FLOW, STAGE)
    assert bench.begin(first).generation == 2


# What people want of it


# In which states each cannot be asked for.
IMPOSSIBLE = {
    StageCommandKind.PAUSE: ("paused", "stopped", "halted"),
    StageCommandKind.RESUME: ("configure", "extract", "transform", "load", "errors", "reset", "stopped"),
    StageCommandKind.STOP: ("stopped",),
    StageCommandKind.RESET: (),
}


@sweep("kind", StageCommandKind)
@sweep("state", StageState)
def test_a_wish_is_there_until_it_is_settled_or_refused(
    bench: Bench, state: StageState, kind: StageCommandKind
) -> None:
    bench.in_state(state)
    if state in IMPOSSIBLE[kind]:
        with pytest.raises(IllegalWish, match=f"{state}.*{kind}"):
            bench.do("ask", kind, "ada", "because")
        assert bench.read().wish is None
        return
    before = bench.do("ask", kind, "ada", "because", {"to": "earliest"})
    assert (before.wish, before.machine.state) == (None, state)
    wish = bench.read().wish
    assert wish is not None
    assert (wish.kind, wish.who, wish.why, wish.arguments) == (kind, "ada", "because", {"to": "earliest"})
    assert bench.do("wish", bench.me) == wish
    assert bench.do("settle_wish", bench.me, wish)
    assert bench.do("wish", bench.me) is None
    assert bench.read().wish is None


def test_a_newer_wish_takes_the_place_of_an_older(bench: Bench) -> None:
    bench.in_state(StageState.EXTRACT)
    bench.do("ask", StageCommandKind.PAUSE, "ada", "lunch")
    before = bench.do("ask", StageCommandKind.STOP, "grace", "no, home")
    assert (before.wish.kind, before.wish.who) == (StageCommandKind.PAUSE, "ada")
    assert bench.do("wish", bench.me).kind is StageCommandKind.STOP
    assert not bench.do("settle_wish", bench.me, before.wish)
    assert bench.do("wish", bench.me).kind is StageCommandKind.STOP


@pytest.mark.parametrize(("who", "why"), [("", "because"), ("ada", " ")])
def test_a_wish_needs_a_name_and_a_reason(bench: Bench, who: str, why: str) -> None:
    bench.in_state(StageState.EXTRACT)
    with pytest.raises(BadName):
        bench.do("ask", StageCommandKind.PAUSE, who, why)


REFUSED = [
    "update flow_stage set state = 'resting'",
    "update flow_stage set state = 'extract'",  # the pilot says otherwise
    "update flow_stage set owner = null",
    "update flow_stage set wish = 'pause'",
    "update flow_stage set wish = 'dance', wish_who = 'a', wish_why = 'b', wish_at = 1, wish_args = '{}'",
    "update flow_stage set wish_at = 1",
    "update flow_stage set pilot = 'not json'",
    "update flow_stage set pilot = '{}'",
    "update flow_stage set generation = -1",
    "update flow_stage set flow = ''",
]


@sweep("statement", REFUSED)
def test_what_a_person_types_is_right_or_refused(bench: Bench, statement: str) -> None:
    bench.in_state(StageState.LOAD)
    before = rows(bench.database, "flow_stage")
    with pytest.raises(DatabaseError):
        by_hand(bench.database, statement)
    assert rows(bench.database, "flow_stage") == before
