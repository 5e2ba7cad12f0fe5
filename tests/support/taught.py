"""A flow whose desk has learned which postcode decides which city, without Spark."""

from __future__ import annotations

import orjson

from towpath.desk.corrections.discovery import discover
from towpath.desk.corrections.evidence_store import EvidenceStore
from towpath.desk.corrections.fields import flattened
from towpath.desk.corrections.rule import Rule, RuleKind
from towpath.desk.corrections.rule_store import RuleStore
from towpath.desk.corrections.tally import Taken, Wanted
from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure
from towpath.flow.positions import Range
from towpath.runtime import Runtime

NO_CITY = Failure(ErrorCode.NOT_VALID, "orders", "schema", "field city: expected string not null, found null")
CITIES = {"10115": "Berlin", "80331": "München", "20095": "Hamburg", "01067": "Dresden"}


def teach(runtime: Runtime, count: int = 200) -> list[Rule]:
    """Count good orders of the flow `shop`, as Spark would have done it."""
    documents = [
        {"id": at, "postcode": postcode, "city": city, "note": f"n{at}"}
        for at in range(count)
        for postcode, city in CITIES.items()
    ]
    found = discover("shop", [flattened(each) for each in documents])
    with runtime.database.transaction() as tx:
        rules = RuleStore(runtime.database).add(tx, found)
        counts = Taken(Wanted.of(found))(map(orjson.dumps, documents))
        EvidenceStore(runtime.database).add(tx, "shop", taken=counts)
        EvidenceStore(runtime.database).move(tx, "shop", [Range("orders", "orders-id", 0, 0, len(documents))])
    return rules


def city_rule(rules: list[Rule]) -> Rule:
    return next(rule for rule in rules if rule.field == "city" and rule.kind is RuleKind.DECIDED)


def without_city(number: int, postcode: str = "80331") -> bytes:
    """An order that fails for want of a city."""
    return orjson.dumps({"id": number, "postcode": postcode, "city": None})
