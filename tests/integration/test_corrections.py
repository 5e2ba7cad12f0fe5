"""Rules, counts and corrections in either database: nothing is counted twice, and everything can be taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.desk import STAGE, DeskFlow, Heard, intake_of, rows, table, take_all
from tests.support.sweep import sweep
from tests.support.tables import by_hand
from tests.support.taught import NO_CITY, city_rule, teach

from towpath.db import Transaction
from towpath.desk.background import open_intake
from towpath.desk.cases.model import Case, CaseSelection, CaseState
from towpath.desk.cases.store import CaseStore
from towpath.desk.corrections.act import LearnedAutoEditor
from towpath.desk.corrections.learner import learn_edits
from towpath.desk.corrections.model import CorrectionRule, Count, Counts, Doubt, RuleKind, RuleState
from towpath.desk.corrections.service import CorrectionService
from towpath.desk.corrections.store import EvidenceStore, RuleStore
from towpath.desk.edits import EditStore
from towpath.desk.policies.rules import RuleEdit
from towpath.errors import BadValue, CountedAlready, IllegalRuleMove, UnknownRule
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.records.reentry import CORRECTED, reentry_record, said_by
from towpath.log.record import Record
from towpath.policy import Rule as PolicyRule
from towpath.policy import correct
from towpath.runtime import Runtime

WHO: dict[str, Any] = {"who": "ada", "why": "looked at it"}


@pytest.fixture
def desk(
    make_runtime: Callable[..., Runtime],
    database_settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Runtime:
    monkeypatch.chdir(tmp_path)
    is_sqlite = database_settings["url"].startswith("sqlite")
    return make_runtime(log={"url": "embedded" if is_sqlite else f"sqlite:///{tmp_path}/log.db"})


@pytest.fixture
def corrections(desk: Runtime) -> CorrectionService:
    return desk.corrections


def the_case(runtime: Runtime) -> Case:
    with runtime.database.read() as tx:
        [case] = CaseStore(runtime.database).page(tx, CaseSelection(), 10)
    return case


def act(runtime: Runtime, work: Callable[[Transaction], Any]) -> Any:
    with runtime.database.transaction() as tx:
        return work(tx)


def move(runtime: Runtime, case: Case, to: CaseState, **how: Any) -> None:
    assert act(runtime, lambda tx: CaseStore(runtime.database).move(tx, [case.id], to, **WHO, **how))


def resolve(runtime: Runtime, case: Case) -> None:
    """As the outcome of a replay does."""
    if the_case(runtime).state is CaseState.OPEN:
        move(runtime, case, CaseState.REPLAYING)
    move(runtime, case, CaseState.RESOLVED)


def edited(runtime: Runtime, case: Case, value: bytes, who: str = "ada") -> None:
    """As a person edits, or a rule."""

    def work(tx: Transaction) -> None:
        edit = EditStore(runtime.database).last(tx, case.id) + 1
        EditStore(runtime.database).add(tx, case.id, edit, value, who=who, why="mended")
        assert CaseStore(runtime.database).set_edit(tx, case.id, edit, frm_edit=edit - 1)

    act(runtime, work)


def test_a_rule_is_found_once(desk: Runtime) -> None:
    rules = teach(desk)
    assert act(desk, lambda tx: RuleStore(desk.database).add(tx, rules)) == []
    assert [rule.id for rule in desk.corrections.rules("shop")] == [rule.id for rule in rules]
    assert desk.corrections.rules("other") == []


# From which states a person can bring a rule to each; from every other one that is refused.
BY_HAND = {
    RuleState.ON: (RuleState.SUGGESTED, RuleState.OFF, RuleState.REVERTED),
    RuleState.OFF: (RuleState.SUGGESTED, RuleState.ON),
    RuleState.REVERTED: (RuleState.ON, RuleState.OFF),
}


@pytest.fixture
def taught_rule(desk: Runtime) -> CorrectionRule:
    return city_rule(teach(desk))


@sweep("start", RuleState)
@sweep("to", BY_HAND)
def test_every_move_of_a_rule(
    desk: Runtime, corrections: CorrectionService, taught_rule: CorrectionRule, start: RuleState, to: RuleState
) -> None:
    rule = taught_rule
    as_found = "update desk_rule set state = 'suggested', who = null, why = null where id = :id"
    by_hand(desk.database, as_found, id=rule.id)
    for step in {RuleState.SUGGESTED: [], RuleState.REVERTED: [RuleState.ON, RuleState.REVERTED]}.get(start, [start]):
        with desk.database.transaction() as tx:
            RuleStore(desk.database).move(tx, rule.id, step, **WHO)
    moves = {
        RuleState.ON: corrections.turn_on,
        RuleState.OFF: corrections.turn_off,
        RuleState.REVERTED: corrections.revert,
    }
    if start in BY_HAND[to]:
        moves[to](rule.id, **WHO)
        assert corrections.show(rule.id)[0].state is to
    else:
        with pytest.raises(IllegalRuleMove):
            moves[to](rule.id, **WHO)
        assert corrections.show(rule.id)[0].state is start


def test_a_move_is_kept_with_who_and_why(desk: Runtime, corrections: CorrectionService) -> None:
    rule = city_rule(teach(desk))
    corrections.turn_on(rule.id, support=7, confidence=0.97, **WHO)
    found = corrections.show(rule.id)[0]
    assert (found.state, found.support, found.confidence) == (RuleState.ON, 7, 0.97)
    assert rows(desk.database, "select who, why from event where kind = 'rule_changed_by_hand'") == [
        ("ada", "looked at it")
    ]


@pytest.mark.parametrize("bad", [{"support": 0}, {"confidence": 0.0}, {"confidence": 1.01}])
def test_thresholds_that_mean_nothing_are_refused(
    desk: Runtime, corrections: CorrectionService, bad: dict[str, Any]
) -> None:
    rule = city_rule(teach(desk))
    with pytest.raises(BadValue):
        corrections.turn_on(rule.id, **WHO, **bad)


def test_a_rule_that_is_not_there(corrections: CorrectionService) -> None:
    with pytest.raises(UnknownRule):
        corrections.turn_on(77, **WHO)
    with pytest.raises(UnknownRule):
        corrections.show(77)


def test_counts_are_added_up(desk: Runtime) -> None:
    store = EvidenceStore(desk.database)
    one = Counts({Count("city", "value", value='"Ulm"'): 2, Count("", "records"): 3})
    act(desk, lambda tx: store.add(tx, "shop", taken=one))
    act(desk, lambda tx: store.add(tx, "shop", taken=one, edited=one))
    act(desk, lambda tx: store.add(tx, "other", taken=one))
    with desk.database.read() as tx:
        assert store.read(tx, "shop") == Counts({name: 3 * count for name, count in one.items()})
        assert store.strongest(tx, "shop", "city", "value", "", 5) == [("", '"Ulm"', 4, 2)]


def test_of_two_who_count_the_same_range_one_counts(desk: Runtime) -> None:
    store = EvidenceStore(desk.database)
    one, place = Counts({Count("", "records"): 5}), OffsetRange("orders", "id", 0, 10, 20)

    def count(tx: Transaction) -> None:
        store.move(tx, "shop", [place])
        store.add(tx, "shop", taken=one)

    act(desk, count)
    with pytest.raises(CountedAlready):
        act(desk, count)
    with desk.database.read() as tx:
        assert store.read(tx, "shop") == one
        assert store.positions(tx, "shop") == {("id", 0): 20}


def test_an_edit_that_has_loaded_is_counted_once(desk: Runtime) -> None:
    rules = teach(desk)
    flow = DeskFlow(desk)
    flow.fail(9000, failure=NO_CITY, value=b'{"id":1,"postcode":"10115","city":null}')
    take_all(intake_of(desk))
    case = the_case(desk)
    edited(desk, case, b'{"id":1,"postcode":"10115","city":"Berlin"}')
    assert learn_edits(desk.database, desk.log, "shop") == (0, [])  # it may fail again
    resolve(desk, case)
    before = table(desk.database, "desk_evidence")
    assert learn_edits(desk.database, desk.log, "shop")[0] == 1
    after = table(desk.database, "desk_evidence")
    assert learn_edits(desk.database, desk.log, "shop")[0] == 0
    assert table(desk.database, "desk_evidence") == after
    changed = [row for row in after if row not in before]
    assert [(row["field"], row["given"], row["value"], row["edited"]) for row in changed] == [
        ("city", '["10115"]', '"Berlin"', 1)
    ]
    [verdict] = table(desk.database, "desk_verdict")
    assert (verdict["field"], verdict["rule_id"], verdict["agrees"]) == ("city", city_rule(rules).id, 1)


def test_a_value_that_operators_replace_becomes_a_rule(desk: Runtime) -> None:
    teach(desk)
    flow = DeskFlow(desk)
    for number in range(3):
        flow.fail(9000 + number, failure=NO_CITY, value=b'{"id":1,"city":"Minga"}')
        take_all(intake_of(desk))
        with desk.database.read() as tx:
            [case] = CaseStore(desk.database).page(tx, CaseSelection(states=(CaseState.OPEN,)), 10)
        edited(desk, case, '{"id":1,"city":"München"}'.encode())
        move(desk, case, CaseState.REPLAYING)
        move(desk, case, CaseState.RESOLVED)
    counted, new = learn_edits(desk.database, desk.log, "shop")
    assert counted == 3
    assert [(rule.kind, rule.field, rule.state) for rule in new] == [(RuleKind.MEANT, "city", RuleState.SUGGESTED)]
    _rule, [evidence], _ = desk.corrections.show(new[0].id)
    assert (evidence.given, evidence.value, evidence.edited) == ('["Minga"]', '"München"', 3)


def test_suggestions_on_a_case(desk: Runtime, corrections: CorrectionService) -> None:
    rules = teach(desk)
    DeskFlow(desk).fail(9000, failure=NO_CITY, value=b'{"id":1,"postcode":"80331"}')
    take_all(intake_of(desk))
    case, [found] = corrections.suggest(str(the_case(desk).seq))
    assert (found.field, found.changes[0].after, found.doubt) == ("city", "München", Doubt.NOT_ON)
    assert corrections.correction(case.id) is Doubt.NOT_ON
    corrections.turn_on(city_rule(rules).id, **WHO)
    done = corrections.correction(case.id)
    assert not isinstance(done, Doubt)
    assert json.loads(done.value) == {"id": 1, "postcode": "80331", "city": "München"}


def mended(runtime: Runtime, rule: CorrectionRule, value: bytes = b'{"id":1,"postcode":"80331","city":null}') -> Case:
    """A case that a rule has corrected, as intake does it."""
    mender = LearnedAutoEditor(runtime.database)
    found = mender.automatic("shop", STAGE, value, NO_CITY)
    assert found is not None
    assert found.who == rule.name
    case = the_case(runtime)

    def work(tx: Transaction) -> None:
        EditStore(runtime.database).add(tx, case.id, 1, found.value, who=found.who, why=found.why)
        assert CaseStore(runtime.database).set_edit(tx, case.id, 1, frm_edit=0)
        mender.made(tx, [RuleEdit(case.id, 1, case.attempts, found)])

    act(runtime, work)
    return the_case(runtime)


@pytest.fixture
def corrected(desk: Runtime, corrections: CorrectionService) -> tuple[CorrectionRule, Case]:
    rule = city_rule(teach(desk))
    corrections.turn_on(rule.id, **WHO)
    DeskFlow(desk).fail(9000, failure=NO_CITY, value=b'{"id":1,"postcode":"80331","city":null}')
    take_all(intake_of(desk))
    return rule, mended(desk, rule)


def test_nothing_is_done_without_a_rule_that_is_on(desk: Runtime) -> None:
    teach(desk)
    mender = LearnedAutoEditor(desk.database)
    assert mender.automatic("shop", STAGE, b'{"id":1,"postcode":"80331","city":null}', NO_CITY) is None
    assert mender.automatic("other", STAGE, b'{"id":1,"postcode":"80331","city":null}', NO_CITY) is None


def test_what_has_loaded_was_right(
    desk: Runtime, corrections: CorrectionService, corrected: tuple[CorrectionRule, Case]
) -> None:
    rule, case = corrected
    resolve(desk, case)
    found = corrections.report("shop")
    [own] = [each for each in found.rules if each.rule.id == rule.id]
    assert (own.right, own.wrong, own.unknown, found.precision, found.coverage) == (1, 0, 0, 1.0, 1.0)
    assert corrections.report("shop") == found
    assert corrections.show(rule.id)[0].right == 1


def test_what_fails_again_counts_against_the_rule(
    desk: Runtime, corrections: CorrectionService, corrected: tuple[CorrectionRule, Case]
) -> None:
    rule, case = corrected
    rows_before = corrections.report("shop")
    assert rows_before.precision is None
    act(desk, lambda tx: tx.run(_query("update desk_case set attempts = attempts + 1"), {}))
    found = corrections.report("shop")
    [own] = [each for each in found.rules if each.rule.id == rule.id]
    assert (own.right, own.wrong, found.precision) == (0, 1, 0.0)
    mender = LearnedAutoEditor(desk.database)
    assert mender.automatic("shop", STAGE, b'{"id":1,"postcode":"80331","city":null}', NO_CITY) is None
    assert case.edit == 1


def _query(text: str) -> Any:
    from towpath.db.database import Query

    return Query("test", text, uses_now=False)


def test_a_reverted_rule_lists_all_that_it_touched(
    desk: Runtime, corrections: CorrectionService, corrected: tuple[CorrectionRule, Case]
) -> None:
    rule, case = corrected
    found = corrections.revert(rule.id, **WHO)
    [touched] = found.touched
    assert (touched.case_id, touched.field, touched.before, touched.after) == (case.id, "city", "null", '"München"')
    assert (touched.input, touched.state) == ("orders/0/9000", CaseState.OPEN)
    assert found.taken_back == (case.id,)
    now = the_case(desk)
    assert now.edit == 0
    assert [row["what"] for row in table(desk.database, "desk_history") if row["what"].startswith("correction")] == [
        "correction taken back"
    ]
    with pytest.raises(IllegalRuleMove):
        corrections.revert(rule.id, **WHO)


def test_a_reverted_rule_lets_go_of_nothing_that_has_loaded(
    desk: Runtime, corrections: CorrectionService, corrected: tuple[CorrectionRule, Case]
) -> None:
    rule, case = corrected
    resolve(desk, case)
    found = corrections.revert(rule.id, **WHO)
    assert found.taken_back == ()
    assert [touched.state for touched in found.touched] == [CaseState.RESOLVED]


def test_turned_on_again_a_rule_begins_anew(
    desk: Runtime, corrections: CorrectionService, corrected: tuple[CorrectionRule, Case]
) -> None:
    rule, case = corrected
    resolve(desk, case)
    corrections.report("shop")
    corrections.turn_off(rule.id, **WHO)
    assert corrections.turn_on(rule.id, **WHO).right == 0


def test_a_body_that_is_no_json_has_no_suggestions(desk: Runtime, corrections: CorrectionService) -> None:
    teach(desk)
    DeskFlow(desk).fail(9000, failure=NO_CITY, value=b"\xff\xfe not json")
    take_all(intake_of(desk))
    assert corrections.suggest(the_case(desk).id)[1] == []


def test_intake_corrects_what_is_sure_and_nothing_else(desk: Runtime, corrections: CorrectionService) -> None:
    """Under the policy `correct`: the record goes back with the new value, the header and the edit of the rule."""
    rule = city_rule(teach(desk))
    corrections.turn_on(rule.id, **WHO)
    flow = DeskFlow(desk)
    desk.policies.declare("shop", None, [PolicyRule.of(correct())])
    bodies = [b'{"id":1,"postcode":"80331","city":null}', b'{"id":2,"postcode":"99999","city":null}']
    for number, body in enumerate(bodies):
        flow.fail(9000 + number, failure=NO_CITY, value=body)
    parts = (desk.settings, desk.database, lambda: desk.log, desk.events, desk.event_log, Heard())
    take_all(open_intake(*parts, LearnedAutoEditor(desk.database)))
    with desk.database.read() as tx:
        store = CaseStore(desk.database)
        cases = {case.offset: case for case in store.page(tx, CaseSelection(), 10)}
        sent = store.bodies(tx, [cases[9000].id])[cases[9000].id]
    assert {offset: (case.state, case.edit) for offset, case in cases.items()} == {
        9000: (CaseState.REPLAYING, 1),
        9001: (CaseState.OPEN, 0),
    }
    assert sent.value == '{"id":1,"postcode":"80331","city":"München"}'.encode()
    assert (CORRECTED, f"{rule.name} city".encode()) in sent.headers
    [edit] = table(desk.database, "desk_edit")
    assert (edit["who"], edit["state"]) == (rule.name, "applied")
    [touched] = corrections.touched(rule.id)
    assert (touched.case_id, touched.field, touched.verdict) == (cases[9000].id, "city", "unknown")
    back = reentry_record(Record("", 0, 0, 0, None, sent.value, sent.headers), cases[9000].id, 2)
    assert said_by(back.headers)[CORRECTED] == f"{rule.name} city"
