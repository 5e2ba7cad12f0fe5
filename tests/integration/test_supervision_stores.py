"""Term, duties and deaths in both databases: every move from every state, leases by the database's time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from uuid import uuid4

import psycopg
import pytest
from tests.support.quiet import Quiet, shift
from tests.support.tables import by_hand, events, rows

from towpath.core.clock import MICROS
from towpath.db import Database, Transaction
from towpath.errors import DatabaseError, IllegalDutyMove, NotCoordinator, TowpathError, UnknownDuty
from towpath.runtime import Runtime
from towpath.supervision.duties.model import DeathKind, Duty, DutyMove, DutySpec, DutyState, NewDuty
from towpath.supervision.duties.store import DeathStore, DutyStore, NewDeath
from towpath.supervision.term import TermKeeper, TermStore

LEASE_S = 60.0
SPEC = DutySpec(("sleep", "60"))
WANTED = NewDuty("orders", "flow", "here", SPEC)


@pytest.fixture
def database(quiet: Quiet) -> Database:
    return quiet.database


@pytest.fixture
def store(database: Database) -> DutyStore:
    return DutyStore(database)


def keeper(quiet: Quiet, peer: int = 1, lease_s: float = LEASE_S) -> TermKeeper:
    return TermKeeper(quiet.database, quiet.runtime.event_log, f"peer-{peer}", peer, lease_s)


# The term


def test_one_at_a_time_has_the_term_and_each_taking_raises_it(quiet: Quiet) -> None:
    first, second = keeper(quiet), keeper(quiet, 2)
    assert first.take() == 1
    assert second.take() is None
    assert first.take() is None  # who has it renews it
    assert first.renew(1)
    assert not second.renew(1)
    shift(LEASE_S - 20, quiet)
    assert first.renew(1)
    shift(LEASE_S + 1, quiet)
    assert not first.renew(1), "a lease that is over is not renewed, also if nobody has taken the term"
    assert second.take() == 2
    assert not first.renew(1)
    assert not first.renew(2)
    taken = events(quiet.database, "term_taken")
    assert [(row["subject"], row["why"]) for row in taken] == [("peer-1", ""), ("peer-2", "")]


def test_a_lease_may_be_long(quiet: Quiet) -> None:
    """Its microseconds fit into 32 bits, ten times as many do not."""
    first, second = keeper(quiet, lease_s=600), keeper(quiet, 2, lease_s=600)
    assert first.take() == 1
    assert second.take() is None
    assert first.renew(1)


def test_a_term_that_is_released_can_be_taken_at_once(quiet: Quiet) -> None:
    first, second = keeper(quiet), keeper(quiet, 2)
    first.take()
    second.release(1)  # not its own
    assert second.take() is None
    first.release(1)
    assert second.take() == 2
    first.release(1)
    assert second.renew(2)


def test_nothing_is_done_under_a_term_that_is_over(quiet: Quiet, store: DutyStore) -> None:
    """A coordinator that was paused finds out before it has changed anything."""
    first, second = keeper(quiet), keeper(quiet, 2)
    first.take()
    with first.under(1) as tx:
        store.want(tx, WANTED, "ann", "try")
    shift(LEASE_S + 1, quiet)
    with pytest.raises(NotCoordinator) as caught, first.under(1) as tx:
        store.launch(tx, "orders", str(uuid4()))
    assert (caught.value.term, caught.value.holder) == (1, "peer-1")
    assert second.take() == 2
    for term in (1, 2):
        with pytest.raises(NotCoordinator), first.under(term) as tx:
            store.launch(tx, "orders", str(uuid4()))
    [row] = rows(quiet.database, "duty")
    assert (row["state"], row["launch"]) == ("waiting", 0)


def test_a_term_cannot_be_taken_from_the_middle_of_a_change(make_quiet: Callable[..., Quiet]) -> None:
    """Otherwise the change of an old coordinator could come after what the new one has seen."""
    one, other = make_quiet(), make_quiet()
    first, second = keeper(one), keeper(other, 2)
    first.take()
    done: list[int | None] = []
    with first.under(1) as tx:
        DutyStore(one.database).want(tx, WANTED, "ann", "try")
        by_hand(
            other.database,
            f"update clock_shift set offset_us = offset_us + {int((LEASE_S + 1) * MICROS)} where one = 1",
        )
        taking = threading.Thread(target=lambda: done.append(second.take()))
        taking.start()
        taking.join(0.5)
        assert done == [], "it waits for the change"
    taking.join(20)
    assert done == [2]
    assert [row["name"] for row in rows(other.database, "duty")] == ["orders"]


# Duties


def new_id() -> str:
    return str(uuid4())


def in_state(database: Database, store: DutyStore, state: DutyState, name: str = "orders") -> Duty:
    """A duty that came there by moves."""
    with database.transaction() as tx:
        duty = store.want(tx, NewDuty(name, "flow", "here", SPEC), "ann", "try")
        if state is DutyState.WAITING:
            return duty
        if state is DutyState.STOPPED:
            return store.stop(tx, name, "ann", "enough")
        duty = store.launch(tx, name, new_id())
        if state is DutyState.STARTING:
            return duty
        if state in (DutyState.DOWN, DutyState.FAILED):
            duty = store.die(tx, duty, database.now() + 10 * MICROS, 1, "it was ended by signal 9")
            return duty if state is DutyState.DOWN else store.give_up(tx, name)
        ready = store.settle(tx, duty.launch_id or "")
        assert ready is not None
        if state is DutyState.READY:
            return ready
        store.stop(tx, name, "ann", "enough")
        return store.tell_to_stop(tx, ready)


def move(tx: Transaction, store: DutyStore, duty: Duty, which: DutyMove) -> Duty:
    """What brings a duty on, as far as its wish allows that."""
    name = duty.name
    launch_id = duty.launch_id or new_id()
    held = Duty(**{**{name: getattr(duty, name) for name in Duty.__dataclass_fields__}, "launch_id": launch_id})
    match which:
        case DutyMove.LAUNCH:
            return store.launch(tx, name, new_id())
        case DutyMove.READY:
            ready = store.settle(tx, launch_id)
            if ready is None:
                raise IllegalDutyMove(name, duty.state, "x", ())
            return ready
        case DutyMove.STOP:
            if duty.is_running and duty.is_wanted:
                store.restart(tx, name, "ann", "try")
            return store.tell_to_stop(tx, held)
        case DutyMove.DIE:
            return store.die(tx, held, 1, 1, "x")
        case DutyMove.GIVE_UP:
            return store.give_up(tx, name)
        case DutyMove.END:
            return store.end(tx, held)
        case DutyMove.MAKE_WAY:
            store.restart(tx, name, "ann", "try") if duty.is_running else None
            return store.end(tx, held)
        case DutyMove.CANCEL:
            by = {"name": name, "who": "ann", "why": "x"}
            tx.rows(store._sql["wish_stop"], by)
            return store.cancel(tx, name)
        case DutyMove.WANT:
            found = tx.rows(store._sql["want_duty"], {"name": name, "who": "ann", "why": "try"})
            if not found:
                raise IllegalDutyMove(name, duty.state, "x", ())
            return Duty.from_row(found[0])


# Where each move leads from which state; from every other one it is refused.
WHERE_TO: dict[DutyMove, tuple[tuple[DutyState, ...], DutyState]] = {
    DutyMove.LAUNCH: ((DutyState.WAITING, DutyState.DOWN), DutyState.STARTING),
    DutyMove.READY: ((DutyState.STARTING,), DutyState.READY),
    DutyMove.STOP: ((DutyState.STARTING, DutyState.READY), DutyState.STOPPING),
    DutyMove.DIE: ((DutyState.STARTING, DutyState.READY), DutyState.DOWN),
    DutyMove.GIVE_UP: ((DutyState.DOWN,), DutyState.FAILED),
    DutyMove.END: ((DutyState.STOPPING,), DutyState.STOPPED),
    DutyMove.MAKE_WAY: ((DutyState.STOPPING,), DutyState.WAITING),
    DutyMove.CANCEL: ((DutyState.WAITING, DutyState.DOWN, DutyState.FAILED), DutyState.STOPPED),
    DutyMove.WANT: ((DutyState.STOPPED, DutyState.DOWN, DutyState.FAILED), DutyState.WAITING),
}


def test_every_move_from_every_state(database: Database, store: DutyStore) -> None:
    for number, (state, which) in enumerate(product(DutyState, DutyMove)):
        duty = in_state(database, store, state, f"duty-{number}")
        assert duty.state is state
        sources, target = WHERE_TO[which]
        if state in sources:
            with database.transaction() as tx:
                after = move(tx, store, duty, which)
            assert after.state is target
            with database.read() as tx:
                assert store.read(tx, duty.name) == after
            assert (after.launch_id is not None) == after.is_running
            continue
        before = rows(database, "duty")
        with pytest.raises(IllegalDutyMove), database.transaction() as tx:
            move(tx, store, duty, which)
        assert rows(database, "duty") == before


def test_each_launch_has_a_number_and_an_id_of_its_own(database: Database, store: DutyStore) -> None:
    with database.transaction() as tx:
        store.want(tx, WANTED, "ann", "try")
        first = store.launch(tx, "orders", new_id())
        store.note_handle(tx, first.launch_id or "", "h1")
        store.note_exit(tx, first.launch_id or "", 3, None)
        assert store.adopt(tx, "orders", 1, first.launch_id or "", "p1")
        died = store.die(tx, store.read(tx, "orders"), database.now(), 1, "x")
        assert (died.launch, died.launch_id, died.handle, died.exit_code) == (1, None, "h1", 3)
        second = store.launch(tx, "orders", new_id())
    assert (second.launch, second.handle, second.process_id) == (2, None, None)
    assert (second.exit_code, second.exited_us, second.next_try_us) == (None, None, None)
    assert second.launch_id not in (None, first.launch_id)


def test_who_shows_another_launch_may_not_work(database: Database, store: DutyStore) -> None:
    with database.transaction() as tx:
        store.want(tx, WANTED, "ann", "try")
        old = store.launch(tx, "orders", new_id())
        old_id = old.launch_id or ""
        store.die(tx, old, database.now(), 1, "x")
        new_launch = store.launch(tx, "orders", new_id())
        new = new_launch.launch_id or ""
        assert not store.adopt(tx, "orders", 1, old_id, "late")
        assert not store.adopt(tx, "orders", 1, new, "wrong number")
        assert not store.adopt(tx, "other", 2, new, "wrong duty")
        assert store.adopt(tx, "orders", 2, new, "p")
        assert store.adopt(tx, "orders", 2, new, "p"), "asked again, since the answer was lost"
        assert not store.adopt(tx, "orders", 2, new, "twin")
        assert store.is_current(tx, new, "p")
        assert not store.is_current(tx, new, "twin")
        assert not store.is_current(tx, old_id, "late")
        assert store.note_handle(tx, old_id, "h") == []
        assert store.read(tx, "orders").handle is None
        for note in (
            store.note_exit(tx, old_id, 1, None),
            store.note_trouble(tx, old_id, "x"),
        ):
            assert not note, "facts about a launch that is over change nothing"
    with pytest.raises(IllegalDutyMove), database.transaction() as tx:
        store.die(tx, old, database.now(), 1, "x")


def test_a_process_that_was_never_ready_gives_its_launch_back(database: Database, store: DutyStore) -> None:
    """A script runs one command after the other; the last one stays."""
    with database.transaction() as tx:
        store.want(tx, WANTED, "ann", "try")
        launch_id = store.launch(tx, "orders", new_id()).launch_id or ""
        assert store.adopt(tx, "orders", 1, launch_id, "first")
        store.give_back(tx, launch_id, "other")
        assert not store.adopt(tx, "orders", 1, launch_id, "second")
        store.give_back(tx, launch_id, "first")
        assert store.adopt(tx, "orders", 1, launch_id, "second")
        store.settle(tx, launch_id)
        store.give_back(tx, launch_id, "second")
        assert not store.adopt(tx, "orders", 1, launch_id, "third"), "it has done the duty"


def test_of_old_launches_the_last_few_handles_are_kept(database: Database, store: DutyStore) -> None:
    with database.transaction() as tx:
        store.want(tx, WANTED, "ann", "try")
        gone: list[str] = []
        for number in range(1, 8):
            duty = store.launch(tx, "orders", new_id())
            for _ in range(2):  # told twice
                gone += store.note_handle(tx, duty.launch_id or "", f"h{number}")
            store.die(tx, duty, database.now(), 0, "x")
        assert store.read(tx, "orders").handle == "h7"
    assert gone == ["h1", "h2"]


def test_an_exit_is_noted_once(database: Database, store: DutyStore) -> None:
    with database.transaction() as tx:
        store.want(tx, WANTED, "ann", "try")
        launch_id = store.launch(tx, "orders", new_id()).launch_id or ""
        assert store.note_exit(tx, launch_id, None, 9)
        assert not store.note_exit(tx, launch_id, 0, None, "too late")
        duty = store.read(tx, "orders")
    assert (duty.exit_code, duty.exit_signal, duty.has_exited, duty.trouble) == (None, 9, True, "")


def test_wanting_again_takes_over_what_runs(database: Database, store: DutyStore) -> None:
    ready = in_state(database, store, DutyState.READY)
    with database.transaction() as tx:
        same = store.want(tx, WANTED, "bob", "again")
        assert (same.state, same.launch_id, same.is_replaced) == (DutyState.READY, ready.launch_id, False)
        other = store.want(tx, NewDuty("orders", "flow", "here", DutySpec(("sleep", "61"))), "bob", "changed")
        assert (other.state, other.is_replaced, other.spec.command) == (DutyState.READY, True, ("sleep", "61"))
        store.tell_to_stop(tx, other)
        again = store.end(tx, other)
        assert again.state is DutyState.WAITING
        assert not store.launch(tx, "orders", new_id()).is_replaced


def test_wanting_what_does_not_run_starts_it_anew(database: Database, store: DutyStore) -> None:
    for state in (DutyState.STOPPED, DutyState.FAILED):
        in_state(database, store, state, state)
        with database.transaction() as tx:
            duty = store.want(tx, NewDuty(state, "flow", "here", SPEC), "bob", "again")
        assert (duty.state, duty.wish, duty.early_deaths, duty.who) == (DutyState.WAITING, "run", 0, "bob")


def test_stop_and_restart_from_every_state(database: Database, store: DutyStore) -> None:
    for state in DutyState:
        in_state(database, store, state, state)
        with database.transaction() as tx:
            restarted = store.restart(tx, state, "bob", "try")
            stopped = store.stop(tx, state, "bob", "enough")
        assert restarted.is_wanted
        assert restarted.is_replaced if restarted.is_running else restarted.state is DutyState.WAITING
        assert not stopped.is_wanted
        assert stopped.is_running or stopped.state is DutyState.STOPPED


def test_only_what_is_stopped_is_forgotten(database: Database, store: DutyStore) -> None:
    in_state(database, store, DutyState.READY)
    with database.transaction() as tx:
        assert not store.forget(tx, "orders")
    by_hand(database, "delete from duty")
    in_state(database, store, DutyState.STOPPED)
    with database.transaction() as tx:
        assert store.forget(tx, "orders")
        with pytest.raises(UnknownDuty):
            store.read(tx, "orders")
        for act in (store.stop, store.restart):
            with pytest.raises(UnknownDuty):
                act(tx, "orders", "ann", "x")


WRONG_BY_HAND = (
    "update duty set state = 'ready'",
    "update duty set state = 'dancing'",
    "update duty set state = 'down'",
    "update duty set launch_id = '00000000-0000-0000-0000-000000000001'",
    "update supervision_term set holder = 'me'",
    "update supervision_term set term = -1",
)


def test_a_wrong_change_by_hand_is_refused(database: Database, store: DutyStore) -> None:
    in_state(database, store, DutyState.WAITING)
    before = rows(database, "duty"), rows(database, "supervision_term")
    for statement in WRONG_BY_HAND:
        with pytest.raises((DatabaseError, psycopg.errors.CheckViolation)):
            by_hand(database, statement)
        assert (rows(database, "duty"), rows(database, "supervision_term")) == before


# Deaths


def death(launch: int = 1, process_id: str | None = "p") -> NewDeath:
    return NewDeath("orders", launch, process_id, "here", 7, DeathKind.SIGNAL, None, 9, "oh", 5, 3, "peer-1-x")


def test_a_death_is_written_once_and_completed_later(database: Database) -> None:
    store = DeathStore(database)
    with database.transaction() as tx:
        assert store.record(tx, death())
        assert not store.record(tx, death())
        assert store.record(tx, death(2, None))
        [unfreed] = store.unfreed(tx)
        assert (unfreed.launch, unfreed.freed, unfreed.back_at) == (1, None, None)
        store.note_freed(tx, unfreed.seq, {"messages": 2})
        store.note_freed(tx, unfreed.seq, {"messages": 0})
        store.note_back(tx, "orders")
    with database.read() as tx:
        second, first = store.page(tx, limit=5)
        assert [each.launch for each in store.page(tx, limit=5, before=second.seq)] == [1]
        assert store.page(tx, limit=5, duty="other") == []
    assert (first.freed, second.freed) == ({"messages": 2}, {})
    assert (first.how, first.exit_signal, first.term, first.coordinator) == (DeathKind.SIGNAL, 9, 3, "peer-1-x")
    assert first.back_at is not None
    assert first.back_at >= first.noticed_at


def test_old_deaths_are_forgotten_when_all_is_freed(database: Database) -> None:
    store = DeathStore(database)
    with database.transaction() as tx:
        store.record(tx, death(1))
        store.record(tx, death(2, None))
        assert store.forget(tx, database.now() - MICROS, 10) == 0
        assert store.forget(tx, database.now() + MICROS, 10) == 1
        assert [each.launch for each in store.page(tx, limit=5)] == [1]


def test_the_term_is_read(quiet: Quiet) -> None:
    keeper(quiet).take()
    with quiet.database.read() as tx:
        term = TermStore(quiet.database).read(tx)
    assert (term.number, term.holder, term.peer) == (1, "peer-1", 1)
    assert not term.is_over(quiet.database.now())
    assert term.is_over(term.until_us + 1)


def test_the_desk_of_duties(runtime: Runtime) -> None:
    """What people wish is written down with who and why, and what is not named any more is to stop."""
    desk = runtime.duties
    other = NewDuty("mail", "command", "here", SPEC)
    assert desk.want([WANTED, other], who="ann", why="begin") == []
    assert desk.want([WANTED, other], who="ann", why="again") == []
    assert desk.want([WANTED], who="bob", why="without mail") == ["mail"]
    assert [duty.name for duty in desk.overview().duties] == ["orders"]
    desk.stop("orders", who="bob", why="enough")
    desk.restart("orders", who="bob", why="after all")
    told = [(row["subject"], row["who"]) for row in events(runtime.database, "duty_changed_by_hand")]
    assert told == [("orders", "ann"), ("mail", "ann"), ("mail", "bob"), ("orders", "bob"), ("orders", "bob")]
    for who, why in (("", "x"), ("ann", " ")):
        with pytest.raises(TowpathError):
            desk.stop("orders", who=who, why=why)
    with pytest.raises(UnknownDuty) as caught:
        desk.stop("nope", who="ann", why="x")
    assert caught.value.known == ["orders"]
