"""Which rule decides about an error, and how."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from towpath.desk.policies.rules import (
    CorrectDecision,
    IgnoreDecision,
    IsolateDecision,
    NamedRule,
    Policies,
    RepeatDecision,
    SalvageDecision,
    decision,
)
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.log.record import Record
from towpath.policy import Rule, Said, constant, correct, exponential, ignore, isolate, repeat, repeat_after, salvage

NOW = datetime(2027, 1, 15, tzinfo=UTC)
APPROVED = ignore(approved_by="Ann Lee", until="2027-01-31")
OVER = ignore(approved_by="Ann Lee", until="2027-01-14")


def failure(
    code: int = 9, step: str = "priced", exception: str = "KeyError", message: str = "no price"
) -> RecordFailure:
    return RecordFailure(ErrorCode(code), step, exception, message)


def record(value: bytes | None = b'{"country": "DE"}', key: bytes | None = b"7") -> Record:
    return Record("orders", 0, 17, 0, key, value, (("source", b"shop"), ("odd", b"\xff"), ("none", None)))


def policies(*rules: tuple[Said, dict[str, Any]]) -> Policies:
    named = [NamedRule(f"shop/code/1/{at}", Rule.of(said, **match)) for at, (said, match) in enumerate(rules)]
    return Policies({"shop": named}, NOW)


def test_without_a_rule_it_is_isolated() -> None:
    assert policies().decide("shop", failure(), 1, record()) == IsolateDecision()
    assert policies((repeat(3), {})).decide("other", failure(), 1, record()) == IsolateDecision()


@pytest.mark.parametrize(
    "match",
    [
        {"step": "priced"},
        {"code": 9},
        {"exception": "KeyError"},
        {"exception": KeyError},
        {"where": "value.country = 'DE'"},
        {"where": "key = '7' and headers.source = 'shop' and message contains 'price'"},
        {"where": "headers.odd = '\ufffd' and headers.none is null and headers.source is not null"},
        {"where": "step = 'priced' and code = 9 and exception = 'KeyError' and attempts = 1"},
        {"step": "priced", "code": 9, "exception": "KeyError", "where": "value.country = 'DE'"},
    ],
)
def test_a_rule_that_fits_decides(match: dict[str, Any]) -> None:
    assert policies((repeat(3), match)).decide("shop", failure(), 1, record()) == RepeatDecision(None, "shop/code/1/0")


@pytest.mark.parametrize(
    "match",
    [
        {"step": "loaded"},
        {"code": 8},
        {"exception": "Key"},
        {"where": "value.country = 'FR'"},
        {"step": "priced", "code": 9, "exception": "KeyError", "where": "value.country = 'FR'"},
        {"step": "priced", "code": 7},
    ],
)
def test_all_of_a_rule_must_fit(match: dict[str, Any]) -> None:
    assert policies((repeat(3), match)).decide("shop", failure(), 1, record()) == IsolateDecision()


def test_the_module_of_an_exception_may_be_left_away() -> None:
    rules = policies((repeat(3), {"exception": "Timeout"}))
    happened = failure(exception="requests.exceptions.Timeout")
    assert rules.decide("shop", happened, 1, record()) == RepeatDecision(None, "shop/code/1/0")
    whole = policies((repeat(3), {"exception": "requests.exceptions.Timeout"}))
    assert whole.decide("shop", happened, 1, record()) == RepeatDecision(None, "shop/code/1/0")


def test_the_first_that_fits_decides() -> None:
    rules = policies((isolate, {"code": 8}), (APPROVED, {"code": 9}), (repeat(3), {}))
    assert rules.decide("shop", failure(), 1, record()) == IgnoreDecision("shop/code/1/1", "Ann Lee")
    assert rules.decide("shop", failure(code=7), 1, record()) == RepeatDecision(None, "shop/code/1/2")
    assert rules.decide("shop", failure(code=8), 1, record()) == IsolateDecision("shop/code/1/0")


def test_an_ignore_that_is_over_isolates() -> None:
    """It does not fall to the next rule: that was written for what this one is not about."""
    assert policies((OVER, {}), (repeat(3), {})).decide("shop", failure(), 1, record()) == IsolateDecision(
        "shop/code/1/0"
    )


def test_each_failure_burns_a_repeat() -> None:
    rules = policies((repeat(3), {}))
    decided = [rules.decide("shop", failure(), attempts, record()) for attempts in range(1, 6)]
    again, over = RepeatDecision(None, "shop/code/1/0"), IsolateDecision("shop/code/1/0")
    assert decided == [again, again, again, over, over]


def test_waits_come_one_after_the_other_and_then_what_was_said() -> None:
    rules = policies((repeat_after(exponential("1m", times=3), jitter="5s", then=APPROVED), {}))
    decided = [rules.decide("shop", failure(), attempts, record()) for attempts in range(1, 5)]
    waits = [RepeatDecision(60.0 * 2**n, "shop/code/1/0", 5.0) for n in range(3)]
    assert decided == [*waits, IgnoreDecision("shop/code/1/0", "Ann Lee")]


def test_an_ignore_after_the_last_repeat_ends_too() -> None:
    rules = policies((repeat(1, then=OVER), {}))
    assert rules.decide("shop", failure(), 2, record()) == IsolateDecision("shop/code/1/0")


def test_mending_is_tried_once() -> None:
    rules = policies((correct(then=repeat(2)), {"code": 8}), (salvage("phone"), {"code": 9}))
    first, second = "shop/code/1/0", "shop/code/1/1"
    assert rules.decide("shop", failure(code=8), 1, record()) == CorrectDecision(RepeatDecision(None, first), first)
    assert rules.decide("shop", failure(code=8), 2, record(), is_mended=True) == RepeatDecision(None, first)
    assert rules.decide("shop", failure(code=8), 3, record(), is_mended=True) == IsolateDecision(first)
    assert rules.decide("shop", failure(), 1, record()) == SalvageDecision(("phone",), second, IsolateDecision(second))
    assert rules.decide("shop", failure(), 2, record(), is_mended=True) == IsolateDecision(second)


def test_a_record_has_not_been_mended_unless_that_is_said() -> None:
    assert decision(NamedRule("a", Rule.of(salvage("phone"))), 1, NOW) == SalvageDecision(
        ("phone",), "a", IsolateDecision("a")
    )


@pytest.mark.parametrize("value", [None, b"", b"not json", b"\xff\xfe", b'{"a": 1', b"[" * 100_000])
def test_a_record_that_cannot_be_read_does_not_fit_and_is_counted(value: bytes | None) -> None:
    rules = policies((APPROVED, {"where": "value.country is null"}), (repeat(1), {"where": "code = 9"}))
    assert rules.decide("shop", failure(), 1, record(value)) == RepeatDecision(None, "shop/code/1/1")
    assert rules.unreadable == {"shop/code/1/0": 1}


def test_a_key_may_be_missing_or_no_text() -> None:
    rules = policies((repeat(1), {"where": "key is null"}), (repeat(2), {"where": "key = 'a\ufffd'"}))
    assert rules.decide("shop", failure(), 1, record(key=None)) == RepeatDecision(None, "shop/code/1/0")
    assert rules.decide("shop", failure(), 1, record(key=b"a\xff")) == RepeatDecision(None, "shop/code/1/1")


def test_a_body_of_sixteen_megabytes_is_read_and_no_larger_one() -> None:
    rules = policies((repeat(1), {"where": "value contains 'aa'"}))
    largest = b'"' + b"a" * ((16 << 20) - 2) + b'"'
    assert rules.decide("shop", failure(), 1, record(largest)) == RepeatDecision(None, "shop/code/1/0")
    assert rules.decide("shop", failure(), 1, record(largest + b" ")) == IsolateDecision()
    assert rules.unreadable == {"shop/code/1/0": 1}


def test_what_is_not_said_of_a_decision() -> None:
    assert IsolateDecision().rule is None
    assert RepeatDecision(1.0, "a rule").jitter_s == 0.0
    assert CorrectDecision(IsolateDecision()).rule == ""
    assert SalvageDecision(("phone",), "a rule").then == IsolateDecision()


def test_a_body_is_read_only_where_it_is_asked_for() -> None:
    rules = policies((repeat(1), {"where": "code = 9 or value.a = 1"}))
    assert rules.decide("shop", failure(), 1, record(b"not json")) == RepeatDecision(None, "shop/code/1/0")
    assert not rules.unreadable


def test_delays_have_their_own_jitter() -> None:
    rules = policies((repeat_after(constant("5m", times=4), jitter="30s"), {}))
    assert rules.decide("shop", failure(), 4, record()) == RepeatDecision(300.0, "shop/code/1/0", 30.0)
