"""Units of batches as a sink is handed them, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.integration.test_sink_index import PLACE, deliveries, through_pickle

from towpath.flow.delivery.ids import DeliveryIds, Strategy
from towpath.flow.sinks.sink import Deliveries, Refusal, Sink, WriterContext

IDS = DeliveryIds("flow", "stage", "output")
WAIT_S = 60
EXACTLY = Strategy.EXACTLY_ONCE


def place(batch_id: int = 0, *, launch: int = 1, unit: str = "orders/0", **more: Any) -> WriterContext:
    """A place of a flow that delivers exactly once."""
    given = {"strategy": EXACTLY, "hash": f"hash-{batch_id}", **more}
    return replace(PLACE, batch_id=batch_id, launch=launch, unit=unit, **given)


def delivery_ids(numbers: Sequence[int]) -> list[bytes]:
    return IDS.many("topic-id", 0, numbers, [0] * len(numbers))


def unit(numbers: Sequence[int], documents: Sequence[Any] | None = None, **columns: Any) -> Deliveries:
    """Deliveries of the records at these offsets."""
    found = documents or [{"n": number} for number in numbers]
    named = {"ids": [f"id-{number}" for number in numbers], "versions": list(numbers)}
    return deliveries(found, delivery_ids=delivery_ids(numbers), **{**named, **columns})


def attempt(sink: Sink, at: WriterContext, *handed: Deliveries) -> list[Refusal]:
    """One attempt at a unit, by a writer of its own."""
    writer = through_pickle(sink).writer(at)
    try:
        refusals = [refusal for each in handed for refusal in writer.write(each)]
        return [*refusals, *writer.finish()]
    finally:
        writer.close()


def refused_offsets(refusals: Sequence[Refusal]) -> list[int]:
    return sorted(each.deliveries.versions[each.at] for each in refusals)


def at_once(*acts: Callable[[], Any]) -> list[BaseException]:
    """Do these in threads of their own; returns what they raised."""
    raised: list[BaseException] = []

    def one(act: Callable[[], Any]) -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=one, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    return raised
