"""Parts of the gateway's HTTP that need no server: rates, places, turns, streams, bodies that come in pieces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import DatabaseUnavailable, TooFast
from towpath.gateway.outlet.service import OutletPage
from towpath.web.failures import of_towpath
from towpath.web.gateway.results import Portion, StreamFailure, as_events, as_lines, portions
from towpath.web.middleware import BodyReader, NotWhole
from towpath.web.visitors import BURST_S, MOST_KEYS, Rate, Rates, RequestSlots, WaitingLines


class Time:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


# Rates


@given(
    per_s=st.floats(0.5, 1e6),
    asked=st.lists(st.tuples(st.floats(0, 5), st.floats(1, 1e7)), max_size=60),
)
def test_over_time_nobody_gets_more_than_the_rate(per_s: float, asked: list[tuple[float, float]]) -> None:
    """But for the burst and the last one, which may be as large as it likes."""
    time = Time()
    rate = Rate(per_s, time)
    let_in, largest = 0.0, 0.0
    for after_s, amount in asked:
        time.now_s += after_s
        if rate.wait_s("k") == 0:
            rate.spend("k", amount)
            let_in += amount
            largest = max(largest, amount)
    most = max(1.0, per_s * BURST_S) + (time.now_s - 100.0) * per_s + largest
    assert let_in <= most * 1.000001


def test_who_waits_as_long_as_said_is_let_in() -> None:
    time = Time()
    rates = Rates(None, 1000.0, time)
    rates.admit("a")
    rates.spend_bytes("a", 10_000)
    with pytest.raises(TooFast, match=r"gateway\.bytes_per_s") as found:
        rates.admit("a")
    assert found.value.after_s == pytest.approx((10_000 - 1000 * BURST_S) / 1000)
    rates.admit("b")
    time.now_s += found.value.after_s
    rates.admit("a")
    answer = of_towpath(found.value)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "8")


def test_requests_are_counted_by_key() -> None:
    rates = Rates(1.0, None, Time())
    for _ in range(3):
        rates.admit("a")  # the burst, and one that is let in at zero
    with pytest.raises(TooFast, match=r"gateway\.requests_per_s"):
        rates.admit("a")
        rates.admit("a")
    rates.admit("b")


def test_without_a_rate_everything_is_let_in() -> None:
    rates = Rates(None, None, Time())
    for _ in range(1000):
        rates.admit("a")
        rates.spend_bytes("a", 1 << 30)


def test_keys_that_ask_no_more_are_forgotten() -> None:
    time = Time()
    rate = Rate(1.0, time)
    for number in range(MOST_KEYS):
        rate.spend(f"k{number}", 1)
    time.now_s += 10
    rate.spend("new", 1)
    assert len(rate._buckets) == 1


# Places and lines


def test_one_key_has_a_part_of_the_places() -> None:
    streams = RequestSlots("streams", 3, 2)
    with streams.held("a"), streams.held("a"):
        with pytest.raises(TooFast, match="2 streams"):
            streams.check("a")
        streams.check("b")
        with streams.held("b"), pytest.raises(TooFast, match="3 streams"):
            streams.check("c")
    streams.check("a")
    assert streams._taken == {}


@pytest.mark.parametrize("room", [1, 2])
def test_who_waits_in_one_line_comes_in_order(room: int) -> None:
    lines, under_way, most, order = WaitingLines(), 0, 0, []

    async def one(name: str, number: int) -> None:
        nonlocal under_way, most
        async with lines.one_of(room, name):
            order.append(number)
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1

    async def many(*names: str) -> None:
        await asyncio.gather(*(one(name, number) for number, name in enumerate(names)))

    asyncio.run(many(*"aaaaa"))
    assert (most, order) == (room, [0, 1, 2, 3, 4])
    asyncio.run(many(*"abc"))
    assert most == 3
    assert lines._lines == {}


def test_who_gives_up_waiting_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.web.visitors.PATIENCE_S", 0.01)
    lines = WaitingLines()

    async def entered() -> None:
        async with lines.one_of(1, "a"):
            raise AssertionError("it was not its turn")

    async def scene() -> None:
        async with lines.one_of(1, "a"):
            late = asyncio.create_task(entered())
            await asyncio.sleep(0)
            late.cancel()
            await asyncio.gather(late, return_exceptions=True)
            with pytest.raises(TooFast):
                await entered()
        assert lines._lines == {}

    asyncio.run(scene())


# Streams


def page(*rows: int, at: int, is_end: bool = False) -> OutletPage:
    return OutletPage(b"".join(b'{"row":%d}\n' % row for row in rows), len(rows), f"c{at}", is_end)


def streamed(
    pages: list[OutletPage | Exception],
    shape: Callable[[AsyncIterator[Portion]], AsyncIterator[bytes]] = as_lines,
    is_ending: Callable[[], bool] = lambda: False,
) -> bytes:
    """What comes of these, which are read one after the other."""
    asked: list[str] = []

    def read(cursor: str) -> OutletPage:
        asked.append(cursor)
        found = pages[len(asked)]
        if isinstance(found, Exception):
            raise found
        return found

    async def whole() -> bytes:
        first = pages[0]
        assert isinstance(first, OutletPage)
        return b"".join([part async for part in shape(portions(read, first, is_ending))])

    found = asyncio.run(whole())
    assert asked == [each.cursor for each in pages[: len(asked)] if isinstance(each, OutletPage)]
    return found


def test_a_stream_ends_with_the_result() -> None:
    found = streamed([page(1, 2, at=2), page(at=2), page(3, at=3), page(at=3, is_end=True)])
    assert found.splitlines() == [
        b'{"row":1}',
        b'{"row":2}',
        b'["cursor", "c2"]',
        b'{"row":3}',
        b'["cursor", "c3"]',
        b'["end", "c3"]',
    ]


def test_rows_and_end_at_once() -> None:
    assert streamed([page(1, at=1, is_end=True)]).splitlines() == [b'{"row":1}', b'["end", "c1"]']


def test_what_goes_wrong_is_said_in_the_stream() -> None:
    found = streamed([page(1, at=1), DatabaseUnavailable("postgresql://a:secret@h/d is away")])
    kind, code, message = json.loads(found.splitlines()[-1])
    assert (kind, code) == ("error", "database_unavailable")
    assert "secret" not in message


def test_a_silent_stream_has_a_heart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.web.gateway.results.HEARTBEAT_S", 0.15)
    found = streamed([page(at=0), page(at=0), page(at=0, is_end=True)])
    assert found == b'\n["end", "c0"]\n'
    events = streamed([page(at=0), page(at=0), page(at=0, is_end=True)], as_events)
    assert events == b":\n\nid: c0\nevent: end\ndata: {}\n\n"


def test_a_process_that_ends_ends_its_streams() -> None:
    assert streamed([page(1, at=1)], is_ending=lambda: True) == b'{"row":1}\n["cursor", "c1"]\n'


def test_events_carry_the_cursor_as_their_id() -> None:
    found = streamed([page(1, 2, at=2), page(3, at=3, is_end=True)], as_events).decode().split("\n\n")
    assert found == [
        'id: c2\nevent: rows\ndata: {"row":1}\ndata: {"row":2}',
        'id: c3\nevent: rows\ndata: {"row":3}',
        "id: c3\nevent: end\ndata: {}",
        "",
    ]
    error = asyncio.run(_first(as_events(_one(StreamFailure("c", "m")))))
    assert error == b'event: error\ndata: {"code": "c", "message": "m"}\n\n'


async def _one(portion: Portion) -> AsyncIterator[Portion]:
    yield portion


async def _first(found: AsyncIterator[bytes]) -> bytes:
    return await anext(found)


# Bodies


def came(*pieces: bytes, headers: dict[str, str] | None = None, then: str = "", patience_s: float = 0.05) -> Any:
    """What a route gets of a body that comes in these pieces: the bytes, or the answer that it gets in their place."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if then == "disconnect":
        messages.append({"type": "http.disconnect"})
    elif then != "silence":
        messages.append({"type": "http.request", "body": b"", "more_body": False})
    left = iter(messages)

    async def receive() -> Any:
        for message in left:
            return message
        await asyncio.Event().wait()

    async def read() -> Any:
        raw = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        body, found = BodyReader({"type": "http", "headers": raw}, receive, 100, patience_s), b""
        try:
            while True:
                message = await body.receive()
                found += message["body"]
                if not message["more_body"]:
                    return found
        except NotWhole as wrong:
            await body.drain()
            return wrong.answer.status_code, len(list(left))

    return asyncio.run(read())


MOST = 100 + 1024


def test_a_whole_body() -> None:
    assert came() == b""
    assert came(b"ab", b"c") == b"abc"
    assert came(b"x" * MOST) == b"x" * MOST


def test_a_body_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    assert came(b"x" * MOST, b"x") == (413, 0)
    assert came(b"x", headers={"Content-Length": str(MOST + 1)}) == (413, 0), "what comes is read, and thrown away"
    monkeypatch.setattr("towpath.web.middleware.DRAIN_BYTES", 5_000)
    assert came(*[b"x" * 1000] * 10) == (413, 5), "not for ever"


def test_a_body_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.web.middleware.DRAIN_S", 0.01)
    assert came(b"ab", then="disconnect")[0] == 400
    assert came(b"ab", then="silence")[0] == 408
    monkeypatch.setattr("towpath.web.middleware.LONGEST_S", 0.0)
    assert came(b"ab", then="silence", patience_s=60)[0] == 408, "drop by drop"
