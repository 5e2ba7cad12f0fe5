"""A flow whose desk has learned which postcode decides which city, without Spark."""

from __future__ import annotations

import orjson

from towpath.desk.corrections.learner import discover
from towpath.desk.corrections.model import CorrectionRule, RuleKind, flattened
from towpath.desk.corrections.store import EvidenceStore, RuleStore
from towpath.desk.corrections.tally import AcceptedTally, TallyScope
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.runtime import Runtime

NO_CITY = RecordFailure(ErrorCode.NOT_VALID, "orders", "schema", "field city: expected string not null, found null")
CITIES = {"10115": "Berlin", "80331": "München", "20095": "Hamburg", "01067": "Dresden"}


def teach(runtime: Runtime, count: int = 200) -> list[CorrectionRule]:
    """Count good orders of the flow `shop`, as Spark would have done it."""
    documents = [
        {"id": at, "postcode": postcode, "city": city, "note": f"n{at}"}
        for at in range(count)
        for postcode, city in CITIES.items()
    ]
    found = discover("shop", [flattened(each) for each in documents])
    with runtime.database.transaction() as tx:
        rules = RuleStore(runtime.database).add(tx, found)
        counts = AcceptedTally(TallyScope.of(found))(map(orjson.dumps, documents))
        EvidenceStore(runtime.database).add(tx, "shop", taken=counts)
        EvidenceStore(runtime.database).move(tx, "shop", [OffsetRange("orders", "orders-id", 0, 0, len(documents))])
    return rules


def city_rule(rules: list[CorrectionRule]) -> CorrectionRule:
    return next(rule for rule in rules if rule.field == "city" and rule.kind is RuleKind.DECIDED)


def without_city(number: int, postcode: str = "80331") -> bytes:
    """An order that fails for want of a city."""
    return orjson.dumps({"id": number, "postcode": postcode, "city": None})
