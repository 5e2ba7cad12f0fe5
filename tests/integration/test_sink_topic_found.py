"""Parts that are there already, where what is offered again is not what was written; generations that have ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.logs import Place as LogPlace
from tests.support.marked import Bench

from towpath.errors import NeedsPerson, SinkError
from towpath.flow.delivery.marks import PartManifest
from towpath.flow.delivery.splitter import PartLimits
from towpath.flow.sinks.topic.logs import kept_logs
from towpath.flow.sinks.topic.writer import FoundParts
from towpath.flow.topics import producer_of
from towpath.log import Log
from towpath.settings import Settings


@pytest.fixture
def bench(log: Log, place: LogPlace, name: str) -> Iterator[Bench]:
    yield Bench(log, Settings(database=place.database, log=place.log), name)
    kept_logs.close()


@pytest.fixture
def two_parts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three deliveries each; the attempt at it ended there."""
    monkeypatch.setattr("towpath.flow.sinks.topic.writer.limits_of", lambda log: PartLimits(3, 1 << 20))
    with bench.writer() as writer:
        writer.write(bench.deliveries(*range(1, 9)))
    bench.wait_for(range(1, 7), {bench.mark(0), bench.mark(1)})


@pytest.mark.usefixtures("two_parts")
@pytest.mark.parametrize(
    ("left", "part"),
    [([2, 3, 4, 5, 6, 7, 8, 9], 0), ([1, 2, 3, 4, 6, 7, 8], 1), ([1, 2, 3, 4, 5], 1), ([1, 2, 3], 1), ([], 0)],
    ids=["its beginning", "something within", "its end", "a part", "all"],
)
def test_a_unit_of_which_the_log_has_forgotten_some_is_not_gone_on_with(
    bench: Bench, left: list[int], part: int
) -> None:
    """The mark of a part would stand for other deliveries: some would be passed over that nobody has written."""
    with pytest.raises(NeedsPerson, match=rf"part {part}, of batch 3.*towpath flow reset"):
        bench.write(bench.deliveries(*left))
    bench.wait_for(range(1, 7), {bench.mark(0), bench.mark(1)})


@pytest.mark.usefixtures("two_parts")
def test_without_the_sum_of_ids_deliveries_are_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin, which the test above would find."""
    monkeypatch.setattr(FoundParts, "_compare", lambda *_: None)
    bench.write(bench.deliveries(*range(3, 11)))
    bench.wait_for([1, 2, 3, 4, 5, 6, 9, 10], {bench.mark(part) for part in range(3)})  # 7 and 8 are nowhere


@pytest.mark.parametrize("place", ["kafka"], indirect=True)
def test_a_whole_unit_may_come_in_another_order_but_not_with_others(bench: Bench) -> None:
    bench.write(bench.deliveries(1, 2, 3))
    bench.write(bench.deliveries(3), bench.deliveries(1, 2))  # as a bucket of a stage that shuffles
    with pytest.raises(NeedsPerson, match="3 deliveries"):
        bench.write(bench.deliveries(1, 2, 4))
    with pytest.raises(NeedsPerson, match="now 2 "):
        bench.write(bench.deliveries(1, 2))
    bench.wait_for([1, 2, 3], {bench.mark()})


def test_a_mark_without_a_sum_is_believed(bench: Bench, log: Log) -> None:
    """Of an older version."""
    producer = log.producer(producer_of(bench.flow, "stage", "output", bench.unit))
    with producer.transaction() as tx:
        tx.append(bench.marks.name, bench.marks.records(bench.mark(), PartManifest(2), producer.name))
    producer.close()
    bench.write(bench.deliveries(1, 2))
    bench.wait_for([], {bench.mark()})


def test_who_comes_after_the_fence_writes_nothing(bench: Bench) -> None:
    with bench.writer(unit="orders/1") as kept:  # a worker may keep its producer
        kept.write(bench.deliveries(1))
        kept.finish()
    bench.marks.fence(bench.flow, "another", 2)
    bench.marks.fence(bench.flow, "stage", 1)
    bench.write(bench.deliveries(2))
    bench.marks.fence(bench.flow, "stage", 2)
    for unit in ("orders/0", "orders/1"):
        with pytest.raises(SinkError, match=r"generation 1 .*generation 2 "):
            bench.write(bench.deliveries(3), unit=unit, batch_id=4)
    bench.wait_for([1, 2], {bench.mark(), bench.mark()._replace(unit="orders/1")})


@pytest.mark.parametrize("place", ["kafka"], indirect=True)
def test_a_fence_behind_the_open_transaction_of_a_dead_task_is_found(bench: Bench, log: Log) -> None:
    """Readers of committed records do not see it."""
    dead = log.producer(producer_of(bench.flow, "stage", "output", "orders/1"))
    block = dead.transaction()
    tx = block.__enter__()
    tx.append(bench.marks.name, bench.marks.records(bench.mark()._replace(unit="orders/1"), PartManifest(0), dead.name))
    tx.flush()
    bench.marks.fence(bench.flow, "stage", 2)
    with pytest.raises(SinkError, match="generation 1 "):
        bench.write(bench.deliveries(1))
    dead.close()
    bench.wait_for([], set())
