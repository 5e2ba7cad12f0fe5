"""What a sender sends twice is loaded once, over batches, partitions, restarts and both logs."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.flows import World
from tests.support.numbered import Sent, loaded, orders, send

from towpath import Flow, topic
from towpath.errors import BadFlow
from towpath.flow.audit.audit import Audit
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.flow import Flow as FlowType
from towpath.flow.stateful import Dedupe, field, header, key
from towpath.log import NewRecord


def balance(world: World, flow: FlowType) -> dict[str, int]:
    """What the audit finds, nothing being wrong."""
    verdict = Audit(world.runtime.database, world.runtime.log, flow.name, deep=flow).run()
    assert verdict.problems == []
    assert verdict.balance.difference == 0
    return {str(place): count for place, count in verdict.balance.places.items() if count}


def test_what_was_sent_before_is_dropped_and_counted(world: World, name: str) -> None:
    """Several senders over two partitions; repeats within a batch, in a later one, and after a restart."""
    flow = orders(world.home, name=name, source=f"{name}-orders")
    first = [Sent("a", 1, "a1"), Sent("b", 1, "b1"), Sent("a", 2, "a2", partition=1), Sent("a", 1, "again")]
    send(world, first, f"{name}-orders")
    world.run(flow)
    assert loaded(world.home) == ["a1", "a2", "b1"]
    more = [Sent("a", 2, "again"), Sent("a", 3, "a3"), Sent("b", 3, "b3"), Sent("b", 2, "b2"), Sent("b", 1, "no")]
    send(world, more, f"{name}-orders")
    world.run(flow)
    assert loaded(world.home) == ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert world.counts(flow) == Counter(read=9, loaded=6, delivered=6, duplicate=3)
    assert world.errors(flow) == []
    assert balance(world, flow) == {RecordPlace.LOADED: 6, RecordPlace.DUPLICATE: 3}


@pytest.mark.part("flows")
def test_late_missing_and_restarted_senders(embedded: World) -> None:
    """One partition, so that the order is that of sending. The default for what is late is the error topic."""
    dedupe = Dedupe(header("sender"), header("n"), epoch=header("epoch"), window=3, missing="error")
    flow = orders(embedded.home, dedupe)
    sent = [
        *(Sent("a", n, f"a{n}", epoch=1) for n in (1, 2, 9, 7)),  # 7 is reordered, inside the window
        Sent("a", 7, "again", epoch=1),
        Sent("a", 5, "late", epoch=1),
        Sent("a", 2, "again", epoch=1),  # behind the window, but known
        Sent("a", 1, "anew", epoch=2),
        Sent("a", 3, "of the epoch before", epoch=1),
        Sent(None, 1, "no sender", epoch=1),
        Sent("a", "seven", "no number", epoch=2),
        Sent("a", 2, "no epoch"),
    ]
    send(embedded, sent, partitions=1)
    embedded.run(flow)
    assert loaded(embedded.home) == ["a1", "a2", "a7", "a9", "anew"]
    errors = sorted(embedded.errors(flow), key=lambda one: one.offset)
    assert [(one.offset, one.failure.code, one.failure.exception) for one in errors] == [
        (5, 8, "Late"),
        (8, 8, "Late"),
        (9, 8, "NotNumbered"),
        (10, 8, "NotNumbered"),
        (11, 8, "NotNumbered"),
    ]
    assert embedded.counts(flow) == Counter(read=12, loaded=5, delivered=5, duplicate=2, failed=5)
    assert balance(embedded, flow) == {RecordPlace.LOADED: 5, RecordPlace.DUPLICATE: 2, RecordPlace.FAILED: 5}


@pytest.mark.part("flows")
def test_by_key_and_fields_and_with_late_ones_taken(embedded: World) -> None:
    """What is no JSON has no number: it is read, and fails as such. Bytes go through as they came."""
    flow = orders(embedded.home, Dedupe(key(), field("$.meta.n"), window=0, late="take"))
    log = embedded.runtime.log
    log.create_topic("orders", 1)
    texts = [b'{"meta": {"n": 5}, "name": "five"}', b'{"meta":{"n":3},  "name":"three", "x": 1.50}', b"{", b'{"n": 3}']
    log.append("orders", [NewRecord(text, b"me") for text in (*texts[:2], texts[1], *texts[2:])])
    embedded.run(flow)
    assert embedded.counts(flow) == Counter(read=5, loaded=3, delivered=3, duplicate=1, failed=1)
    assert [each.failure.code for each in embedded.errors(flow)] == [7]
    embedded.runtime.log.append("orders", [NewRecord(texts[0], b"me"), NewRecord(texts[1], b"you")])
    embedded.run(flow)
    assert embedded.counts(flow)["duplicate"] == 2
    assert embedded.counts(flow)["loaded"] == 4, "another key is another sender"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda: Dedupe("sender", header("n")), "sender"),  # type: ignore[arg-type]
        (lambda: Dedupe(key(), header("n"), window=-1), "window"),
        (lambda: Dedupe(key(), header("n"), late="never"), "late"),  # type: ignore[arg-type]
        (lambda: Dedupe(key(), header("n"), missing="drop"), "missing"),  # type: ignore[arg-type]
        (lambda: field("$.a[0]"), "name"),
        (lambda: Flow("x").load(topic("a"), topic("b", dedupe=Dedupe(key(), header("n")))), "read"),
    ],
)
def test_what_cannot_be_is_refused(wrong: object, why: str) -> None:
    with pytest.raises(BadFlow, match=why):
        wrong()  # type: ignore[operator]


def test_the_shape_says_how_duplicates_are_known(embedded: World) -> None:
    [before], [after] = (orders(embedded.home, dedupe).stages() for dedupe in (None, Dedupe(key(), header("n"))))
    assert (before.is_stateful, after.is_stateful) == (False, True)
    assert before.fingerprint() != after.fingerprint()
