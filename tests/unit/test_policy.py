"""What a flow may say about its errors."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.sweep import sweep

from towpath import Flow, topic
from towpath.errors import BadExpression, BadPolicy
from towpath.policy import (
    Ignore,
    Isolate,
    Policy,
    Rule,
    constant,
    correct,
    delays,
    exponential,
    ignore,
    isolate,
    linear,
    policy_from_json,
    repeat,
    repeat_after,
    salvage,
)

APPROVED = ignore(approved_by="Ann Lee", until="2027-01-31")

POLICIES: list[Policy] = [
    isolate(),
    APPROVED,
    repeat(3),
    repeat(3, then=APPROVED),
    repeat_after(constant("5m", times=4)),
    repeat_after(linear("5m", times=4), jitter="30s"),
    repeat_after(exponential("1m", factor=2, times=6, maximum="1h"), then=isolate),
    repeat_after(delays(["5s", "1m"]), jitter=1.5, then=APPROVED),
    correct(),
    correct(then=repeat(2)),
    salvage("phone", "customer.email", then=repeat_after(constant("1m", times=1))),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.kind)
def test_json_and_back_is_the_same(policy: Policy) -> None:
    rule = Rule.of(policy, step="priced", code=9, exception="Timeout", where="value.country = 'DE'")
    assert policy_from_json(policy.to_json()) == policy
    assert Rule.from_json(rule.to_json()) == rule


def test_a_rule_of_a_person_may_be_short() -> None:
    assert Rule.from_json({"policy": "repeat", "times": 2, "then": "isolate"}) == Rule.of(repeat(2))
    assert Rule.from_json({"policy": "isolate"}) == Rule.of(isolate)


@pytest.mark.parametrize(
    ("until", "end"),
    [
        ("2027-01-31", datetime(2027, 2, 1, tzinfo=UTC)),
        (date(2027, 1, 31), datetime(2027, 2, 1, tzinfo=UTC)),
        ("2027-01-31T12:00:00+02:00", datetime(2027, 1, 31, 10, tzinfo=UTC)),
        (datetime(2027, 1, 31, 12, tzinfo=timezone(timedelta(hours=2))), datetime(2027, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_a_date_counts_to_its_end(until: Any, end: datetime) -> None:
    made = ignore(approved_by="Ann", until=until)
    assert made.until == end
    assert not made.is_over(end - timedelta(microseconds=1))
    assert made.is_over(end)


@sweep(
    ("make", "what"),
    [
        (lambda: ignore(approved_by="  ", until="2027-01-31"), "person"),
        (lambda: ignore(approved_by=None, until="2027-01-31"), "person"),  # type: ignore[arg-type]
        (lambda: ignore(approved_by="Ann", until="soon"), "soon"),
        (lambda: ignore(approved_by="Ann", until="2027-01-31T12:00:00"), "zone"),
        (lambda: ignore(approved_by="Ann", until=3), "not 3"),  # type: ignore[arg-type]
        (lambda: repeat(0), "1 to 1000"),
        (lambda: repeat("3"), "1 to 1000"),  # type: ignore[arg-type]
        (lambda: repeat(3, then=repeat(2)), "isolate or an approved ignore"),
        (lambda: repeat(3, then="isolate"), "no policy"),  # type: ignore[arg-type]
        (lambda: repeat_after("5m"), "needs delays"),  # type: ignore[arg-type]
        (lambda: repeat_after(constant("5m", times=2), jitter="soon"), "jitter"),
        (lambda: correct(then=correct()), "one mending"),
        (lambda: salvage(), "fields"),
        (lambda: salvage("a..b"), r"a\.\.b"),
        (lambda: salvage(""), "not a field"),
        (lambda: Rule.of(isolate, code=99), "0 to 13"),
        (lambda: Rule.of(isolate, code=True), "0 to 13"),
        (lambda: Rule.of(isolate, step=""), "step="),
        (lambda: Rule.of(isolate, exception=3), "exception="),
        (lambda: Rule.of(isolate, where=3), "where="),
        (lambda: Rule.from_json("isolate"), "a table"),
        (lambda: Rule.from_json({"policy": "forget"}), "ignore, isolate"),
        (lambda: Rule.from_json({"policy": "repeat"}), "times"),
        (lambda: Rule.from_json({"policy": "repeat", "times": 2, "often": 3}), "often"),
        (lambda: Rule.from_json({"policy": "repeat_after"}), "a table"),
        (lambda: Rule.from_json({"policy": "salvage", "fields": "phone"}), "a list"),
        (lambda: Rule.from_json({"times": 3}), "policy=None"),
    ],
)
def test_nonsense_is_refused_with_what_to_write(make: Any, what: str) -> None:
    with pytest.raises(BadPolicy, match=what):
        make()


def test_a_flow_keeps_its_rules_in_order() -> None:
    flow = Flow("shop")

    @flow.each(topic("orders"))
    def priced(order: dict[str, Any]) -> dict[str, Any]:
        return order

    flow.on_error(repeat_after(constant("5m", times=4)), step=priced, exception=TimeoutError)
    flow.on_error(APPROVED, code=9, where="value.country = 'DE'")
    flow.on_error(isolate)
    assert [rule.to_json() for rule in flow.rules] == [
        {
            "policy": "repeat_after",
            "delays": {"kind": "constant", "delay": "5m", "times": 4},
            "then": {"policy": "isolate"},
            "step": "priced",
            "exception": "TimeoutError",
        },
        {
            "policy": "ignore",
            "approved_by": "Ann Lee",
            "until": "2027-02-01T00:00:00+00:00",
            "code": 9,
            "where": "value.country = 'DE'",
        },
        {"policy": "isolate"},
    ]


def test_a_broken_expression_is_refused_where_the_flow_says_it() -> None:
    flow = Flow("shop")
    with pytest.raises(BadExpression, match="character 17"):
        flow.on_error(isolate, where="value.country = DE")
    assert flow.rules == []


def test_what_comes_after_the_last_repeat_is_isolation_unless_it_is_said() -> None:
    assert repeat(3).then == Isolate()
    assert repeat_after(constant("5m", times=4)).then == Isolate()
    assert isinstance(repeat(3, then=APPROVED).then, Ignore)
