"""Events of a shop with every kind of fault mixed in: the same ones every time, each with its fate."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from towpath.demo.shop import CRASHES, FREEZES, PRICES
from towpath.flow.codes import ErrorCode
from towpath.log.record import NewRecord

SEED = 1
TOO_BIG_BYTES = (1 << 20) + 1


class Kind(StrEnum):
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
class Fate:
    """What must become of an event: loaded, filtered, or failed with a code."""

    place: str
    code: ErrorCode | None = None


FATES = {
    Kind.ORDER: Fate("loaded"),
    Kind.HEARTBEAT: Fate("filtered"),
    Kind.TOO_BIG: Fate("failed", ErrorCode.RECORD_TOO_BIG),
    Kind.NOT_UTF8: Fate("failed", ErrorCode.NOT_JSON),
    Kind.CUT_OFF: Fate("failed", ErrorCode.NOT_JSON),
    Kind.TWICE: Fate("failed", ErrorCode.NOT_JSON),
    Kind.TRAILING: Fate("failed", ErrorCode.NOT_JSON),
    Kind.TOMBSTONE: Fate("failed", ErrorCode.NOT_JSON),
    Kind.WRONG_TYPE: Fate("failed", ErrorCode.NOT_VALID),
    Kind.NO_TYPE: Fate("failed", ErrorCode.NOT_VALID),
    Kind.NEGATIVE: Fate("failed", ErrorCode.NOT_VALID),
    Kind.UNKNOWN: Fate("failed", ErrorCode.TRANSFORM_FAILED),
    Kind.FREEZING: Fate("failed", ErrorCode.TRANSFORM_FAILED),
    Kind.CRASHING: Fate("failed", ErrorCode.TRANSFORM_FAILED),
    Kind.UNHOLDABLE: Fate("failed", ErrorCode.ITEM_REFUSED),
}
# How many of each fault; those that stop the clock or cost a worker are there once.
FAULTS = {
    Kind.HEARTBEAT: 2_000,
    Kind.TOO_BIG: 2,
    Kind.NOT_UTF8: 40,
    Kind.CUT_OFF: 60,
    Kind.TWICE: 30,
    Kind.TRAILING: 30,
    Kind.TOMBSTONE: 20,
    Kind.WRONG_TYPE: 80,
    Kind.NO_TYPE: 50,
    Kind.NEGATIVE: 70,
    Kind.UNKNOWN: 60,
    Kind.FREEZING: 1,
    Kind.CRASHING: 1,
    Kind.UNHOLDABLE: 25,
}


def shop_events(count: int) -> Iterator[tuple[Kind, NewRecord]]:
    """So many events, in an order that mixes the kinds."""
    chance = random.Random(SEED)  # noqa: S311 - the same events every time
    kinds = [kind for kind, number in FAULTS.items() for _ in range(number)]
    kinds += [Kind.ORDER] * (count - len(kinds))
    chance.shuffle(kinds)
    for number, kind in enumerate(kinds):
        yield kind, shop_event(kind, number, chance)


def shop_event(kind: Kind, number: int, chance: random.Random) -> NewRecord:
    """One event of a kind."""
    customer = f"customer-{chance.randrange(500)}"
    return NewRecord(_value(kind, number, customer, chance), customer.encode())


def _value(kind: Kind, number: int, customer: str, chance: random.Random) -> bytes | None:
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
        case Kind.ORDER:
            return _text(order)
        case Kind.HEARTBEAT:
            return _text({"type": "heartbeat", "order_id": number})
        case Kind.TOO_BIG:
            return _text({**order, "note": "x" * TOO_BIG_BYTES})
        case Kind.NOT_UTF8:
            return _text(order).replace(b"customer-", b"customer\xff")
        case Kind.CUT_OFF:
            return _text(order)[: chance.randint(1, 60)]
        case Kind.TWICE:
            return _text(order)[:-1] + b',"quantity":7}'
        case Kind.TRAILING:
            return _text(order) + _text(order)
        case Kind.TOMBSTONE:
            return None
        case Kind.WRONG_TYPE:
            return _text({**order, "quantity": "three"})
        case Kind.NO_TYPE:
            return _text({name: value for name, value in order.items() if name != "type"})
        case Kind.NEGATIVE:
            return _text({**order, "quantity": -1})
        case Kind.UNKNOWN:
            return _text({**order, "type": "order", "product": "lemonade"})
        case Kind.FREEZING:
            return _text({**order, "type": "order", "product": FREEZES})
        case Kind.CRASHING:
            return _text({**order, "type": "order", "product": CRASHES})
        case Kind.UNHOLDABLE:
            return _text({**order, "type": "order", "points": 10**30})


def _text(event: Mapping[str, object]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()
