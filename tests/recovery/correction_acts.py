"""What the children of the tests of learned corrections do: `python -m tests.recovery.correction_acts '{…}'`."""

from __future__ import annotations

from typing import Any

import orjson
from tests.support.desk import STAGE, DeskFlow, Heard, take_all

import towpath
from towpath.core.logs import configure
from towpath.desk.background import open_intake
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.desk.cases.store import CaseStore
from towpath.desk.corrections import learner as edits
from towpath.desk.corrections.act import LearnedAutoEditor
from towpath.desk.corrections.learner import Learner, TopicCounter, discover, learn_edits
from towpath.desk.corrections.model import flattened
from towpath.desk.corrections.store import EvidenceStore, RuleStore
from towpath.desk.corrections.tally import AcceptedTally, TallyScope
from towpath.desk.edits import EditStore
from towpath.desk.policies.rules import RuleEdit
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.topics import FlowTopics
from towpath.policy import Rule as PolicyRule
from towpath.policy import correct
from towpath.runtime import Runtime
from towpath.settings import LoggingSettings
from towpath.testing.processes import leave_with_parent, order

FLOW = "shop"
BY: dict[str, Any] = {"who": "ada", "why": "mended"}
NO_CITY = RecordFailure(ErrorCode.NOT_VALID, "orders", "schema", "field city: expected string not null, found null")
CITIES = {"10115": "Berlin", "80331": "München", "20095": "Hamburg", "01067": "Dresden"}
RECORDS, STEP = 400, 100
EDITS = 5
MENDED = 4


def main() -> None:
    leave_with_parent()
    configure(LoggingSettings(level="warning"))
    told = order()
    with towpath.connect(**told["sections"]) as runtime:
        ACTS[told["act"]](runtime)


def documents(start: int = 0, stop: int = RECORDS) -> list[dict[str, Any]]:
    places = list(CITIES.items())
    return [{"id": at, "postcode": places[at % 4][0], "city": places[at % 4][1]} for at in range(start, stop)]


def bad(number: int) -> bytes:
    return orjson.dumps({"id": number, "postcode": list(CITIES)[number % 4], "city": None})


def prepare(runtime: Runtime) -> None:
    """Rules that are on, edits that have loaded, and corrections of which nobody knows yet whether they were right."""
    found = discover(FLOW, [flattened(each) for each in documents()])
    with runtime.database.transaction() as tx:
        rules = RuleStore(runtime.database).add(tx, found)
        EvidenceStore(runtime.database).add(
            tx, FLOW, taken=AcceptedTally(TallyScope.of(found))(map(orjson.dumps, documents()))
        )
    for rule in rules:
        runtime.corrections.turn_on(rule.id, **BY)
    flow = DeskFlow(runtime)
    for number in range(EDITS + MENDED):
        flow.fail(number, failure=NO_CITY, value=bad(number))
    take_all(_intake(runtime))
    for case in _open_cases(runtime)[:EDITS]:
        _edit(runtime, case.id, {"id": case.offset, "postcode": list(CITIES)[case.offset % 4], "city": "Ulm"})
        _resolve(runtime, case.id)
    mender = LearnedAutoEditor(runtime.database)
    for case in _open_cases(runtime):
        made = mender.automatic(FLOW, STAGE, bad(case.offset), NO_CITY)
        assert made is not None
        with runtime.database.transaction() as tx:
            EditStore(runtime.database).add(tx, case.id, 1, made.value, who=made.who, why=made.why)
            CaseStore(runtime.database).set_edit(tx, case.id, 1, frm_edit=0)
            mender.made(tx, [RuleEdit(case.id, 1, 1, made)])
        _resolve(runtime, case.id)


def learn(runtime: Runtime) -> None:
    """Count range by range, as after a run of Spark, from where counting ended."""
    counter = TopicCounter(runtime.database, runtime.log, runtime.spark, FLOW, errors=FlowTopics.of(FLOW).errors)
    store = EvidenceStore(runtime.database)
    with runtime.database.read() as tx:
        wanted = TallyScope.of(RuleStore(runtime.database).list(tx, FLOW))
        begin = store.positions(tx, FLOW).get(("id", 0), 0)
    for start in range(begin, RECORDS, STEP):
        counts = AcceptedTally(wanted)(map(orjson.dumps, documents(start, start + STEP)))
        counter.commit(counts, [OffsetRange("orders", "id", 0, start, start + STEP)])


def learn_from_edits(runtime: Runtime) -> None:
    edits.PORTION = 2
    learn_edits(runtime.database, runtime.log, FLOW)


def judge(runtime: Runtime) -> None:
    Learner(runtime.database, runtime.events, runtime.event_log, lambda: runtime.log, runtime.spark).judge()


def take_in(runtime: Runtime) -> None:
    """Errors come in under the policy `correct`; whoever told them before does not tell them again."""
    flow = DeskFlow(runtime)
    if runtime.log.ends(flow.topics.errors)[0] == EDITS + MENDED:
        runtime.policies.declare(FLOW, None, [PolicyRule.of(correct())])
        for number in range(1000, 1006):
            flow.fail(number, failure=NO_CITY, value=bad(number))
    take_all(_intake(runtime))


def _intake(runtime: Runtime) -> Any:
    parts = (runtime.settings, runtime.database, lambda: runtime.log, runtime.events, runtime.event_log, Heard())
    return open_intake(*parts, LearnedAutoEditor(runtime.database))


def _open_cases(runtime: Runtime) -> list[Any]:
    with runtime.database.read() as tx:
        found = CaseStore(runtime.database).page(tx, CaseSelection(states=(CaseState.OPEN,)), 100)
    return sorted(found, key=lambda case: case.offset)


def _edit(runtime: Runtime, case_id: str, document: dict[str, Any]) -> None:
    with runtime.database.transaction() as tx:
        EditStore(runtime.database).add(tx, case_id, 1, orjson.dumps(document), **BY)
        CaseStore(runtime.database).set_edit(tx, case_id, 1, frm_edit=0)


def _resolve(runtime: Runtime, case_id: str) -> None:
    with runtime.database.transaction() as tx:
        for state in (CaseState.REPLAYING, CaseState.RESOLVED):
            assert CaseStore(runtime.database).move(tx, [case_id], state, **BY)


ACTS = {act.__name__: act for act in (learn, learn_from_edits, judge, take_in)}

if __name__ == "__main__":
    main()
