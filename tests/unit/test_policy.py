"""What a flow may say about its errors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.sweep import sweep

from towpath import Flow, topic
from towpath.errors import BadExpression, BadPolicy
from towpath.policy import (
    Ignore,
    Isolate,
    Match,
    Policy,
    RepeatAfter,
    Rule,
    constant,
    correct,
    delays,
    described,
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
        (lambda: ignore(approved_by="Ann", until=3), "3"),  # type: ignore[arg-type]
        (lambda: repeat(0), "1000"),
        (lambda: repeat("3"), "1000"),  # type: ignore[arg-type]
        (lambda: repeat(3, then=repeat(2)), "ignore"),
        (lambda: repeat(3, then="isolate"), "policy"),  # type: ignore[arg-type]
        (lambda: repeat_after("5m"), "delays"),  # type: ignore[arg-type]
        (lambda: repeat_after(constant("5m", times=2), jitter="soon"), "jitter"),
        (lambda: correct(then=correct()), "one"),
        (lambda: salvage(), "fields"),
        (lambda: salvage("a..b"), r"a\.\.b"),
        (lambda: salvage(""), "field"),
        (lambda: Rule.of(isolate, code=99), "13"),
        (lambda: Rule.of(isolate, code=True), "13"),
        (lambda: Rule.of(isolate, step=""), "step="),
        (lambda: Rule.of(isolate, exception=3), "exception="),
        (lambda: Rule.of(isolate, where=3), "where="),
        (lambda: Rule.from_json("isolate"), "table"),
        (lambda: policy_from_json(3), "table"),
        (lambda: policy_from_json({"policy": ["repeat"]}), "one of"),
        (lambda: Rule.from_json({"policy": "forget"}), "ignore, isolate"),
        (lambda: Rule.from_json({"policy": "repeat"}), "times"),
        (lambda: Rule.from_json({"policy": "repeat", "times": 2, "often": 3}), "often"),
        (lambda: Rule.from_json({"policy": "repeat_after"}), "delays"),
        (lambda: Rule.from_json({"policy": "salvage", "fields": "phone"}), "list"),
        (lambda: Rule.from_json({"times": 3}), "policy=None"),
    ],
)
def test_nonsense_is_refused_with_what_to_write(make: Any, what: str) -> None:
    with pytest.raises(BadPolicy, match=what):
        make()


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda length: ignore(approved_by="A" * length, until="2027-01-31"), 200),
        (repeat, 1_000),
        (lambda count: salvage(*["phone"] * count), 50),
    ],
)
def test_there_is_a_most_of_everything(make: Callable[[int], Policy], most: int) -> None:
    assert isinstance(make(1), Policy)
    assert isinstance(make(most), Policy)
    for wrong in (0, most + 1):
        with pytest.raises(BadPolicy):
            make(wrong)


@pytest.mark.parametrize("code", range(14))
def test_a_rule_can_be_for_each_error_code(code: int) -> None:
    assert Match.of(code=code).code == code


@pytest.mark.parametrize("code", [-1, 14])
def test_there_is_no_other_error_code(code: int) -> None:
    with pytest.raises(BadPolicy, match="13"):
        Match.of(code=code)


def test_what_is_not_said_is_for_every_error() -> None:
    assert Rule(isolate()).match == Match(step=None, code=None, exception=None, where=None)


def test_repeats_at_once_do_not_wait() -> None:
    assert [repeat(2).before(number) for number in (1, 2, 3)] == [0.0, 0.0, None]
    assert RepeatAfter(constant("5m", times=1)).jitter_s == repeat_after(constant("5m", times=1)).jitter_s == 0.0


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (isolate(), "isolate"),
        (correct(), "correct"),
        (APPROVED, "ignore until 2027-02-01 00:00, approved by Ann Lee"),
        (repeat(3, then=APPROVED), "repeat 3 times, then ignore"),
        (repeat_after(exponential("1m", times=3)), "repeat after 1m, 2m, 4m, then isolate"),
        (
            repeat_after(constant("90s", times=1), jitter="30s"),
            "repeat after 90s with up to 30s more, then isolate",
        ),
        (salvage("phone", "customer.email", then=repeat(2)), "salvage without phone, customer.email, then repeat"),
    ],
)
def test_lists_show_a_policy_in_a_few_words(policy: Policy, words: str) -> None:
    assert described(policy) == words


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
    with pytest.raises(BadExpression, match="17"):
        flow.on_error(isolate, where="value.country = DE")
    assert flow.rules == []


def test_what_comes_after_the_last_repeat_is_isolation_unless_it_is_said() -> None:
    assert repeat(3).then == Isolate()
    assert repeat_after(constant("5m", times=4)).then == Isolate()
    assert isinstance(repeat(3, then=APPROVED).then, Ignore)
