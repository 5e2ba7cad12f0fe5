"""A join on columns that dies with its outputs written, and again with its row committed and Spark's state not."""

from __future__ import annotations

from collections import Counter
from uuid import uuid4
from zlib import crc32

import pytest
from tests.integration.test_column_join import HOUR, balance, bought, loaded, one, send, watermarks
from tests.support.flows import World

from towpath.core import crash
from towpath.core.crash import Armed, CrashPoint
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.flow import Flow
from towpath.flow.stateful.column_state import join_key
from towpath.flow.stateful.operators import SHARDS


def beside(id: int) -> int:
    """Another id whose records come to the same shard."""
    home = crc32(join_key([id]) or b"") % SHARDS
    return next(other for other in range(id + 1, 100_000) if crc32(join_key([other]) or b"") % SHARDS == home)


def dies_at(world: World, flow: Flow, point: CrashPoint) -> bool:
    """The next attempt knows nothing of it."""
    runtime = world.connect()
    crash.arm(Armed(point, once=world.home / f"crash-{uuid4().hex}", victim=0))
    try:
        world.run(flow)
    except crash.Crashed:
        return True
    finally:
        crash.arm(None)
        world.runtimes.remove(runtime)
        runtime.close()
    return False


@pytest.mark.part("kills")
def test_nothing_is_lost_or_doubled(embedded: World) -> None:
    """In the batch that dies one leaves without partner, one is late, and one meets a partner of the batch before.

    A second attempt that had the watermark of its own first attempt, or state that it had changed, would find another
    result. Nor may a time before 1970 be due before there is a watermark: no run would come to its end.
    """
    flow = bought(embedded.home)
    send(embedded, flow, [one("end", 0, 9 * HOUR), one("old", 1, "1001-01-01T00:00:00Z")])
    embedded.run(flow)
    send(embedded, flow, payments=[one("far", 0, 9 * HOUR + 1), one("p", 2, 0)])
    assert dies_at(embedded, flow, CrashPoint.BATCH_COMMITTED), "before a tick is sent"
    send(embedded, flow, [one("new", beside(1), 10 * HOUR), one("late", 3, HOUR)], [one("more", 0, 10 * HOUR)])
    assert dies_at(embedded, flow, CrashPoint.BATCH_LOADED)
    assert watermarks(embedded, flow) == [None, None, 9 * HOUR - 600_000]
    assert dies_at(embedded, flow, CrashPoint.BATCH_COMMITTED)
    embedded.connect()
    embedded.run(flow)
    assert loaded(embedded.home) == {("end", "far"): 1, ("end", "more"): 1}
    errors = Counter((error.failure.exception, error.topic) for error in embedded.errors(flow))
    assert errors == {
        ("Late", "bought-orders"): 1,
        ("Unmatched", "bought-orders"): 1,
        ("Unmatched", "bought-payments"): 1,
    }
    found = balance(embedded, flow)
    assert (
        found[RecordPlace.LOADED],
        found[RecordPlace.AGGREGATED],
        found[RecordPlace.FAILED],
        found[RecordPlace.JOINING],
    ) == (2, 1, 3, 1)
