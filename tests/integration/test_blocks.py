"""Block rules on both databases: who has made them, until when they count, and what they have caught."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from tests.support.sweep import sweep
from tests.support.tables import by_hand, events, rows

from towpath.blocks.rule import BlockAction, BlockMatch, BlockState
from towpath.blocks.service import MOST_IN_FORCE, BlockStore, end_of
from towpath.errors import BadBlock, BadName, BadValue, IllegalBlockMove, UnknownBlock
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ann", "why": "noise"}
DAY_S = 86_400.0
LATE = "2100-01-01"


def add(runtime: Runtime, *, until: Any = LATE, action: BlockAction = BlockAction.IGNORE, **match: str) -> int:
    match = match or {"key": "k"}
    return runtime.blocks.add(action, BlockMatch.of(**match), until=until, **BY).rule.number


def in_force(runtime: Runtime) -> list[int]:
    return [rule.number for rule in runtime.blocks.in_force().rules]


def test_a_rule_from_the_first_day_to_the_last(runtime: Runtime) -> None:
    match = BlockMatch.of(topic="orders", prefix="bot-", where="value.n > 1")
    made = runtime.blocks.add(BlockAction.REFUSE, match, until=LATE, approved_by="Bea", **BY)
    assert (made.rule.action, made.rule.match, made.rule.why) == (BlockAction.REFUSE, match, "noise")
    assert (made.state, made.approved_by, made.made_by, made.caught) == (BlockState.ACTIVE, "Bea", "ann", 0)
    assert made.until == datetime(2100, 1, 2, tzinfo=UTC)
    number = made.rule.number
    assert runtime.blocks.show(number) == made
    assert in_force(runtime) == [number]
    gone = runtime.blocks.withdraw(number, who="bob", why="it was us")
    assert (gone.state, gone.withdrawn_by, gone.withdrawn_why) == (BlockState.WITHDRAWN, "bob", "it was us")
    assert in_force(runtime) == []
    told = [(row["subject"], row["who"], row["why"]) for row in events(runtime.database, "block_changed_by_hand")]
    assert told == [(str(number), "ann", "noise"), (str(number), "bob", "it was us")]


def test_a_rule_ends_by_itself(runtime: Runtime) -> None:
    ending = add(runtime, until=runtime_now(runtime) + timedelta(hours=1))
    staying = add(runtime)
    assert in_force(runtime) == [ending, staying]
    runtime.database.shift_clock(3601)
    runtime.blocks.forget()
    assert in_force(runtime) == [staying]
    assert runtime.blocks.show(ending).state is BlockState.ENDED
    for state, expected in ((BlockState.ENDED, [ending]), (BlockState.ACTIVE, [staying])):
        assert [each.rule.number for each in runtime.blocks.list(state=state)] == expected


@pytest.mark.parametrize("state", [BlockState.ENDED, BlockState.WITHDRAWN])
def test_only_what_counts_is_withdrawn(state: BlockState, runtime: Runtime) -> None:
    number = add(runtime, until=runtime_now(runtime) + timedelta(hours=1))
    if state is BlockState.ENDED:
        runtime.database.shift_clock(3601)
    else:
        runtime.blocks.withdraw(number, **BY)
    with pytest.raises(IllegalBlockMove) as caught:
        runtime.blocks.withdraw(number, **BY)
    assert (caught.value.number, caught.value.state) == (number, state)
    assert caught.value.allowed == (BlockState.ACTIVE,)
    with pytest.raises(UnknownBlock, match="99"):
        runtime.blocks.withdraw(99, **BY)


def test_what_is_wrong_about_a_rule(runtime: Runtime) -> None:
    with pytest.raises(BadBlock, match="future"):
        add(runtime, until="2001-01-01")
    with pytest.raises(BadName):
        runtime.blocks.add(BlockAction.IGNORE, BlockMatch.of(key="k"), until=LATE, who=" ", why="x")
    with pytest.raises(BadValue):
        runtime.blocks.add(BlockAction.IGNORE, BlockMatch.of(key="k"), until=LATE, who="ann", why=" ")
    assert rows(runtime.database, "block_rule") == []
    assert events(runtime.database, "block_changed_by_hand") == []


@pytest.mark.parametrize("until", ["soon", "2100-13-01", "2100-01-01T10:00:00", datetime(2100, 1, 1)])  # noqa: DTZ001 - that is what is wrong
def test_an_end_is_a_date_or_a_time_with_its_zone(until: Any) -> None:
    with pytest.raises(BadBlock, match="until"):
        end_of(until)


def test_a_date_counts_to_its_end() -> None:
    assert end_of("2100-01-01") == end_of(date(2100, 1, 1)) == datetime(2100, 1, 2, tzinfo=UTC)
    assert end_of("2100-01-01T10:00:00+02:00") == datetime(2100, 1, 1, 8, tzinfo=UTC)


def test_pages_are_cut_by_number(runtime: Runtime) -> None:
    numbers = [add(runtime) for _ in range(5)]
    first = runtime.blocks.list(limit=2)
    assert [each.seq for each in first] == numbers[:2:-1]
    assert [each.seq for each in runtime.blocks.list(limit=10, before=first[-1].seq)] == numbers[2::-1]


def test_there_are_only_so_many(runtime: Runtime) -> None:
    with runtime.database.transaction() as tx:
        store = BlockStore(runtime.database)
        said: dict[str, Any] = {"approved_by": "ann", "made_by": "ann", "why": "noise", "ends_us": 2**60}
        made = [store.add(tx, BlockAction.IGNORE, BlockMatch.of(key="k"), **said) for _ in range(MOST_IN_FORCE)]
    with pytest.raises(BadBlock, match="most"):
        add(runtime)
    runtime.blocks.withdraw(made[0].rule.number, **BY)
    add(runtime)
    assert len(runtime.blocks.in_force().rules) == MOST_IN_FORCE


def test_what_was_caught_is_counted_with_other_work_or_not_at_all(runtime: Runtime) -> None:
    number, store = add(runtime), BlockStore(runtime.database)
    with runtime.database.transaction() as tx:
        store.note_caught(tx, {number: 3, 99: 1})
    with pytest.raises(RuntimeError), runtime.database.transaction() as tx:
        store.note_caught(tx, {number: 3})
        raise RuntimeError
    found = runtime.blocks.show(number)
    assert found.caught == 3
    assert found.caught_at is not None


def test_rules_that_are_over_are_forgotten_in_time(runtime: Runtime) -> None:
    gone, staying = add(runtime), add(runtime)
    runtime.blocks.withdraw(gone, **BY)
    assert runtime.access.janitor().clean()["blocks"] == 0
    runtime.database.shift_clock(366 * DAY_S)
    assert runtime.access.janitor().clean()["blocks"] == 1
    assert [each.rule.number for each in runtime.blocks.list()] == [staying]
    assert add(runtime) > staying, "a number is never given twice"


@sweep(
    "change",
    [
        "update block_rule set record_key = null",
        "update block_rule set key_prefix = 'k'",
        "update block_rule set ends_at = made_at",
        "update block_rule set withdrawn_at = 1",
        "update block_rule set caught = 1",
        "update block_rule set approved_by = ''",
    ],
)
def test_what_the_table_itself_refuses(change: str, runtime: Runtime) -> None:
    add(runtime)
    with pytest.raises(Exception, match=r"(?i)constraint"):
        by_hand(runtime.database, change)


def runtime_now(runtime: Runtime) -> datetime:
    return datetime.fromtimestamp(runtime.database.now() / 1_000_000, tz=UTC)
