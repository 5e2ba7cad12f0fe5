"""The flow of the demo, and its events.

The flow checks and prices events of a shop and sorts them into a table or indices, and into files. Every kind of fault
is mixed into the events, the same ones every time, each with the fate that it must meet.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from towpath.flow.delivery.ids import Strategy
from towpath.flow.failures import ErrorCode
from towpath.flow.flow import Flow, expect
from towpath.flow.graph.sources import topic
from towpath.flow.sinks.sink import Sink
from towpath.log.record import NewRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME, TOPIC = "shop", "shop-events"
SCHEMA = "type string not null, order_id bigint, customer string, product string, quantity int, price decimal(10,2)"
PRICES = {"tea": 350, "coffee": 480, "cocoa": 420, "biscuit": 120}  # in cents
TIME_LIMIT_S = 0.5
# Products that stand for the faults of programs.
FREEZES, CRASHES = "the product that freezes", "the product that crashes"
SEED = 1
TOO_BIG_BYTES = (1 << 20) + 1


def shop(
    outputs: Sequence[tuple[str, Sink]],
    *,
    name: str = NAME,
    source: str = TOPIC,
    delivery: str = Strategy.EXACTLY_ONCE,
    deterministic: bool | None = None,
    timeout_s: float | None = TIME_LIMIT_S,
) -> Flow:
    """One source, a DataFrame step with expectations, a function for each record, and what loads it."""
    flow = Flow(name, delivery=delivery)

    @flow.step(topic(source), schema=SCHEMA)
    @expect("a quantity is positive", "quantity is null or quantity > 0")
    def wanted(events: DataFrame) -> DataFrame:
        return events.where("type <> 'heartbeat'")

    @flow.each(wanted, timeout_s=timeout_s, deterministic=deterministic)
    def priced(event: dict[str, Any]) -> dict[str, Any]:
        if event["type"] != "order":
            return event
        return {**event, "total_cents": price_of(event["product"]) * event["quantity"]}

    for output, sink in outputs:
        flow.load(priced, sink, name=output)
    return flow


def price_of(product: str) -> int:
    """Looks the price up. Two products are there to show what a flow does about a program that goes wrong."""
    if product == FREEZES:
        time.sleep(60)
    if product == CRASHES:
        os._exit(1)
    return PRICES[product]


def shop_events(count: int) -> Iterator[tuple[ShopEventKind, NewRecord]]:
    """So many events, in an order that mixes the kinds."""
    chance = random.Random(SEED)  # noqa: S311 - the same events every time
    kinds = [kind for kind, number in FAULTS.items() for _ in range(number)]
    kinds += [ShopEventKind.ORDER] * (count - len(kinds))
    chance.shuffle(kinds)
    for number, kind in enumerate(kinds):
        yield kind, shop_event(kind, number, chance)


def shop_event(kind: ShopEventKind, number: int, chance: random.Random) -> NewRecord:
    """One event of a kind."""
    customer = f"customer-{chance.randrange(500)}"
    return NewRecord(_value(kind, number, customer, chance), customer.encode())


class ShopEventKind(StrEnum):
    """What an event is, as the last table of the demo calls it."""

    ORDER = "orders and views"
    HEARTBEAT = "heartbeats"
    TOO_BIG = "larger than 1 MiB"
    NOT_UTF8 = "not UTF-8"
    CUT_OFF = "JSON that was cut off"
    TWICE = "a field twice"
    TRAILING = "two records in one"
    TOMBSTONE = "no value at all"
    WRONG_TYPE = "a text where a number belongs"
    NO_TYPE = "a field missing"
    NEGATIVE = "a negative quantity"
    UNKNOWN = "a product without a price"
    FREEZING = "freezes its function"
    CRASHING = "kills its worker"
    UNHOLDABLE = "a number the sink cannot hold"


@dataclass(frozen=True, slots=True)
class ExpectedFate:
    """What must become of an event: loaded, filtered, or failed with a code."""

    place: str
    code: ErrorCode | None = None


FATES = {
    ShopEventKind.ORDER: ExpectedFate("loaded"),
    ShopEventKind.HEARTBEAT: ExpectedFate("filtered"),
    ShopEventKind.TOO_BIG: ExpectedFate("failed", ErrorCode.RECORD_TOO_BIG),
    ShopEventKind.NOT_UTF8: ExpectedFate("failed", ErrorCode.NOT_JSON),
    ShopEventKind.CUT_OFF: ExpectedFate("failed", ErrorCode.NOT_JSON),
    ShopEventKind.TWICE: ExpectedFate("failed", ErrorCode.NOT_JSON),
    ShopEventKind.TRAILING: ExpectedFate("failed", ErrorCode.NOT_JSON),
    ShopEventKind.TOMBSTONE: ExpectedFate("failed", ErrorCode.NOT_JSON),
    ShopEventKind.WRONG_TYPE: ExpectedFate("failed", ErrorCode.NOT_VALID),
    ShopEventKind.NO_TYPE: ExpectedFate("failed", ErrorCode.NOT_VALID),
    ShopEventKind.NEGATIVE: ExpectedFate("failed", ErrorCode.NOT_VALID),
    ShopEventKind.UNKNOWN: ExpectedFate("failed", ErrorCode.TRANSFORM_FAILED),
    ShopEventKind.FREEZING: ExpectedFate("failed", ErrorCode.TRANSFORM_FAILED),
    ShopEventKind.CRASHING: ExpectedFate("failed", ErrorCode.TRANSFORM_FAILED),
    ShopEventKind.UNHOLDABLE: ExpectedFate("failed", ErrorCode.ITEM_REFUSED),
}
# How many of each fault; those that stop the clock or cost a worker are there once.
FAULTS = {
    ShopEventKind.HEARTBEAT: 2_000,
    ShopEventKind.TOO_BIG: 2,
    ShopEventKind.NOT_UTF8: 40,
    ShopEventKind.CUT_OFF: 60,
    ShopEventKind.TWICE: 30,
    ShopEventKind.TRAILING: 30,
    ShopEventKind.TOMBSTONE: 20,
    ShopEventKind.WRONG_TYPE: 80,
    ShopEventKind.NO_TYPE: 50,
    ShopEventKind.NEGATIVE: 70,
    ShopEventKind.UNKNOWN: 60,
    ShopEventKind.FREEZING: 1,
    ShopEventKind.CRASHING: 1,
    ShopEventKind.UNHOLDABLE: 25,
}


def _value(kind: ShopEventKind, number: int, customer: str, chance: random.Random) -> bytes | None:
    order = {
        "type": "order" if chance.random() < 0.7 else "view",
        "order_id": number,
        "customer": customer,
        "product": chance.choice(list(PRICES)),
        "quantity": chance.randint(1, 5),
        "price": chance.randint(100, 999) / 100,
        "points": chance.randint(0, 50),
    }
    match kind:
        case ShopEventKind.ORDER:
            return _text(order)
        case ShopEventKind.HEARTBEAT:
            return _text({"type": "heartbeat", "order_id": number})
        case ShopEventKind.TOO_BIG:
            return _text({**order, "note": "x" * TOO_BIG_BYTES})
        case ShopEventKind.NOT_UTF8:
            return _text(order).replace(b"customer-", b"customer\xff")
        case ShopEventKind.CUT_OFF:
            return _text(order)[: chance.randint(1, 60)]
        case ShopEventKind.TWICE:
            return _text(order)[:-1] + b',"quantity":7}'
        case ShopEventKind.TRAILING:
            return _text(order) + _text(order)
        case ShopEventKind.TOMBSTONE:
            return None
        case ShopEventKind.WRONG_TYPE:
            return _text({**order, "quantity": "three"})
        case ShopEventKind.NO_TYPE:
            return _text({name: value for name, value in order.items() if name != "type"})
        case ShopEventKind.NEGATIVE:
            return _text({**order, "quantity": -1})
        case ShopEventKind.UNKNOWN:
            return _text({**order, "type": "order", "product": "lemonade"})
        case ShopEventKind.FREEZING:
            return _text({**order, "type": "order", "product": FREEZES})
        case ShopEventKind.CRASHING:
            return _text({**order, "type": "order", "product": CRASHES})
        case ShopEventKind.UNHOLDABLE:
            return _text({**order, "type": "order", "points": 10**30})


def _text(event: Mapping[str, object]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()
