"""The audit's pure part: a consistent world balances, and any single change to it is found and located."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.audit_world import (
    FAILED,
    FILTERED,
    FLOW,
    ID,
    IDS,
    LOADED,
    OUTPUT,
    STAGE,
    TOPIC,
    Maker,
    World,
    error,
    gap_error,
    worlds,
)

from towpath.flow.audit.balance import Balance, settle
from towpath.flow.audit.rows import GapRow, Problem, ProblemKind, Unproven
from towpath.flow.delivery.ids import batch_hash
from towpath.flow.delivery.ledger import BatchState
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.delivery.positions import OffsetRange, Positions

FEW = settings(max_examples=40)


def problems(world: World) -> list[Problem]:
    return world.audit()[0]


def kinds(world: World) -> set[ProblemKind]:
    return {each.kind for each in problems(world)}


def simple(loaded: int = 10, fates: dict[int, str] | None = None) -> World:
    """Ten records of one partition in two batches of five."""
    offsets = list(range(loaded))
    maker = Maker({0: offsets}, {0: loaded}, {(0, at): (fates or {}).get(at, LOADED) for at in offsets})
    maker.batch({0: loaded // 2})
    maker.batch({0: loaded})
    return maker.world


def rehashed(world: World, at: int, positions: Positions) -> None:
    """Positions moved by somebody who knows how the hash is made."""
    row = world.batches[at]
    hash = batch_hash(FLOW, STAGE, row.generation, row.batch_id, positions)
    world.batches[at] = replace(row, positions=positions, hash=hash)


# What is right


@FEW
@given(worlds())
def test_a_consistent_world_balances(world: World) -> None:
    found, unproven, balance = world.audit()
    assert found == []
    assert unproven == []
    assert balance.difference == 0
    assert balance.arrived == sum(map(len, world.log.values()))


@FEW
@given(worlds(), st.data())
def test_errors_sent_again_after_a_crash_are_repeats(world: World, data: st.DataObject) -> None:
    assume(world.errors)
    world.errors.append(data.draw(st.sampled_from(world.errors)))
    assert problems(world) == []


@FEW
@given(worlds())
def test_a_batch_at_work_and_one_given_up_are_no_problem(world: World) -> None:
    last = world.batches[-1]
    assume(len(world.batches) > 1)
    for name in ("read", LOADED):
        world.totals[name] -= last.counts[name]
    for name in (FILTERED, FAILED, "delivered"):
        for part, count in last.counts[name].items():
            world.totals[name][part] -= count
    world.batches[-1] = replace(last, state=BatchState.SNAPSHOT)
    assert problems(world) == []


def test_what_a_reset_reads_again_has_arrived_once() -> None:
    world = simple()
    world.generation = 2
    world.batches += [
        replace(each, generation=2, hash=batch_hash(FLOW, STAGE, 2, each.batch_id, each.positions))
        for each in world.batches
    ]
    world.totals = {name: _twice(count) for name, count in world.totals.items()}
    found, _, balance = world.audit()
    assert found == []
    assert (balance.arrived, balance.again, balance.difference) == (10, 10, 0)


def _twice(count: Any) -> Any:
    return {name: 2 * each for name, each in count.items()} if isinstance(count, dict) else 2 * count


def test_what_was_deleted_is_not_provable_and_not_wrong() -> None:
    world = simple()
    world.starts = {0: 3}
    found, unproven, balance = world.audit()
    assert found == []
    assert [each.records for each in unproven] == [5]
    assert "batch 0 of generation 1" in unproven[0].what
    assert balance.arrived == 10


def test_a_topic_made_again_proves_nothing() -> None:
    world = simple()
    world.topic_id = "id-2"
    found, unproven, _ = world.audit()
    assert found == []
    assert len(unproven) == 2


def test_more_records_than_were_read_are_wrong_even_where_some_are_deleted() -> None:
    world = simple()
    world.starts = {0: 1}
    world.batches[0] = replace(world.batches[0], counts={**world.batches[0].counts, "read": 3, LOADED: 3})
    assert ProblemKind.READ in kinds(world)


def test_a_gap_before_a_batch_was_read() -> None:
    """The first three offsets were deleted before batch 0 came to them."""
    world = simple()
    place = OffsetRange(TOPIC, ID, 0, 0, 3)
    lean = Maker({0: list(range(3, 10))}, {0: 10}, {(0, at): LOADED for at in range(3, 10)})
    lean.batch({0: 5})
    lean.batch({0: 10})
    world = lean.world
    world.starts = {0: 3}
    world.gaps = [GapRow(1, place, 0)]
    world.errors = [gap_error(world.batches[0], place)]
    found, unproven, balance = world.audit()
    assert found == []
    assert unproven == []
    assert (balance.arrived, balance.skipped) == (7, 3)
    assert kinds(replace(world, errors=[])) == {ProblemKind.GAP}
    assert ProblemKind.GAP in kinds(replace(world, gaps=[]))
    grown = replace(world, gaps=[GapRow(1, place._replace(stop=4), 0)])
    assert ProblemKind.GAP in kinds(grown)


def test_places_of_others_are_taken_from_those_that_failed() -> None:
    balance = Balance(arrived=5)
    balance.places[RecordPlace.FAILED] = 5
    assert list(settle(balance, {RecordPlace.OPEN: 2, RecordPlace.WAITING: 1}, superseded=0, beyond=2)) == []
    assert balance.places == {RecordPlace.FAILED: 2, RecordPlace.OPEN: 2, RecordPlace.WAITING: 1}
    assert balance.difference == 0
    assert [each.kind for each in settle(balance, {RecordPlace.OPEN: 9}, superseded=0, beyond=2)] == [
        ProblemKind.PLACES
    ]


# What is found, each by any single change


@FEW
@given(worlds(), st.data())
def test_a_row_of_the_ledger_deleted(world: World, data: st.DataObject) -> None:
    gone = world.batches.pop(data.draw(st.integers(0, len(world.batches) - 1)))
    assume(gone.count("read"))
    found = problems(world)
    assert found
    assert any(each.kind in (ProblemKind.HOLE, ProblemKind.TOTALS) for each in found)


def test_a_hole_names_the_offsets() -> None:
    world = simple(30)
    extra = world.batches[1]
    rehashed(world, 1, Positions.of([OffsetRange(TOPIC, ID, 0, 15, 20)]))
    world.batches.append(replace(extra, batch_id=2, positions=Positions.of([OffsetRange(TOPIC, ID, 0, 20, 30)])))
    del world.batches[1]
    [hole] = [each for each in problems(world) if each.kind is ProblemKind.HOLE]
    assert (hole.batch_id, hole.places) == (1, (OffsetRange(TOPIC, ID, 0, 15, 20),))
    assert hole.where == "clicks, generation 1, batch 1, clicks/0 from 15 to 20"


@FEW
@given(worlds(), st.data())
def test_a_position_shifted(world: World, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(world.batches) - 1))
    row = world.batches[at]
    place = data.draw(st.sampled_from(list(row.positions)))
    start, stop = data.draw(st.tuples(st.integers(0, 30), st.integers(0, 30)))
    assume(start <= stop and (start, stop) != (place.start, place.stop))
    moved = [each if each is not place else each._replace(start=start, stop=stop) for each in row.positions]
    world.batches[at] = replace(row, positions=Positions.of(moved))
    found = [each for each in problems(world) if each.kind is ProblemKind.HASH]
    assert [each.batch_id for each in found] == [row.batch_id]


@FEW
@given(worlds(), st.integers(1, 5))
def test_a_position_shifted_with_its_hash(world: World, by: int) -> None:
    """Whoever can mend the hash still has to mend the neighbours, the counts and the sink."""
    assume(len(world.batches) > 1)
    first = world.batches[0]
    moved = [each._replace(stop=each.stop + by) for each in first.positions]
    rehashed(world, 0, Positions.of(moved))
    assert ProblemKind.BREAK in kinds(world)


@FEW
@given(worlds(), st.data())
def test_a_count_changed(world: World, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(world.batches) - 1))
    row = world.batches[at]
    name = data.draw(st.sampled_from(["read", LOADED, FILTERED, FAILED, "delivered"]))
    before = row.counts[name]
    after = {part: count + 1 for part, count in before.items()} if isinstance(before, dict) else before + 1
    world.batches[at] = replace(row, counts={**row.counts, name: after})
    assert problems(world)


@FEW
@given(worlds(), st.data())
def test_an_error_record_deleted(world: World, data: st.DataObject) -> None:
    assume(world.errors)
    gone = world.errors.pop(data.draw(st.integers(0, len(world.errors) - 1)))
    [found] = problems(world)
    assert (found.kind, found.batch_id) == (ProblemKind.FAILED, gone.batch_id)
    assert any(each.partition == gone.partition and each.start <= gone.offset < each.stop for each in found.places)


@FEW
@given(worlds())
def test_an_error_record_of_nobody(world: World) -> None:
    strange = replace(error(world.batches[0], 0, 0), hash="0" * 64, batch_id=99)
    world.errors.append(strange)
    [found] = problems(world)
    assert (found.kind, found.batch_id) == (ProblemKind.STRANGE_ERROR, 99)


@FEW
@given(worlds(), st.data())
def test_a_record_deleted_from_the_middle_of_a_topic(world: World, data: st.DataObject) -> None:
    number = data.draw(st.sampled_from(sorted(world.log)))
    gone = data.draw(st.sampled_from(world.log[number]))
    owners = [
        batch.batch_id
        for batch in world.batches
        for each in batch.positions
        if each.partition == number and each.start <= gone < each.stop
    ]
    assume(owners)
    world.log[number].remove(gone)
    [found] = problems(world)
    assert (found.kind, found.batch_id) == (ProblemKind.READ, owners[0])


@FEW
@given(worlds(), st.data())
def test_a_delivery_deleted_from_the_sink(world: World, data: st.DataObject) -> None:
    assume(world.sink)
    gone = world.sink.pop(data.draw(st.integers(0, len(world.sink) - 1)))
    [found] = problems(world)
    assert found.kind is ProblemKind.MISSING
    [place] = found.places
    assert gone in {IDS.of(ID, place.partition, place.start, ordinal) for ordinal in range(3)}


@FEW
@given(worlds(), st.data())
def test_a_delivery_doubled_in_the_sink(world: World, data: st.DataObject) -> None:
    assume(world.sink)
    twice = data.draw(st.sampled_from(world.sink))
    world.sink.append(twice)
    [found] = problems(world)
    assert (found.kind, found.found) == (ProblemKind.DOUBLED, "2 times")
    [place] = found.places
    assert twice in {IDS.of(ID, place.partition, place.start, ordinal) for ordinal in range(3)}


@FEW
@given(worlds(), st.one_of(st.binary(min_size=32, max_size=32), st.binary(max_size=70)), st.integers(0, 9))
def test_a_stranger_in_the_sink(world: World, id: bytes, at: int) -> None:
    """Whatever id it bears, and whatever is read after it."""
    world.sink.insert(at, id)
    [found] = problems(world)
    assert (found.kind, found.found) == (ProblemKind.STRANGER, f"row {id.hex()[:8]}")


def test_a_delivery_of_a_record_that_was_filtered() -> None:
    world = simple(fates={2: FILTERED})
    world.sink.append(IDS.of(ID, 0, 2, 0))
    [found] = problems(world)
    assert (found.kind, found.batch_id) == (ProblemKind.EXTRA, 0)
    assert found.places == (OffsetRange(TOPIC, ID, 0, 2, 3),)


def test_two_deliveries_missing_beside_filtered_ones() -> None:
    world = simple(fates={1: FILTERED, 4: FAILED})
    for offset in (0, 3):
        world.sink.remove(IDS.of(ID, 0, offset, 0))
    [found] = problems(world)
    assert found.places == (OffsetRange(TOPIC, ID, 0, 0, 1), OffsetRange(TOPIC, ID, 0, 3, 4))
    assert found.found == "3"


def test_many_deliveries_missing_beside_filtered_ones_are_bounded() -> None:
    world = simple(18, fates={1: FILTERED})
    for offset in (0, 3, 6):
        world.sink.remove(IDS.of(ID, 0, offset, 0))
    [found] = problems(world)
    assert {each.start for each in found.places} == {0, 3, 6}


def test_a_digest_changed() -> None:
    world = simple()
    world.batches[1] = replace(world.batches[1], digests={OUTPUT: {"0": "00" * 32}})
    [found] = problems(world)
    assert (found.kind, found.batch_id) == (ProblemKind.DIFFERENT, 1)


def test_offsets_passed_over_by_a_new_generation() -> None:
    world = simple(30)
    world.generation, world.starting = 2, Positions.of([OffsetRange(TOPIC, ID, 0, 35, 35)])
    world.ends, world.log = {0: 40}, {0: list(range(40))}
    [found] = problems(world)
    assert (found.kind, found.places) == (ProblemKind.JUMP, (OffsetRange(TOPIC, ID, 0, 30, 35),))
    passed = OffsetRange(TOPIC, ID, 0, 30, 35)
    world.gaps = [GapRow(1, passed)]
    [found] = problems(world)
    assert (found.kind, found.places) == (ProblemKind.GAP, (passed,))
    told = replace(gap_error(world.batches[0], passed), batch_id=None, hash="")
    world.errors.append(told)
    assert problems(world) == []
    world.errors[-1] = replace(told, stop=34)
    assert [each.kind for each in problems(world)] == [ProblemKind.GAP]


def test_a_topic_made_again_is_told_as_not_provable() -> None:
    world = simple()
    world.generation, world.starting = 2, Positions.of([OffsetRange(TOPIC, "id-2", 0, 0, 0)])
    found, unproven, _ = world.audit()
    assert [each.kind for each in found] == []
    assert isinstance(unproven[0], Unproven)
    assert "made again" in unproven[0].what


def test_rows_where_none_can_be() -> None:
    world = simple()
    world.batches[0] = replace(world.batches[0], state=BatchState.SUPERSEDED)
    assert ProblemKind.STRAY_ROW in kinds(world)
    world = simple()
    world.generation = 0
    assert ProblemKind.STRAY_ROW in kinds(world)


def test_a_batch_beyond_the_end_of_its_topic() -> None:
    world = simple()
    world.ends = {0: 8}
    assert ProblemKind.BEYOND in kinds(world)


def test_a_first_batch_that_does_not_begin_where_its_generation_does() -> None:
    world = simple()
    world.starting = Positions.of([OffsetRange(TOPIC, ID, 0, 2, 2)])
    [found] = problems(world)
    assert (found.kind, found.batch_id) == (ProblemKind.BREAK, 0)
