"""Versions of rules: declared by code, set and withdrawn by persons, tried out on the cases that there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.sent import Sent

from towpath.core.events import EventKind
from towpath.desk.cases.model import CaseState
from towpath.desk.policies.rules import IgnoreDecision, IsolateDecision, RepeatDecision
from towpath.desk.policies.service import PolicyService
from towpath.desk.policies.store import PolicyOrigin, PolicyStore
from towpath.errors import BadPolicy, ChangedMeanwhile, UnknownFlow, UnknownPolicy
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.stage.store import StageStore
from towpath.log.record import Record
from towpath.policy import Rule, constant, ignore, isolate, repeat, repeat_after
from towpath.runtime import Runtime

FAILURE = RecordFailure(ErrorCode(9), "priced", "KeyError", "no price")
RECORD = Record("orders", 0, 1, 0, b"k", b'{"n": 1}', ())
APPROVED = ignore(approved_by="Ann Lee", until="2099-01-31")
BY: dict[str, Any] = {"who": "ann", "why": "as agreed"}


@pytest.fixture
def desk(runtime: Runtime) -> PolicyService:
    with runtime.database.transaction() as tx:
        StageStore(runtime.database).ensure(tx, "shop", "main", {})
    return runtime.policies


def decided(runtime: Runtime, store: PolicyStore | None = None) -> Any:
    with runtime.database.read() as tx:
        policies = (store or PolicyStore(runtime.database)).policies(tx)
    return policies.decide("shop", FAILURE, 1, RECORD)


def test_what_code_declares_counts_and_is_a_version_when_it_changes(runtime: Runtime, desk: PolicyService) -> None:
    desk.declare("shop", None, [Rule.of(repeat(3))])
    desk.declare("shop", None, [Rule.of(repeat(3))])
    desk.declare("shop", "shop-bad", [Rule.of(isolate, code=9)])
    found = desk.versions("shop")
    assert [(each.origin, each.version, each.error_topic) for each in found] == [
        (PolicyOrigin.CODE, 2, "shop-bad"),
        (PolicyOrigin.CODE, 1, None),
    ]
    assert decided(runtime) == IsolateDecision("shop/code/2/0")
    with runtime.database.glance() as tx:
        assert len(runtime.event_log.page(tx, limit=9, kind=EventKind.POLICIES_CHANGED)) == 2


def test_a_flow_that_says_nothing_leaves_no_version(desk: PolicyService) -> None:
    desk.declare("shop", None, [])
    assert desk.versions("shop") == []


def test_a_flow_that_says_nothing_any_more_has_no_rules(runtime: Runtime, desk: PolicyService) -> None:
    desk.declare("shop", None, [Rule.of(repeat(3))])
    desk.declare("shop", None, [])
    assert decided(runtime) == IsolateDecision()


def test_operators_come_first(runtime: Runtime, desk: PolicyService) -> None:
    desk.declare("shop", None, [Rule.of(repeat(3))])
    made = desk.set("shop", [Rule.of(APPROVED, code=9)], **BY)
    assert (made.origin, made.version, made.who, made.why) == (PolicyOrigin.OPERATOR, 1, "ann", "as agreed")
    assert decided(runtime) == IgnoreDecision("shop/operator/1/0", "Ann Lee")
    desk.set("shop", [], **BY)
    assert decided(runtime) == RepeatDecision(None, "shop/code/1/0")


def test_rules_are_read_again_only_when_they_have_changed(runtime: Runtime, desk: PolicyService) -> None:
    store = PolicyStore(runtime.database)
    desk.declare("shop", None, [Rule.of(repeat(3))])
    with runtime.database.read() as tx:
        first, second = store.policies(tx), store.policies(tx)
    assert first.rules is second.rules
    desk.set("shop", [Rule.of(isolate)], **BY)
    assert decided(runtime, store) == IsolateDecision("shop/operator/1/0")


def test_two_persons_do_not_overwrite_each_other(desk: PolicyService) -> None:
    desk.set("shop", [Rule.of(repeat(1))], **BY)
    desk.set("shop", [Rule.of(repeat(2))], after=1, **BY)
    with pytest.raises(ChangedMeanwhile, match="version 2"):
        desk.set("shop", [Rule.of(repeat(3))], after=1, **BY)
    assert [each.version for each in desk.versions("shop")] == [2, 1]


def test_nonsense_is_refused(desk: PolicyService) -> None:
    with pytest.raises(UnknownFlow, match="shop"):
        desk.set("shopp", [Rule.of(repeat(1))], **BY)
    with pytest.raises(BadPolicy, match="over"):
        desk.set("shop", [Rule.of(repeat(1, then=ignore(approved_by="Ann", until="2020-01-01")))], **BY)
    with pytest.raises(BadPolicy, match="most"):
        desk.set("shop", [Rule.of(isolate)] * 201, **BY)
    with pytest.raises(UnknownPolicy):
        desk.withdraw("shop", 0, **BY)
    assert desk.versions("shop") == []


def test_an_ignore_ends_at_its_date(runtime: Runtime, desk: PolicyService) -> None:
    desk.set("shop", [Rule.of(APPROVED)], **BY)
    assert isinstance(decided(runtime), IgnoreDecision)
    runtime.database.shift_clock(100 * 366 * 86400)
    assert decided(runtime) == IsolateDecision("shop/operator/1/0")


@pytest.fixture
def sent(make_runtime: Callable[..., Runtime], tmp_path: Path) -> Sent:
    made = Sent.on(make_runtime(log={"url": f"sqlite:///{tmp_path}/log.db"}), "shop")
    with made.runtime.database.transaction() as tx:
        StageStore(made.runtime.database).ensure(tx, "shop", "main", {})
    return made


def test_withdrawing_finds_what_the_rule_has_ignored(sent: Sent) -> None:
    """Under whatever version of the rules it was ignored; and what another has ignored is left alone."""
    desk = sent.runtime.policies
    desk.set("shop", [Rule.of(APPROVED, code=9)], **BY)
    desk.set("shop", [Rule.of(APPROVED, code=8), Rule.of(APPROVED, code=9)], **BY)
    dismissed: dict[str, Any] = {"state": CaseState.IGNORED, "settled_by": "Ann Lee", "settled_why": "rule"}
    old = sent.make(3, rule="shop/operator/1/0", **dismissed)
    new = sent.make(2, rule="shop/operator/2/1", **dismissed)
    other = sent.make(1, rule="shop/operator/2/0", **dismissed)
    gone = desk.withdraw("shop", 1, **BY)
    assert (gone.version.version, gone.ignored) == (3, 5)
    assert {*gone.ids} == {"shop/operator/1/0", "shop/operator/2/1"}
    assert sent.states() == {"ignored": 6}, "nothing is opened unless that is wanted"
    assert desk.open_ignored("shop", gone.ids, **BY) == 5
    assert {sent.read(case).state for case in [*old, *new]} == {CaseState.OPEN}
    assert sent.read(other[0]).state is CaseState.IGNORED


def test_a_dry_run_counts_what_each_rule_would_have_caught(sent: Sent) -> None:
    bodies = [b'{"country": "DE"}', b'{"country": "FR"}', b'{"country": "DE"}', b"broken", b'{"country": "IT"}']
    sent.make(5, bodies)
    sent.make(1, [b'{"country": "DE"}'], state=CaseState.OPEN, step="loaded")
    desk = sent.runtime.policies
    desk.declare("shop", None, [Rule.of(repeat(3), step="loaded")])
    trial = desk.try_out(
        "shop",
        [
            Rule.of(APPROVED, step="priced", where="value.country = 'DE'"),
            Rule.of(repeat_after(constant("5m", times=2)), where="value.country = 'FR'"),
        ],
    )
    found = [(each.rule.id, each.cases, each.decisions, each.unreadable) for each in trial.caught]
    assert found == [
        ("shop/operator/new/0", 2, {"ignore": 2}, 1),
        ("shop/operator/new/1", 1, {"repeat after": 1}, 1),
        ("shop/code/1/0", 1, {"repeat": 1}, 0),
    ]
    assert (trial.cases, trial.is_all, trial.uncaught) == (6, True, 2)
    assert desk.try_out("shop").uncaught == 5, "those that count now"
    assert desk.try_out("shop", most=2).cases == 2
    assert not desk.try_out("shop", most=2).is_all
    assert sent.states() == {"open": 6}
