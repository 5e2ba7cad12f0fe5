"""Learned corrections, rehearsals and notifications over HTTP, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.desk_world import FLOW, World
from tests.support.http import API, Client, error_of, make_key
from tests.support.receivers import Hook, webhook
from tests.support.spawned import CALM
from tests.support.tables import rows
from tests.support.taught import NO_CITY, city_rule, teach, without_city

from towpath.desk.cases.model import Case, CaseState
from towpath.desk.corrections.model import CorrectionRule
from towpath.desk.masks import MASK
from towpath.desk.rehearsal_queue import INBOX, NAME, Rehearser
from towpath.notify.model import Notice, NoticeKind
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

DESK = f"{API}/desk"


@pytest.fixture
def runtime(make_desk: Callable[..., Runtime]) -> Runtime:
    desk = {"masked": {FLOW: ["city"]}, "sees_masked": "operator", "code": {"next": "next.py:flow"}}
    return make_desk(process=CALM, desk=desk)


@pytest.fixture
def world(runtime: Runtime) -> World:
    return World(runtime)


@pytest.fixture
def operator(runtime: Runtime, world: World) -> Client:
    return Client(runtime, make_key(runtime, "operator"))


@pytest.fixture
def viewer(runtime: Runtime, world: World) -> Client:
    return Client(runtime, make_key(runtime, "viewer"))


@pytest.fixture
def rule(world: World) -> CorrectionRule:
    return city_rule(teach(world.runtime))


def bad(world: World) -> Case:
    return world.case(without_city(1), failure=NO_CITY)


# Corrections


def test_a_rule_is_listed_turned_on_used_and_reverted(operator: Client, world: World, rule: CorrectionRule) -> None:
    listed = operator.get(f"{DESK}/rules", params={"flow": FLOW, "state": "suggested"}).json()["items"]
    assert rule.id in {item["rule"] for item in listed}
    assert operator.get(f"{DESK}/rules", params={"state": "on"}).json() == {"items": []}
    on = operator.ask(f"/desk/rules/{rule.id}/on", {"support": 7, "confidence": 0.95, "why": "checked it"})
    assert (on.status_code, on.json()["state"], on.json()["support"]) == (200, "on", 7)
    case = bad(world)
    done = operator.ask("/desk/cases/correct", {"cases": [case.id], "why": "the rule says so", "replays": False})
    assert (done.status_code, done.json()["refused"]) == (200, {})
    shown = operator.get(f"{DESK}/rules/{rule.id}").json()
    assert shown["evidence"][0]["records"] > 0
    assert [(each["case"], each["after"]) for each in shown["touched"]] == [(case.id, '"München"')]
    reverted = operator.ask(f"/desk/rules/{rule.id}/revert", {"why": "it was wrong"}).json()
    assert (reverted["state"], reverted["touched"], reverted["taken_back"]) == ("reverted", 1, [case.id])
    assert world.read(case).edit == 0
    again = operator.ask(f"/desk/rules/{rule.id}/revert", {"why": "once more"})
    assert (again.status_code, error_of(again)["code"]) == (409, "illegal_rule_move")
    off = operator.ask(f"/desk/rules/{rule.id}/off", {"why": "no"})
    assert (off.status_code, error_of(off)["code"]) == (409, "illegal_rule_move")


def test_the_same_key_turns_a_rule_on_once(operator: Client, world: World, rule: CorrectionRule) -> None:
    body = {"why": "checked it"}
    answers = [operator.ask(f"/desk/rules/{rule.id}/on", body, idempotency_key="k") for _ in range(3)]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    events = [row for row in rows(world.database, "event") if row["kind"] == "rule_changed_by_hand"]
    assert len(events) == 1


def test_a_revert_that_was_cut_off_goes_on(operator: Client, world: World, rule: CorrectionRule) -> None:
    operator.ask(f"/desk/rules/{rule.id}/on", {"why": "checked it"})
    case = bad(world)
    operator.ask("/desk/cases/correct", {"cases": [case.id], "why": "the rule says so", "replays": False})
    with pytest.MonkeyPatch.context() as dying:
        dying.setattr(world.runtime.corrections, "_take_back", lambda *_: [])  # the process died here
        world.runtime.corrections.revert(rule.id, who="ada", why="wrong")
    assert world.read(case).edit == 1
    assert operator.ask(f"/desk/rules/{rule.id}/revert", {"why": "go on"}).json()["taken_back"] == [case.id]
    assert world.read(case).edit == 0


def test_roles_and_bad_input_of_rules(operator: Client, viewer: Client, rule: CorrectionRule) -> None:
    for act in ("on", "off", "revert"):
        refused = viewer.ask(f"/desk/rules/{rule.id}/{act}", {"why": "x"})
        assert (refused.status_code, error_of(refused)["code"]) == (403, "not_allowed")
        unknown = operator.ask(f"/desk/rules/9999/{act}", {"why": "x"})
        assert (unknown.status_code, error_of(unknown)["code"]) == (404, "unknown_rule")
    assert viewer.get(f"{DESK}/rules/9999").status_code == 404
    for body in ({"support": 0, "why": "x"}, {"confidence": 2, "why": "x"}, {}, {"why": "x", "sure": True}):
        assert operator.ask(f"/desk/rules/{rule.id}/on", body).status_code == 422
    assert viewer.get(f"{DESK}/rules/{rule.id}/touched", params={"before": "x"}).status_code == 422


def test_suggestions_of_a_case(operator: Client, world: World, rule: CorrectionRule) -> None:
    case = bad(world)
    found = operator.get(f"{DESK}/cases/{case.seq}/suggestions").json()
    [field] = found["fields"]
    assert (found["case"], field["field"], field["before"]) == (case.id, "city", None)
    assert (field["changes"][0]["after"], field["changes"][0]["rule"]) == ("München", rule.id)
    assert "80331" in field["changes"][0]["said"]
    assert found["doubt"]
    assert operator.get(f"{DESK}/cases/{'0' * 8}/suggestions").status_code == 404


def test_what_is_hidden_stays_hidden_in_corrections(
    operator: Client, viewer: Client, world: World, rule: CorrectionRule
) -> None:
    """Evidence, suggestions, what was touched, the reason of the edit and the history all quote values."""
    operator.ask(f"/desk/rules/{rule.id}/on", {"why": "checked it"})
    case = bad(world)
    before = viewer.get(f"{DESK}/cases/{case.id}/suggestions")
    assert before.json()["fields"][0]["changes"][0]["after"] == MASK
    refused = viewer.get(f"{DESK}/rules/{rule.id}").json()
    assert {(each["given"], each["value"]) for each in refused["evidence"]} == {(MASK, MASK)}
    operator.ask("/desk/cases/correct", {"cases": [case.id], "why": "the rule says so", "replays": False})
    paths = (f"rules/{rule.id}", f"rules/{rule.id}/touched", f"cases/{case.id}", f"cases/{case.id}/suggestions")
    for path in paths:
        seen = viewer.get(f"{DESK}/{path}")
        assert seen.status_code == 200, path
        assert "München" not in seen.text, path
    assert "München" in operator.get(f"{DESK}/cases/{case.id}").text
    touched = operator.get(f"{DESK}/rules/{rule.id}/touched").json()["items"]
    assert [each["after"] for each in touched] == ['"München"']


def test_pages_of_what_was_touched(operator: Client, world: World, rule: CorrectionRule) -> None:
    operator.ask(f"/desk/rules/{rule.id}/on", {"why": "checked it"})
    cases = [bad(world) for _ in range(5)]
    operator.ask("/desk/cases/correct", {"cases": [case.id for case in cases], "why": "all", "replays": False})
    seen: list[str] = []
    mark: str | None = None
    while True:
        params: dict[str, str | int] = {"limit": 2} if mark is None else {"limit": 2, "before": mark}
        page = operator.get(f"{DESK}/rules/{rule.id}/touched", params=params).json()
        seen += [each["case"] for each in page["items"]]
        mark = page["next"]
        if mark is None:
            break
    assert sorted(seen) == sorted(case.id for case in cases)


def test_the_report_of_a_flow(operator: Client, world: World, rule: CorrectionRule) -> None:
    operator.ask(f"/desk/rules/{rule.id}/on", {"why": "checked it"})
    case = bad(world)
    operator.ask("/desk/cases/correct", {"cases": [case.id], "why": "all"})
    with world.database.transaction() as tx:
        world.parts.cases.move(tx, [case.id], CaseState.RESOLVED, who="towpath", why="loaded")
    found = operator.get(f"{DESK}/corrections/{FLOW}/report").json()
    assert (found["corrected"], found["precision"]) == (1, 1.0)


def test_a_bulk_job_of_corrections_is_counted_and_asked_for(
    operator: Client, viewer: Client, world: World, rule: CorrectionRule
) -> None:
    bad(world)
    asked = {"kind": "correct", "selection": {"flow": FLOW}, "rule": rule.id}
    assert operator.ask("/desk/jobs/count", asked).json() == {"cases": 1}
    masked = viewer.ask("/desk/jobs/count", asked)
    assert (masked.status_code, error_of(masked)["code"]) == (403, "fields_masked")
    made = operator.ask("/desk/jobs", {**asked, "why": "the rule says so", "name": "cities"}).json()
    assert (made["kind"], made["arguments"]["rule"], made["state"]) == ("correct", rule.id, "counted")
    unknown = operator.ask("/desk/jobs", {**asked, "rule": 9999, "why": "x"})
    assert (unknown.status_code, error_of(unknown)["code"]) == (404, "unknown_rule")


# Rehearsals


def ask(client: Client, group: int, **said: Any) -> Any:
    return client.ask(f"/desk/groups/{group}/rehearse", {"why": "after the fix", **said})


def test_a_rehearsal_waits_for_a_desk_and_shows_its_result(operator: Client, viewer: Client, world: World) -> None:
    case = bad(world)
    asked = ask(operator, case.group_id, name="try it", code="next", most=50)
    assert asked.status_code == 201, asked.text
    found = asked.json()
    assert (found["state"], found["name"], found["flow"], found["who"]) == ("waiting", "try it", FLOW, "operator")
    assert world.runtime.actors.instance(NAME).phase == "idle"  # its start waits for a host
    inbox = world.runtime.queue.inbox(INBOX)
    [message] = inbox.claim(1)
    assert viewer.get(f"{DESK}/rehearsals/{found['id']}").json()["state"] == "running"
    said = "priced: ValueError: what is München?"
    examples = {"otherwise": [{"case": case.id, "number": case.seq, "input": case.input, "said": said}]}
    world.desk.edits.edit(
        case.id, b'{"id": 1, "city": "M\xc3\xbcnchen"}', seen=world.desk.cases.show(case.id).seen, who="ada", why="x"
    )
    inbox.finish(message, {"group": case.group_id, "counts": {"otherwise": 1}, "examples": examples, "notes": []})
    shown = operator.get(f"{DESK}/rehearsals/{found['id']}").json()
    assert (shown["state"], shown["result"]["counts"]) == ("finished", {"otherwise": 1})
    assert shown["result"]["examples"]["otherwise"][0]["said"] == said
    hidden = viewer.get(f"{DESK}/rehearsals/{found['id']}")
    assert "München" not in hidden.text
    assert hidden.json()["result"]["counts"] == {"otherwise": 1}
    listed = viewer.get(f"{DESK}/rehearsals").json()
    assert [(item["id"], item["state"]) for item in listed["items"]] == [(found["id"], "finished")]


def test_a_rehearsal_that_could_not_be_done_says_why(operator: Client, world: World) -> None:
    id = ask(operator, bad(world).group_id).json()["id"]
    inbox = world.runtime.queue.inbox(INBOX)
    [message] = inbox.claim(1)
    inbox.finish(message, {"refused": "no file in this directory has the flow shop"})
    shown = operator.get(f"{DESK}/rehearsals/{id}").json()
    assert (shown["state"], shown["reason"]) == ("failed", "no file in this directory has the flow shop")
    assert shown["result"] is None


@pytest.mark.part("matrix")
def test_a_desk_that_runs_carries_it_out_in_a_process_of_its_own(
    operator: Client, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it finds no flow to try, which it says before Spark is needed."""
    monkeypatch.chdir(tmp_path)
    world.runtime.actors.register(Rehearser)
    host = world.runtime.actors.host()
    host.start()
    try:
        id = ask(operator, bad(world).group_id).json()["id"]

        def ended() -> Any:
            found = operator.get(f"{DESK}/rehearsals/{id}").json()
            return found if found["state"] not in ("waiting", "running") else None

        found = wait_until(ended, 120, "the rehearsal to end")
        assert found["state"] == "failed"
        assert f"no file in this directory has the flow {FLOW}" in found["reason"]
        assert world.runtime.actors.instance(NAME).is_live  # and waits for the next one
    finally:
        world.runtime.actors.abort(NAME, who="test", why="over")
        wait_until(lambda: not world.runtime.actors.instance(NAME).is_live, 60, "the rehearser to end")
        host.stop()


def test_a_rehearsal_is_asked_for_once_and_can_be_aborted(operator: Client, viewer: Client, world: World) -> None:
    group = bad(world).group_id
    answers = [operator.ask(f"/desk/groups/{group}/rehearse", {"why": "try"}, idempotency_key="r") for _ in range(3)]
    assert len({answer.content for answer in answers}) == 1
    id = answers[0].json()["id"]
    assert len(operator.get(f"{DESK}/rehearsals").json()["items"]) == 1
    assert viewer.ask(f"/desk/rehearsals/{id}/abort", {"why": "x"}).status_code == 403
    aborted = operator.ask(f"/desk/rehearsals/{id}/abort", {"why": "not now"}).json()
    assert (aborted["state"], "not now" in aborted["reason"]) == ("aborted", True)
    again = operator.ask(f"/desk/rehearsals/{id}/abort", {"why": "not now"})
    assert (again.status_code, error_of(again)["code"]) == (409, "illegal_move")


def test_what_is_refused_of_rehearsals(operator: Client, viewer: Client, world: World) -> None:
    group = bad(world).group_id
    assert ask(viewer, group).status_code == 403
    assert ask(operator, 9999).status_code == 404
    code = ask(operator, group, code="os:system")
    assert (code.status_code, error_of(code)["code"]) == (422, "cannot_rehearse")
    assert "next" in error_of(code)["message"]
    assert ask(operator, group, most=0).status_code == 422
    other = world.runtime.queue.inbox("other")
    assert other.name == "other"
    foreign = world.runtime.queue.outbox("test").notice("other", "X", {"payload": "secret"})
    for id in (foreign, "nonsense", "01900000-0000-7000-8000-000000000000"):
        unknown = operator.get(f"{DESK}/rehearsals/{id}")
        assert (unknown.status_code, error_of(unknown)["code"]) == (404, "unknown_rehearsal")
        assert operator.ask(f"/desk/rehearsals/{id}/abort", {"why": "x"}).status_code == 404


# Notifications


def test_notices_and_targets(make_desk: Callable[..., Runtime]) -> None:
    with webhook() as hook:
        _notices_and_targets(make_desk, hook)


def _notices_and_targets(make_desk: Callable[..., Runtime], hook: Hook) -> None:
    runtime = make_desk(notify={"webhooks": [{"name": "ops", "url": hook.url, "secret": "s" * 32}]})
    operator, viewer = (Client(runtime, make_key(runtime, role)) for role in ("operator", "viewer"))
    for number in range(3):
        with runtime.database.transaction() as tx:
            notice = Notice(NoticeKind.GROUP_FOUND, f"shop/{number}", f"new errors {number}", {"group": number})
            runtime.notify.notices.tell(tx, notice)
    first = viewer.get(f"{API}/notify/notices", params={"limit": 2}).json()
    assert [item["subject"] for item in first["items"]] == ["shop/2", "shop/1"]
    rest = viewer.get(f"{API}/notify/notices", params={"before": first["next"]}).json()
    assert [(item["subject"], item["state"]) for item in rest["items"]] == [("shop/0", "waiting")]
    assert rest["next"] is None
    [target] = viewer.get(f"{API}/notify/targets").json()["items"]
    assert (target["name"], target["way"]) == ("ops", "webhook")
    assert "secret-token" not in str(target)
    assert viewer.ask("/notify/targets/ops/try", {"why": "x"}).status_code == 403
    tried = operator.ask("/notify/targets/ops/try", {"why": "does it work?"}).json()
    assert (tried["is_delivered"], tried["reason"]) == (True, None)
    assert len(hook.posts) == 1
    hook.statuses = [500]
    failed = operator.ask("/notify/targets/ops/try", {"why": "does it work?"}).json()
    assert (failed["is_delivered"], failed["id"]) == (False, None)
    assert failed["reason"]
    assert operator.ask("/notify/targets/nobody/try", {"why": "x"}).status_code == 404
