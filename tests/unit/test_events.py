"""Subscribers get every event; one that fails harms nobody."""

from __future__ import annotations

import pytest

from towpath.core.events import Event, EventKind, Events

EVENT = Event(EventKind.PROCESS_DIED, "p-1", who="towpath", why="its lease ran out", data={"pid": 7})


def test_every_subscriber_gets_every_event_in_order() -> None:
    events, first, second = Events(), list[Event](), list[Event]()
    events.subscribe(first.append)
    events.publish(EVENT)
    events.subscribe(second.append)
    other = Event(EventKind.PROCESS_STOPPED, "p-2")
    events.publish(other)
    assert first == [EVENT, other]
    assert second == [other]


def test_a_failing_subscriber_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    events, got = Events(), list[Event]()

    def fail(_: Event) -> None:
        raise RuntimeError("no room")

    events.subscribe(fail)
    events.subscribe(got.append)
    events.publish(EVENT)
    assert got == [EVENT]
    [record] = caplog.records
    assert "process_died" in record.getMessage()
    assert record.exc_info is not None


def test_unsubscribing_ends_it_and_may_be_repeated() -> None:
    events, got = Events(), list[Event]()
    unsubscribe = events.subscribe(got.append)
    unsubscribe()
    unsubscribe()
    events.publish(EVENT)
    assert got == []


def test_a_subscriber_may_unsubscribe_itself_while_being_told() -> None:
    events, got = Events(), list[str]()

    def once(event: Event) -> None:
        got.append(event.subject)
        unsubscribe()

    unsubscribe = events.subscribe(once)
    events.subscribe(lambda event: got.append(f"also {event.subject}"))
    events.publish(EVENT)
    events.publish(EVENT)
    assert got == ["p-1", "also p-1", "also p-1"]
