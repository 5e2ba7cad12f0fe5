"""The ledger: each batch moves forward once, only for the process that runs its stage, and adds up."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.quiet import Quiet
from tests.support.staging import Acting
from tests.support.sweep import sweep
from tests.support.tables import by_hand, rows

from towpath.db import Queries
from towpath.errors import DatabaseError, FlowHalted, IllegalFlowMove, NotTheOnlyOne
from towpath.flow.delivery.ids import batch_hash
from towpath.flow.delivery.ledger import MOVES, Batch, BatchState, Counts, Gap, Ledger, added
from towpath.flow.delivery.positions import OffsetRange, Positions
from towpath.flow.stage.store import StageStore

FLOW, STAGE, ME = "page-views", "main", "me"
CHART = Path(__file__).resolve().parents[2] / "docs" / "reference" / "flow-states.md"


def upto(stop: int, start: int = 0) -> Positions:
    return Positions.of([OffsetRange("clicks", "id-1", 0, start, stop), OffsetRange("clicks", "id-1", 1, 4, 4)])


def key(batch: Batch) -> tuple[str, str, int, int]:
    return batch.flow, batch.stage, batch.generation, batch.batch_id


class Book:
    """A stage in its first generation, and its ledger."""

    def __init__(self, quiet: Quiet) -> None:
        self.database = quiet.database
        self.ledger = Ledger(quiet.database, ME)
        self.stages = StageStore(quiet.database)
        with self.database.transaction() as tx:
            self.stages.ensure(tx, FLOW, STAGE, {})
            taken = self.stages.take(tx, FLOW, STAGE, ME)
            self.stages.save_machine(tx, FLOW, STAGE, ME, taken.machine.started(1))
            self.stage = self.stages.new_generation(tx, taken, ME, checkpoint="/c", starting=upto(0), topics={})

    def do(self, method: str, *arguments: Any, **named: Any) -> Any:
        with self.database.transaction() as tx:
            return getattr(self.ledger, method)(tx, *arguments, **named)

    def snapshot(self, batch_id: int, positions: Positions, generation: int = 1) -> Batch:
        hash = batch_hash(FLOW, STAGE, generation, batch_id, positions)
        batch: Batch = self.do("snapshot", FLOW, STAGE, generation, batch_id, hash, positions, ["0", "1"])
        return batch

    def decide(self, batch: Batch, **values: Any) -> Batch:
        done: Batch = self.do("decide", *key(batch), **({"counts": {}} | values))
        return done

    def go_ahead(self, batch: Batch) -> Batch:
        done: Batch = self.do("go_ahead", *key(batch))
        return done

    def commit(self, batch: Batch, **values: Any) -> Batch:
        done: Batch = self.do("commit", *key(batch), **({"counts": {}, "digests": {}} | values))
        return done

    def in_state(self, state: BatchState) -> Batch:
        batch = self.snapshot(0, upto(9))
        if state is BatchState.SUPERSEDED:
            self.do("supersede_open", FLOW, STAGE)
        elif state is BatchState.DECIDED:
            self.decide(batch)
        elif state is BatchState.AHEAD:
            self.go_ahead(batch)
        elif state is BatchState.COMMITTED:
            self.commit(batch)
        return batch

    def pass_to(self, owner: str) -> None:
        by_hand(self.database, "update flow_stage set owner = :owner", owner=owner)


@pytest.fixture
def book(quiet: Quiet) -> Book:
    return Book(quiet)


def test_the_whole_way_of_a_batch(book: Book) -> None:
    batch = book.snapshot(0, upto(9))
    assert batch.hash == batch_hash(FLOW, STAGE, 1, 0, upto(9))
    assert (batch.state, batch.attempts, batch.positions) == (BatchState.SNAPSHOT, 1, upto(9))
    assert batch.units == ["0", "1"]
    decided = book.decide(batch, counts={"read": 9}, timings={"transform": 0.5})
    assert decided == replace(
        batch,
        state=BatchState.DECIDED,
        counts={"read": 9},
        timings={"transform": 0.5},
        decided_at=decided.decided_at,
    )
    counts: Counts = {"read": 9, "loaded": {"views": 6}, "filtered": {"label": 1}, "failed": {"9": 2}}
    digests = {"views": {"0": "ab" * 32}}
    done = book.commit(batch, counts=counts, digests=digests, timings={"load": 1.5})
    assert done == replace(
        decided,
        state=BatchState.COMMITTED,
        counts=counts,
        digests=digests,
        timings={"load": 1.5},
        committed_at=done.committed_at,
    )
    assert decided.decided_at is not None
    assert done.committed_at is not None
    assert batch.started_at <= decided.decided_at <= done.committed_at


def test_the_same_batch_again_is_another_attempt(book: Book) -> None:
    first = book.snapshot(0, upto(9))
    assert book.snapshot(0, upto(9)) == replace(first, attempts=2)
    decided = book.decide(first)
    assert book.snapshot(0, upto(9)) == replace(decided, attempts=3)
    done = book.commit(decided)
    assert book.snapshot(0, upto(9)) == replace(done, attempts=4)


def test_other_positions_under_the_same_number_halt(book: Book) -> None:
    book.snapshot(0, upto(9))
    before = rows(book.database, "flow_batch")
    with pytest.raises(FlowHalted, match=r'"0":\[0,9\]'):
        book.snapshot(0, upto(10))
    assert rows(book.database, "flow_batch") == before


def test_two_batches_are_never_open_at_once(book: Book) -> None:
    batch = book.snapshot(0, upto(9))
    with pytest.raises(FlowHalted, match=r"batch 1 .*batch 0 "):
        book.snapshot(1, upto(12, 9))
    book.commit(batch)
    assert book.snapshot(1, upto(12, 9)).state is BatchState.SNAPSHOT
    with pytest.raises(DatabaseError):
        by_hand(book.database, "update flow_batch set state = 'snapshot', committed_at = null where batch_id = 0")


def test_a_batch_of_another_generation_halts(book: Book) -> None:
    with pytest.raises(FlowHalted, match="generation 1"):
        book.snapshot(0, upto(9), generation=2)


def test_after_a_reset_the_number_may_come_again_but_not_the_batch(book: Book) -> None:
    given_up = book.snapshot(0, upto(9))
    assert book.do("supersede_open", FLOW, STAGE) == replace(given_up, state=BatchState.SUPERSEDED)
    assert book.do("supersede_open", FLOW, STAGE) is None
    with pytest.raises(FlowHalted, match="reset"):
        book.snapshot(0, upto(9))
    with book.database.transaction() as tx:
        book.stages.new_generation(tx, book.stage, ME, checkpoint="/c2", starting=upto(0), topics={})
    again = book.snapshot(0, upto(9), generation=2)
    assert again.state is BatchState.SNAPSHOT
    assert again.hash != given_up.hash


# Every state × every move

ACTS: dict[BatchState, Callable[[Book, Batch], Any]] = {
    BatchState.DECIDED: Book.decide,
    BatchState.AHEAD: Book.go_ahead,
    BatchState.COMMITTED: Book.commit,
}


# From which states a batch comes to each; from every other one that is refused.
COMES_FROM = {
    BatchState.DECIDED: (BatchState.SNAPSHOT,),
    BatchState.AHEAD: (BatchState.SNAPSHOT,),
    BatchState.COMMITTED: (BatchState.SNAPSHOT, BatchState.DECIDED, BatchState.AHEAD),
}


@sweep("target", ACTS)
@sweep("state", BatchState)
def test_every_act_in_every_state(book: Book, state: BatchState, target: BatchState) -> None:
    by_hand(book.database, "delete from flow_batch ")
    batch = book.in_state(state)
    if state in COMES_FROM[target]:
        assert ACTS[target](book, batch).state is target
        return
    before = rows(book.database, "flow_batch")
    with pytest.raises(IllegalFlowMove) as caught:
        ACTS[target](book, batch)
    assert (caught.value.state, caught.value.target) == (state, target)
    assert rows(book.database, "flow_batch") == before


@sweep(
    ("state", "is_closed"),
    [
        (BatchState.SNAPSHOT, True),
        (BatchState.DECIDED, True),
        (BatchState.AHEAD, True),
        (BatchState.COMMITTED, False),
        (BatchState.SUPERSEDED, False),
    ],
)
def test_superseding_closes_what_is_open(book: Book, state: BatchState, is_closed: bool) -> None:
    by_hand(book.database, "delete from flow_batch ")
    book.in_state(state)
    closed = book.do("supersede_open", FLOW, STAGE)
    assert (closed is not None) == is_closed


def test_the_chart_shows_exactly_the_moves() -> None:
    block = CHART.read_text(encoding="utf-8").split("## Batches")[1].split("```mermaid")[1].split("```")[0]
    arrows = {(a, b) for a, b in re.findall(r"^\s+(\w+) --> (\w+)", block, re.MULTILINE)}
    assert arrows == {(state.value, target.value) for state in MOVES for target in MOVES[state]}


def test_a_batch_that_nobody_fixed_cannot_move(book: Book) -> None:
    with pytest.raises(IllegalFlowMove) as caught:
        book.do("commit", FLOW, STAGE, 1, 7, counts={}, digests={})
    assert (caught.value.state, caught.value.target) == ("unknown", "committed")


# Who was replaced


def test_who_was_replaced_can_move_nothing(book: Book) -> None:
    batch = book.snapshot(0, upto(9))
    book.pass_to("successor")
    before = rows(book.database, "flow_batch"), rows(book.database, "flow_stage")
    acts: list[Callable[[], Any]] = [
        lambda: book.snapshot(0, upto(9)),
        lambda: book.decide(batch),
        lambda: book.commit(batch),
        lambda: book.do("supersede_open", FLOW, STAGE),
    ]
    for act in acts:
        with pytest.raises(NotTheOnlyOne, match="successor"):
            act()
    assert (rows(book.database, "flow_batch"), rows(book.database, "flow_stage")) == before
    book.ledger = Ledger(book.database, "successor")
    assert book.snapshot(0, upto(9)).attempts == 2


def test_a_stage_is_not_taken_away_under_an_open_commit(book: Book, make_quiet: Callable[..., Quiet]) -> None:
    """The commit holds the row of the stage until it has ended: a successor comes before it or after it."""
    batch, other = book.snapshot(0, upto(9)), make_quiet()

    def take_over() -> None:
        with other.database.transaction() as tx:
            book.stages.take(tx, FLOW, STAGE, "successor", dead=ME)

    with book.database.transaction() as tx:
        book.ledger.commit(tx, *key(batch), counts={"read": 1}, digests={})
        taking = Acting(take_over)
        taking._thread.join(0.3)
        assert not taking.is_done
    taking.result()
    assert [row["state"] for row in rows(book.database, "flow_batch")] == ["committed"]


# Reading


def test_pages_and_the_last_committed(book: Book) -> None:
    assert book.do("last_committed", FLOW, STAGE, 1) is None
    for number in range(5):
        book.commit(book.snapshot(number, upto(number + 1, number)))
    opened = book.snapshot(5, upto(6, 5))
    assert book.do("last_committed", FLOW, STAGE, 1).batch_id == 4
    assert book.do("open_batch", FLOW, STAGE) == opened
    first = book.do("batches", FLOW, STAGE, 4)
    assert [batch.batch_id for batch in first] == [5, 4, 3, 2]
    second = book.do("batches", FLOW, STAGE, 4, before=(1, 2))
    assert [batch.batch_id for batch in second] == [1, 0]
    assert book.do("batches", FLOW, "other", 4) == []


def test_totals_are_of_committed_batches_and_outlive_them(book: Book) -> None:
    first: Counts = {"read": 5, "loaded": {"a": 3, "b": 3}, "failed": {"9": 1}}
    second: Counts = {"read": 2, "loaded": {"a": 1}, "failed": {"7": 1}, "repeats": 1}
    for number, counts in enumerate([first, second]):
        book.commit(book.snapshot(number, upto(number + 1, number)), counts=counts)
    book.snapshot(2, upto(3, 2))
    total = {"read": 7, "loaded": {"a": 4, "b": 3}, "failed": {"7": 1, "9": 1}, "repeats": 1}
    assert book.do("totals", FLOW) == {STAGE: total} == {STAGE: added(second, first)}
    by_hand(book.database, "delete from flow_batch where state = 'committed'")
    assert book.do("totals", FLOW) == {STAGE: total}
    assert book.do("totals", "other") == {}


def test_a_commit_that_is_rolled_back_adds_nothing(book: Book) -> None:
    batch = book.snapshot(0, upto(9))
    with pytest.raises(RuntimeError), book.database.transaction() as tx:
        book.ledger.commit(tx, *key(batch), counts={"read": 9}, digests={})
        raise RuntimeError("cut off")
    assert book.do("totals", FLOW) == {STAGE: {}}
    assert book.do("open_batch", FLOW, STAGE) == batch


# Gaps


def test_a_gap_is_written_once_and_may_grow(book: Book) -> None:
    def add(gap: OffsetRange, batch_id: int | None = 7) -> Any:
        return book.do("add_gap", FLOW, STAGE, 1, gap, "deleted before it was read", batch_id)

    gap = OffsetRange("clicks", "id-1", 0, 3, 8)
    assert add(gap)
    assert not add(gap)
    assert not add(gap._replace(stop=5))
    assert add(gap._replace(stop=9))
    assert add(gap._replace(partition=1), None)
    found: list[Gap] = book.do("gaps", FLOW)
    assert [(each.partition, each.start, each.stop, each.batch_id) for each in found] == [(0, 3, 9, 7), (1, 3, 8, None)]
    [first, _] = found
    rest = (first.flow, first.stage, first.generation, first.topic, first.topic_id, first.reason)
    assert rest == (FLOW, STAGE, 1, "clicks", "id-1", "deleted before it was read")
    assert book.do("gaps", FLOW, "other") == []


@sweep("change", [{"start": 8}, {"start": -1}, {"partition": -1}, {"topic_id": ""}])
def test_a_gap_that_is_none_is_refused(book: Book, change: dict[str, Any]) -> None:
    with pytest.raises(DatabaseError):
        book.do("add_gap", FLOW, STAGE, 1, OffsetRange("clicks", "id-1", 0, 3, 8)._replace(**change), "why")


REFUSED = [
    "update flow_batch set state = 'committed'",
    "update flow_batch set state = 'decided'",
    "update flow_batch set committed_at = 1",
    "update flow_batch set state = 'done'",
    "update flow_batch set hash = 'short'",
    "update flow_batch set counts = 'not json'",
    "update flow_batch set attempts = 0",
    "update flow_batch set generation = 0",
]


@sweep("statement", REFUSED)
def test_what_a_person_types_is_right_or_refused(book: Book, statement: str) -> None:
    book.snapshot(0, upto(9))
    with pytest.raises(DatabaseError):
        by_hand(book.database, statement)


# Queries

HOT = {
    "read_batch": "flow_batch",
    "last_committed": "flow_batch",
    "list_batches": "flow_batch",
    "open_batch": "flow_batch_open",
}


def test_hot_queries_go_by_an_index(book: Book) -> None:
    """Over a ledger of 20,000 batches, of which one is open."""
    numbers = {
        "sqlite": "(with recursive c (n) as (select 0 union all select n + 1 from c where n < 19999) select n from c)",
        "postgres": "generate_series(0, 19999) as n",
    }[book.database.dialect]
    by_hand(
        book.database,
        "insert into flow_batch (flow, stage, generation, batch_id, hash, positions, units, state, started_at,"
        f" committed_at) select flow, stage, 1, n, '{'0' * 64}', '[]', 'null', 'committed', 1, 2"
        f" from flow_stage, {numbers}",
    )
    book.snapshot(20_000, upto(1))
    queries = Queries("towpath.flow.delivery", "ledger", book.database.dialect)
    params = {"flow": FLOW, "stage": STAGE, "generation": 1, "batch_id": 500, "limit": 10}
    database: Any = book.database
    connection = database.connection()
    explain = "explain query plan" if book.database.dialect == "sqlite" else "explain"
    for name, index in HOT.items():
        lines = [" ".join(map(str, row)) for row in connection.execute(f"{explain} {queries[name].text}", params)]
        plan = "\n".join(lines)
        assert not re.search(r"SCAN flow_batch\b(?!.*INDEX)|Seq Scan|TEMP B-TREE|\bSort\b", plan), plan
        assert index in plan, plan
