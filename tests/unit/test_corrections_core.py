"""What is learned from records, what is suggested, what is done without asking, and when nothing is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.learner import discover
from towpath.desk.corrections.model import (
    MOVES,
    Aspect,
    CorrectionRule,
    Count,
    Counts,
    Doubt,
    RuleKind,
    RuleState,
    flattened,
)
from towpath.desk.corrections.proposer import Correction, correction, suggestions
from towpath.desk.corrections.tally import AcceptedTally, FailedTally, TallyScope

Document = dict[str, Any]
PLACES = [
    *(("10115", "Berlin", "East"), ("80331", "München", "South"), ("20095", "Hamburg", "North")),
    *(("66424", "Homburg", "West"), ("01067", "Dresden", "East"), ("50667", "Köln", "West")),
]
NULL_CITY = "field city: expected string, found null"


def orders(count: int = 600, seed: int = 1) -> list[Document]:
    """Good records: postcode → city → region, a sender, a day and a price."""
    rng = Random(seed)
    made = []
    for number in range(count):
        postcode, city, region = rng.choice(PLACES)
        day = f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
        price = round(rng.uniform(1, 900), 2)
        made.append(
            {"id": number, "postcode": postcode, "city": city, "region": region, "day": day, "price": price}
            | {"sender": rng.choice(("eu", "us"))}
        )
    return made


def learned(
    documents: Sequence[Document], failing: Iterable[Document] = (), state: RuleState = RuleState.ON
) -> Knowledge:
    """What is known after these, with every rule in that state."""
    rules = discover("shop", [flattened(each) for each in documents])
    wanted = TallyScope.of(rules)
    counts = AcceptedTally(wanted)(map(orjson.dumps, documents)) + FailedTally(wanted)(map(orjson.dumps, failing))
    stored = [replace(rule, id=number, state=state) for number, rule in enumerate(rules, 1)]
    return Knowledge(stored, Counts(counts))


KNOWN = learned(orders())
GOOD: Document = {"id": 9, "postcode": "10115", "city": "Berlin", "region": "East"} | {
    "day": "2026-05-06",
    "price": 12.5,
    "sender": "eu",
}


def done(document: Document, message: str = "", knowledge: Knowledge = KNOWN) -> Document | Doubt:
    """The record as it is changed without asking."""
    found = correction(knowledge, orjson.dumps(document), message)
    return orjson.loads(found.value) if isinstance(found, Correction) else found


def test_the_rules_that_records_speak_for() -> None:
    found = {(rule.kind, rule.field, rule.deciders) for rule in KNOWN.rules}
    assert {
        (RuleKind.DECIDED, "city", ("postcode",)),
        (RuleKind.DECIDED, "region", ("city",)),
        (RuleKind.SLIP, "city", ()),
        (RuleKind.SLIP, "region", ()),
    } <= found
    assert {(rule.kind, rule.field) for rule in KNOWN.rules} >= {(RuleKind.DATE, "day"), (RuleKind.NUMBER, "price")}
    assert not any("id" in rule.deciders or (rule.field == "sender" and rule.deciders) for rule in KNOWN.rules)


def test_too_few_records_say_nothing() -> None:
    assert discover("shop", [flattened(each) for each in orders(49)]) == []


@pytest.mark.parametrize("nothing", [None, "", "N/A"])
def test_a_missing_field_is_decided_by_another(nothing: str | None) -> None:
    assert done({**GOOD, "city": nothing}, NULL_CITY) == GOOD


def test_a_field_that_is_not_there_at_all() -> None:
    bad = {name: value for name, value in GOOD.items() if name != "city"}
    assert done(bad, "not met: a rule") == GOOD


def test_a_slip_is_mended_when_only_one_value_is_near() -> None:
    assert done({**GOOD, "city": "Berlni"}, "not met: known city") == GOOD


def test_a_slip_between_two_values_is_left_to_the_field_that_decides() -> None:
    bad = {**GOOD, "postcode": "20095", "city": "Hxmburg", "region": "North"}
    assert done(bad, "field city: not known") == {**bad, "city": "Hamburg"}


def test_a_slip_between_two_values_without_another_field_is_left_alone() -> None:
    bad = {**GOOD, "city": "Hxmburg", "region": "North"}
    del bad["postcode"]
    assert isinstance(done(bad, "field city: not known"), Doubt)


def test_a_deciding_field_that_contradicts_the_rest_is_not_believed() -> None:
    """The postcode says Berlin, the region says that it is not: one of them is wrong."""
    assert done({**GOOD, "city": None, "region": "South"}, NULL_CITY) in (Doubt.CONTRADICTED, Doubt.CONFLICT)


def test_a_postcode_that_nobody_has_seen_decides_nothing() -> None:
    assert isinstance(done({**GOOD, "postcode": "99999", "city": None}, NULL_CITY), Doubt)


def test_a_postcode_of_two_cities_decides_nothing() -> None:
    mixed = [{**each, "city": "Bonn"} if each["id"] % 2 and each["postcode"] == "10115" else each for each in orders()]
    assert isinstance(done({**GOOD, "city": None}, NULL_CITY, learned(mixed)), Doubt)


def test_a_new_value_is_not_taken_for_a_bad_one() -> None:
    """It is unknown, but like no other: it may be right, and the fault lies elsewhere."""
    assert done({**GOOD, "city": "Regensburg"}, "not met: another rule") is Doubt.UNCONFIRMED


def test_a_known_value_is_not_replaced_because_another_field_says_so() -> None:
    assert isinstance(done({**GOOD, "city": "Dresden"}, "field city: does not fit"), Doubt)


def test_nothing_is_wrong_nothing_is_done() -> None:
    assert done(GOOD, "not met: another rule") is Doubt.NOTHING_WRONG


def test_a_record_is_mended_whole_or_not_at_all() -> None:
    bad = {**GOOD, "city": None, "price": "a lot"}
    assert isinstance(done(bad, "not met: several rules"), Doubt)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("25.12.2026", "2026-12-25"),
        ("12/25/2026", "2026-12-25"),
        ("20260506", "2026-05-06"),
        ("04.04.2026", "2026-04-04"),
    ],
)
def test_a_date_that_can_be_read_in_one_way_only(text: str, day: str) -> None:
    assert done({**GOOD, "day": text}, "field day: not a date") == {**GOOD, "day": day}


@pytest.mark.parametrize("text", ["03/04/2026", "03.04.26", "2026-13-01", "soon", "31.12.1899", "25.12.2026 10:00"])
def test_a_date_that_is_in_doubt_is_left_alone(text: str) -> None:
    assert isinstance(done({**GOOD, "day": text}, "field day: not a date"), Doubt)


def test_failing_records_decide_the_order_of_day_and_month() -> None:
    shown = [{**GOOD, "day": f"{day}/03/2026"} for day in range(13, 28)]
    known = learned(orders(), shown)
    assert done({**GOOD, "day": "03/04/2026"}, "field day: bad", known) == {**GOOD, "day": "2026-04-03"}


def test_each_sender_has_its_own_order() -> None:
    shown = [{**GOOD, "day": f"{day}/03/2026"} for day in range(13, 28)]
    shown += [{**GOOD, "day": f"03/{day}/2026", "sender": "us"} for day in range(13, 28)]
    known = learned(orders(), shown)
    assert done({**GOOD, "day": "03/04/2026"}, "field day: bad", known) == {**GOOD, "day": "2026-04-03"}
    other = {**GOOD, "sender": "us"}
    assert done({**other, "day": "03/04/2026"}, "field day: bad", known) == {**other, "day": "2026-03-04"}
    nobody = {**GOOD, "sender": "zz", "region": None}
    assert isinstance(done({**nobody, "day": "03/04/2026"}, "field day: bad", known), Doubt)


@pytest.mark.parametrize(
    ("text", "price"), [("12,50", 12.5), ("1 2", None), ("700,1", 700.1), ("1.234,56", None), ("-5", None)]
)
def test_a_number_as_the_field_has_it(text: str, price: float | None) -> None:
    """Numbers of a size that was never seen are somebody else's."""
    found = done({**GOOD, "price": text}, "field price: expected double")
    assert isinstance(found, Doubt) if price is None else found == {**GOOD, "price": price}


def test_a_currency_is_dropped_only_where_the_record_has_it_elsewhere() -> None:
    assert isinstance(done({**GOOD, "price": "12,50 EUR"}, "field price: bad"), Doubt)
    assert done({**GOOD, "price": "12,50 EUR", "currency": "EUR"}, "field price: bad") == {
        **GOOD,
        "price": 12.5,
        "currency": "EUR",
    }


def test_a_rule_that_is_not_on_only_suggests() -> None:
    known = learned(orders(), state=RuleState.SUGGESTED)
    assert done({**GOOD, "city": None}, NULL_CITY, known) is Doubt.NOT_ON
    [found] = suggestions(known, orjson.dumps({**GOOD, "city": None}), NULL_CITY)
    assert (found.field, found.changes[0].after, found.doubt) == ("city", "Berlin", Doubt.NOT_ON)


@pytest.mark.parametrize("state", [RuleState.OFF, RuleState.REVERTED])
def test_a_rule_that_is_off_says_nothing(state: RuleState) -> None:
    known = learned(orders(), state=state)
    [found] = suggestions(known, orjson.dumps({**GOOD, "city": None}), NULL_CITY)
    assert found.changes == ()


def test_a_rule_that_was_wrong_is_not_sure_enough_any_more() -> None:
    bad = {**GOOD, "city": None}
    known = learned([{**each, "region": each["id"] % 7} for each in orders()])
    assert not isinstance(done({**bad, "region": 3}, NULL_CITY, known), Doubt)
    worse = known.with_rules([replace(rule, wrong=5) for rule in known.rules])
    assert done({**bad, "region": 3}, NULL_CITY, worse) is Doubt.UNSURE


def test_what_operators_have_put_is_put_again() -> None:
    rule = CorrectionRule("shop", "city", RuleKind.MEANT, id=99, state=RuleState.ON, support=3)
    counts = Counts({Count("city", Aspect.MEANT, "city", '["Minga"]', '"München"'): 3})
    bad = {**GOOD, "postcode": None, "city": "Minga", "region": None}
    known = Knowledge([rule], counts + AcceptedTally(TallyScope())(map(orjson.dumps, orders())))
    assert done(bad, "field city: not known", known) == {**bad, "city": "München"}
    two = Knowledge([replace(rule, support=4)], counts + AcceptedTally(TallyScope())(map(orjson.dumps, orders())))
    assert done(bad, "field city: not known", two) is Doubt.FEW


def test_untouched_bytes_stay() -> None:
    body = b'{ "price":12.50,"city" : null , "postcode":"10115", "region":"East","sender":"eu","day":"2026-05-06"}'
    found = correction(KNOWN, body, NULL_CITY)
    assert isinstance(found, Correction)
    assert found.value == body.replace(b"null", b'"Berlin"')
    assert found.header == f"rule:{found.changes[0].rule_id} city"


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b"not json", b"\xff\xfe", b'{"a":' + b"[" * 2000, b'{"x":"' + b"y" * (1 << 21)]
)
def test_a_body_that_is_no_record_gets_no_suggestion(body: bytes) -> None:
    assert suggestions(KNOWN, body, "") == []
    assert correction(KNOWN, body, "") is Doubt.NOTHING_WRONG


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from([*GOOD])


@settings(max_examples=300, deadline=None)
@given(FIELDS, JSON, FIELDS, JSON, st.text(max_size=60))
def test_whatever_comes_only_suspects_are_changed(a: str, one: Any, b: str, other: Any, message: str) -> None:
    """No record makes it raise, and what is changed is valid, and only where something looked wrong."""
    bad = {**GOOD, a: one, b: other}
    found = correction(KNOWN, orjson.dumps(bad, option=orjson.OPT_NON_STR_KEYS), message) if _fits(bad) else None
    if isinstance(found, Correction):
        after = json.loads(found.value)
        changed = {name for name in after if after[name] != bad.get(name)}
        assert changed <= {change.field for change in found.changes}
        assert all(change.confidence >= 0.99 for change in found.changes)


def _fits(document: Any) -> bool:
    try:
        orjson.dumps(document)
    except TypeError:
        return False
    return True


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(orders(300)), max_size=80), st.integers(0, 80))
def test_counts_are_the_same_however_records_are_divided(documents: list[Document], cut: int) -> None:
    """Otherwise learning piece by piece would be another thing than learning at once."""
    wanted = TallyScope.of(KNOWN.rules)
    bodies = [orjson.dumps(each) for each in documents]
    whole = AcceptedTally(wanted)(bodies)
    assert AcceptedTally(wanted)(bodies[:cut]) + AcceptedTally(wanted)(bodies[cut:]) == whole
    assert AcceptedTally(wanted)(reversed(bodies)) == whole


def test_bodies_that_cannot_be_read_are_not_counted() -> None:
    assert AcceptedTally(TallyScope())([None, b"", b"[]", b"\xff", b"1"]) == Counts()


def test_moves_of_rules_begin_with_a_person() -> None:
    assert all(RuleState.SUGGESTED not in targets for targets in MOVES.values())
    assert RuleState.REVERTED not in MOVES[RuleState.SUGGESTED]
