"""Complaints on both databases: what readers say, which record it is about, and what is done about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.sweep import sweep
from tests.support.tables import by_hand, events, rows

from towpath.blocks.rule import BlockAction
from towpath.catalog.complaints.service import SPOT, group_of
from towpath.catalog.complaints.store import (
    Complaint,
    ComplaintMove,
    ComplaintOutcome,
    ComplaintState,
    DocumentOrigin,
    NewComplaint,
)
from towpath.errors import BadValue, IllegalComplaintMove, RecordUnknown, TooFast, UnknownComplaint, UnknownTopic
from towpath.flow.delivery.positions import Positions
from towpath.flow.stage.store import StageStore
from towpath.log import NewRecord
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ann", "why": "a test"}
ABOUT = NewComplaint("orders", "order-7", "This is not my order.", "reader@example.org")
DAY_S = 86_400.0


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], tmp_path: Path) -> Runtime:
    return make_runtime(log={"url": f"sqlite:///{tmp_path}/topics.db"}, complaints={"most_new": 3})


@pytest.fixture
def topic_id(runtime: Runtime) -> str:
    """Of a topic with three records, the last without a key, that a flow has begun to read."""
    topic = runtime.log.create_topic("orders", 1)
    records = [NewRecord(b'{"n": 1}', b"ann", (("from", b"shop"),)), NewRecord(b'{"n": 2}', b"bob")]
    runtime.log.append("orders", [*records, NewRecord(b'{"n": 3}')])
    return topic.id


def stage(runtime: Runtime, topic_ids: list[str], flow: str = "shop") -> None:
    """As if a flow had run."""
    store, owner = StageStore(runtime.database), runtime.process().id
    with runtime.database.transaction() as tx:
        store.ensure(tx, flow, "orders", {})
        row, topics = store.take(tx, flow, "orders", owner), {"orders": topic_ids}
        store.new_generation(tx, row, owner, checkpoint="c", starting=Positions.of([]), topics=topics)


def settled(runtime: Runtime, move: ComplaintMove, number: int) -> Complaint:
    complaints = runtime.complaints
    match move:
        case ComplaintMove.TAKE:
            return complaints.take(number, **BY)
        case ComplaintMove.DISMISS:
            return complaints.dismiss(number, reply="It is yours.", **BY)
        case ComplaintMove.BLOCK:
            return complaints.block(number, until="2100-01-01", **BY)
        case ComplaintMove.RERUN:
            return complaints.rerun(number, **BY)


def test_what_a_reader_says_is_kept(runtime: Runtime) -> None:
    made = runtime.complaints.make(ABOUT)
    assert (made.state, made.about, made.made_by, made.origin) == (ComplaintState.NEW, ABOUT, None, None)
    assert runtime.complaints.show(made.number) == made
    assert runtime.complaints.counts() == {"new": 1, "taken": 0, "settled": 0}
    [told] = events(runtime.database, "complaint_made")
    assert (told["subject"], told["who"]) == (str(made.number), "a reader")
    assert "reader@example.org" not in str(told["data"])


@sweep(
    ("name", "text"),
    [("target", ""), ("document", " "), ("said", ""), ("said", "x" * 5001), ("document", "x" * 1001), ("contact", "")],
)
def test_what_is_no_complaint(name: str, text: str, runtime: Runtime) -> None:
    said: dict[str, Any] = {"target": "orders", "document": "7", "said": "wrong", "contact": None, name: text}
    with pytest.raises(BadValue, match="1 to"):
        runtime.complaints.make(NewComplaint(**said))
    assert rows(runtime.database, "complaint") == []


def test_what_no_database_can_hold_is_spelt_out(runtime: Runtime) -> None:
    made = runtime.complaints.make(NewComplaint("orders", "7", "a\x00b \ud800"))
    assert made.about.said == "a\\0b \\ud800"


def test_readers_are_not_heard_without_end_and_the_staff_is(runtime: Runtime) -> None:
    made = [runtime.complaints.make(ABOUT) for _ in range(3)]
    with pytest.raises(TooFast):
        runtime.complaints.make(ABOUT)
    assert runtime.complaints.make(ABOUT, who="ann").made_by == "ann"
    for each in made[:2]:
        runtime.complaints.take(each.number, **BY)
    runtime.complaints.make(ABOUT)


# Where each move leads from every state but `settled`, from which all are refused.
WHERE_TO = {
    ComplaintMove.TAKE: ComplaintState.TAKEN,
    ComplaintMove.DISMISS: ComplaintState.SETTLED,
    ComplaintMove.BLOCK: ComplaintState.SETTLED,
    ComplaintMove.RERUN: ComplaintState.SETTLED,
}


@sweep("move", ComplaintMove)
@sweep("state", ComplaintState)
def test_every_move_from_every_state(
    state: ComplaintState, move: ComplaintMove, runtime: Runtime, topic_id: str
) -> None:
    number = runtime.complaints.make(ABOUT, who="ann").number
    runtime.complaints.link(number, "orders", 0, 0, **BY)
    if state is not ComplaintState.NEW:
        settled(runtime, ComplaintMove.TAKE if state is ComplaintState.TAKEN else ComplaintMove.DISMISS, number)

    def everything() -> list[Any]:
        tables = (rows(runtime.database, table) for table in ("complaint", "event", "block_rule"))
        return [*tables, runtime.log.ends("orders")]

    before = everything()
    if state is not ComplaintState.SETTLED:
        assert settled(runtime, move, number).state is WHERE_TO[move]
        return
    with pytest.raises(IllegalComplaintMove) as caught:
        settled(runtime, move, number)
    assert (caught.value.state, set(caught.value.allowed)) == (state, {ComplaintState.NEW, ComplaintState.TAKEN})
    assert everything() == before


def test_who_settled_it_why_and_what_the_reader_is_told(runtime: Runtime) -> None:
    number = runtime.complaints.make(ABOUT).number
    assert runtime.complaints.take(number, who="bob", why="mine").taken_by == "bob"
    assert runtime.complaints.take(number, who="cy", why="bob is ill").taken_by == "cy"
    done = runtime.complaints.dismiss(number, reply="It is yours.", who="cy", why="checked the bill")
    assert (done.outcome, done.settled_by, done.why, done.reply) == (
        ComplaintOutcome.DISMISSED,
        "cy",
        "checked the bill",
        "It is yours.",
    )
    with pytest.raises(BadValue, match="reply"):
        runtime.complaints.dismiss(number, reply=" ", **BY)
    with pytest.raises(UnknownComplaint):
        runtime.complaints.take(99, **BY)
    told = [(row["who"], row["why"]) for row in events(runtime.database, "complaint_changed_by_hand")]
    assert told == [("bob", "mine"), ("cy", "bob is ill"), ("cy", "checked the bill")]


# The record behind it


def test_an_id_that_is_a_place_leads_to_its_record(runtime: Runtime, topic_id: str) -> None:
    stage(runtime, ["another", topic_id])
    made = runtime.complaints.make(NewComplaint("orders", "orders:1:0:0:2", "wrong"))
    assert made.origin == DocumentOrigin("orders", topic_id, 0, 0)
    assert str(made.origin) == "orders/0/0"


@sweep("document", ["order-7", "orders:5:0:0", "strangers:0:0:0", "orders:x:0:0"])
def test_an_id_that_is_none_leads_nowhere(document: str, runtime: Runtime, topic_id: str) -> None:
    stage(runtime, [topic_id])
    assert runtime.complaints.make(NewComplaint("orders", document, "wrong"), who="ann").origin is None


def test_where_flows_do_not_agree_the_flow_has_to_be_named(runtime: Runtime, topic_id: str) -> None:
    stage(runtime, [topic_id], "shop")
    stage(runtime, ["older", topic_id], "bills")
    assert runtime.complaints.make(NewComplaint("orders", "orders:0:0:0", "wrong")).origin is None
    named = runtime.complaints.make(NewComplaint("orders", "orders:0:0:0", "wrong", flow="shop"))
    assert named.origin == DocumentOrigin("orders", topic_id, 0, 0)


def test_a_person_can_say_which_record_it_is(runtime: Runtime, topic_id: str) -> None:
    number = runtime.complaints.make(ABOUT).number
    with pytest.raises(RecordUnknown, match="complaint act"):
        runtime.complaints.rerun(number, **BY)
    with pytest.raises(UnknownTopic):
        runtime.complaints.link(number, "none", 0, 0, **BY)
    linked = runtime.complaints.link(number, "orders", 0, 1, **BY)
    assert (linked.state, linked.origin) == (ComplaintState.NEW, DocumentOrigin("orders", topic_id, 0, 1))


def test_blocking_makes_a_rule_for_the_key(runtime: Runtime, topic_id: str) -> None:
    number = runtime.complaints.make(ABOUT).number
    runtime.complaints.link(number, "orders", 0, 1, **BY)
    done = runtime.complaints.block(
        number, until="2100-01-01", action=BlockAction.REFUSE, approved_by="Bea", reply="Gone.", **BY
    )
    assert (done.outcome, done.reply) == (ComplaintOutcome.BLOCKED, "Gone.")
    assert done.rule is not None
    rule = runtime.blocks.show(done.rule)
    assert rule.rule.match.to_json() == {"topic": "orders", "key": "bob"}
    assert (rule.rule.action, rule.approved_by, rule.rule.why) == ("refuse", "Bea", f"complaint {number}: a test")


def test_without_a_key_nothing_is_blocked(runtime: Runtime, topic_id: str) -> None:
    number = runtime.complaints.make(ABOUT).number
    runtime.complaints.link(number, "orders", 0, 2, **BY)
    with pytest.raises(RecordUnknown, match="key"):
        runtime.complaints.block(number, until="2100-01-01", **BY)
    assert runtime.complaints.show(number).state is ComplaintState.NEW


def test_a_record_is_sent_again_once(runtime: Runtime, topic_id: str) -> None:
    """Also when somebody has died between sending and saying so."""
    number = runtime.complaints.make(ABOUT).number
    runtime.complaints.link(number, "orders", 0, 0, **BY)

    def die(*_: Any, **__: Any) -> None:
        raise RuntimeError("killed")

    complaints = runtime.complaints
    complaints._settle = die  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="killed"):
        complaints.rerun(number, **BY)
    assert runtime.complaints.show(number).state is ComplaintState.NEW
    assert runtime.log.positions(group_of(number)) == {SPOT: 1}
    assert runtime.complaints.rerun(number, **BY).outcome is ComplaintOutcome.RERUN
    sent = [(record.key, record.value, record.headers) for record in runtime.log.read("orders", 0, 3)]
    assert sent == [(b"ann", b'{"n": 1}', (("from", b"shop"),))]
    assert runtime.log.positions(group_of(number)) == {}


def test_a_record_that_is_gone_is_told(runtime: Runtime, topic_id: str) -> None:
    number = runtime.complaints.make(ABOUT).number
    runtime.complaints.link(number, "orders", 0, 0, **BY)
    runtime.log.delete_before("orders", {0: 1})
    with pytest.raises(RecordUnknown, match="log"):
        runtime.complaints.rerun(number, **BY)
    runtime.log.delete_topic("orders")
    runtime.log.create_topic("orders", 1)
    runtime.log.append("orders", [NewRecord(b"{}", b"another")])
    with pytest.raises(RecordUnknown, match="log"):
        runtime.complaints.block(number, until="2100-01-01", **BY)


# Lists


def test_pages_and_what_else_was_said(runtime: Runtime) -> None:
    numbers = [runtime.complaints.make(ABOUT, who="ann").number for _ in range(4)]
    other = runtime.complaints.make(NewComplaint("orders", "8", "wrong"), who="ann")
    runtime.complaints.take(numbers[0], **BY)
    complaints = runtime.complaints
    assert [each.seq for each in complaints.list(limit=2)] == [other.number, numbers[3]]
    assert [each.seq for each in complaints.list(state=ComplaintState.NEW, before=numbers[3])] == numbers[2:0:-1]
    assert [each.seq for each in complaints.list(state=ComplaintState.TAKEN)] == [numbers[0]]
    assert [each.seq for each in complaints.others(complaints.show(numbers[1]))] == [numbers[3], numbers[2], numbers[0]]
    assert list(complaints.others(other)) == []


def test_what_was_settled_long_ago_is_forgotten(runtime: Runtime) -> None:
    first, second = (runtime.complaints.make(ABOUT).number for _ in range(2))
    runtime.complaints.dismiss(first, reply="no", **BY)
    janitor = runtime.complaints.janitor()
    assert janitor.clean() == 0
    runtime.database.shift_clock(366 * DAY_S)
    assert janitor.run_once().done == 1
    assert [each.number for each in runtime.complaints.list()] == [second]


@sweep(
    "change",
    [
        "update complaint set state = 'settled'",
        "update complaint set state = 'taken'",
        "update complaint set topic = 'orders'",
        "update complaint set rule = 1",
        "update complaint set said = ''",
    ],
)
def test_what_the_table_itself_refuses(change: str, runtime: Runtime) -> None:
    runtime.complaints.make(ABOUT, who="ann")
    with pytest.raises(Exception, match=r"(?i)constraint"):
        by_hand(runtime.database, change)
