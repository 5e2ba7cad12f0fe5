"""The desk over HTTP: looking, changing, bulk jobs, groups, lanes and policies, on both databases."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.desk_world import FLOW, World
from tests.support.http import API, Client, error_of, make_key
from tests.support.tables import rows

from towpath.desk.cases.model import Case, CaseState
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.notify.model import Notice, NoticeKind
from towpath.runtime import Runtime

DESK = f"{API}/desk"


@pytest.fixture
def runtime(desk_runtime: Runtime) -> Runtime:
    return desk_runtime


@pytest.fixture
def world(runtime: Runtime) -> World:
    return World(runtime)


@pytest.fixture
def operator(runtime: Runtime, world: World) -> Client:
    return Client(runtime, make_key(runtime, "operator"))


@pytest.fixture
def viewer(runtime: Runtime, world: World) -> Client:
    return Client(runtime, make_key(runtime, "viewer"))


def test_lists_and_one_case(viewer: Client, world: World) -> None:
    made = world.cases(5)
    world.cases(2, state=CaseState.IGNORED, settled_by="ann", settled_why="known")
    first = viewer.get(f"{DESK}/cases", params={"states": "open", "limit": 3}).json()
    assert [item["id"] for item in first["items"]] == [case.id for case in made[:1:-1]]
    rest = viewer.get(f"{DESK}/cases", params={"states": "open", "before": first["next"]}).json()
    assert [item["id"] for item in rest["items"]] == [made[1].id, made[0].id]
    assert rest["next"] is None
    assert viewer.get(f"{DESK}/cases/count", params={"flow": FLOW}).json() == {"cases": 7}
    assert viewer.get(f"{DESK}/cases/count", params={"flow": "other"}).json() == {"cases": 0}
    shown = viewer.get(f"{DESK}/cases/{made[0].seq}").json()
    assert (shown["id"], json.loads(shown["value"])["city"]) == (made[0].id, "Bonn")
    assert shown["seen"] == {"state": "open", "attempts": 1, "edit": 0}
    assert viewer.get(f"{DESK}/cases/{made[0].id}/body").content == shown["value"].encode()
    assert viewer.get(f"{DESK}/cases/{made[0].id}/record").json() == {"record": None}


@pytest.mark.parametrize("form", ["json", "csv"])
def test_an_export_is_streamed(viewer: Client, world: World, form: str) -> None:
    world.cases(450)
    answer = viewer.get(f"{DESK}/export", params={"form": form, "flow": FLOW})
    lines = answer.text.splitlines()
    assert len(lines) == 450 + (form == "csv")
    assert answer.headers["content-type"].startswith("application/x-ndjson" if form == "json" else "text/csv")


def test_a_body_that_is_not_text(viewer: Client, world: World) -> None:
    case = world.case(b"\xff\x00<script>")
    assert viewer.get(f"{DESK}/cases/{case.id}").json()["value_base64"] == "/wA8c2NyaXB0Pg=="
    answer = viewer.get(f"{DESK}/cases/{case.id}/body")
    assert answer.content == b"\xff\x00<script>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"


def edit(client: Client, case: Case, value: str, seen: dict[str, Any] | None = None) -> Any:
    now = seen or client.get(f"{DESK}/cases/{case.id}").json()["seen"]
    return client.ask(f"/desk/cases/{case.id}/edit", {"value": value, "seen": now, "why": "the city was wrong"})


def test_edit_and_replay(operator: Client, world: World) -> None:
    case = world.case()
    seen = operator.get(f"{DESK}/cases/{case.id}").json()["seen"]
    edited = edit(operator, case, '{"id": 1, "city": "Köln"}')
    assert edited.status_code == 200
    assert edited.json()["edits"][0]["changes"] == [{"path": "city", "before": '"Bonn"', "after": '"Köln"'}]
    stale = edit(operator, case, '{"id": 1, "city": "Ulm"}', seen)
    assert (stale.status_code, error_of(stale)["code"]) == (409, "stale_edit")
    for value in ("{", '{"id": "x"}'):
        refused = edit(operator, case, value)
        assert (refused.status_code, error_of(refused)["code"]) == (422, "bad_edit")
    replayed = operator.ask("/desk/cases/replay", {"cases": [case.id], "why": "mended"})
    assert (replayed.status_code, replayed.json()["refused"]) == (200, {})
    assert replayed.json()["cases"][0]["state"] == "replaying"
    again = operator.ask("/desk/cases/replay", {"cases": [case.id], "why": "mended"})
    assert (again.status_code, error_of(again)["code"]) == (409, "illegal_case_move")


def test_with_an_idempotency_key_a_case_is_replayed_once(operator: Client, world: World) -> None:
    case = world.case()
    body = {"cases": [case.id], "why": "mended", "delay_s": 60}
    answers = [operator.ask("/desk/cases/replay", body, idempotency_key="k") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({answer.content for answer in answers}) == 1
    assert len(rows(world.database, "desk_outbox")) == 1
    assert operator.ask("/desk/cases/recall", {"cases": [case.id], "why": "wait"}).json()["cases"][0]["state"] == "open"


def test_several_at_once_say_which_were_refused(operator: Client, world: World) -> None:
    cases = world.cases(2)
    gone = "01900000-0000-7000-8000-000000000000"
    names = [cases[0].id, str(cases[1].seq), gone]
    done = operator.ask("/desk/cases/abandon", {"cases": names, "why": "known"}).json()
    assert {item["state"] for item in done["cases"]} == {"abandoned"}
    assert list(done["refused"]) == [gone]


def test_assign_note_and_history(operator: Client, world: World) -> None:
    case = world.case()
    operator.ask("/desk/cases/assign", {"cases": [case.id], "assignee": "bea", "why": "knows it"})
    noted = operator.ask(f"/desk/cases/{case.id}/note", {"text": "asked the shop"}).json()
    assert noted["assignee"] == "bea"
    assert [(done["what"], done["who"]) for done in noted["history"]] == [
        ("assigned", "operator"),
        ("noted", "operator"),
    ]
    assert operator.get(f"{DESK}/cases", params={"assignee": "bea"}).json()["items"][0]["id"] == case.id


def test_metrics_of_the_desk(viewer: Client, operator: Client, world: World) -> None:
    cases = world.cases(3)
    operator.ask("/desk/cases/replay", {"cases": [cases[0].id], "why": "later", "delay_s": 60})
    text = viewer.get("/metrics").text
    assert 'towpath_desk_cases{flow="shop",state="open"} 2.0' in text
    assert 'towpath_desk_cases{flow="shop",state="waiting"} 1.0' in text
    assert 'towpath_lane_late_seconds{flow="shop",lane="0"} 0.0' in text
    world.database.shift_clock(3600)
    late = float(viewer.get("/metrics").text.split('towpath_lane_late_seconds{flow="shop",lane="0"} ')[1].split()[0])
    assert 3500 < late < 3600


def test_a_viewer_changes_nothing(viewer: Client, world: World) -> None:
    case = world.case()
    before = rows(world.database, "desk_case")
    for path in ("replay", "resend", "recall", "abandon", "open", "assign"):
        answer = viewer.ask(f"/desk/cases/{path}", {"cases": [case.id], "why": "x"})
        assert error_of(answer)["code"] == "not_allowed"
    assert rows(world.database, "desk_case") == before


def test_bulk_jobs(operator: Client, world: World) -> None:
    world.cases(4)
    asked = {"kind": "abandon", "selection": {"flow": FLOW}}
    assert operator.post(f"{DESK}/jobs/count", json=asked).json() == {"cases": 4}
    made = operator.ask("/desk/jobs", {**asked, "name": "clean up", "why": "known"}, idempotency_key="j1")
    again = operator.ask("/desk/jobs", {**asked, "name": "clean up", "why": "known"}, idempotency_key="j1")
    assert (made.status_code, made.content) == (201, again.content)
    job = made.json()
    assert (job["state"], job["cases"]) == ("counted", 4)
    begun = operator.ask(f"/desk/jobs/{job['id']}/begin", {"why": "go"}).json()
    assert begun["state"] == "filling"
    world.runtime.actors.register(world.desk.jobs.actor())
    aborted = operator.ask(f"/desk/jobs/{job['id']}/abort", {"why": "no, wait"}).json()
    assert aborted["state"] == "aborted"
    late = operator.ask(f"/desk/jobs/{job['id']}/pause", {"why": "x"})
    assert (late.status_code, error_of(late)["code"]) == (409, "illegal_job_move")
    assert [each["name"] for each in operator.get(f"{DESK}/jobs").json()["items"]] == ["clean up"]


def test_a_job_of_named_cases(operator: Client, world: World) -> None:
    """By number, by id, and by the beginning of one."""
    one, two, three, _ = world.cases(4)
    names = [str(one.seq), two.id, three.id[:13]]
    asked = {"kind": "abandon", "selection": {"ids": names}}
    assert operator.post(f"{DESK}/jobs/count", json=asked).json() == {"cases": 3}
    job = operator.ask("/desk/jobs", {**asked, "name": "three", "why": "known"}).json()
    assert job["selection"]["ids"] == [one.id, two.id, three.id]
    unknown = operator.post(f"{DESK}/jobs/count", json={**asked, "selection": {"ids": ["999"]}})
    assert unknown.status_code == 404
    assert operator.get(f"{DESK}/jobs/{job['seq']}/items").json() == {"items": [], "next": None}
    refused = operator.ask("/desk/jobs", {"kind": "regroup", "selection": {}, "why": "x"})
    assert refused.status_code == 422


def test_groups(operator: Client, world: World) -> None:
    cases = world.cases(3)
    [group] = operator.get(f"{DESK}/groups", params={"flow": FLOW}).json()["items"]
    assert (group["state"], group["cases"]) == ("new", {"open": 3})
    path = f"/desk/groups/{group['id']}"
    assert operator.ask(f"{path}/look", {"why": "on it"}).json()["state"] == "ongoing"
    assert operator.ask(f"{path}/assign", {"assignee": "bea", "why": "x"}).json()["assignee"] == "bea"
    assert operator.ask(f"{path}/archive", {"more": 10, "why": "noise"}).json()["state"] == "archived"
    assert operator.ask(f"{path}/archive", {"more": 1, "rate": 2, "per_s": 1, "why": "x"}).status_code == 422
    assert operator.ask(f"{path}/resolve", {"why": "mended"}).json()["state"] == "resolved"
    split = operator.ask(f"{path}/split", {"cases": [cases[0].id], "title": "another cause", "why": "x"}).json()
    assert (split["moved"], split["group"]["title"]) == (1, "another cause")
    merged = operator.ask(f"/desk/groups/{split['group']['id']}/merge", {"into": group["id"], "why": "the same"}).json()
    assert merged["merged_into"] == group["id"]
    itself = operator.ask(f"/desk/groups/{group['id']}/merge", {"into": group["id"], "why": "the same"})
    assert itself.status_code == 422
    shown = operator.get(f"{API}{path}").json()
    assert shown["fingerprints"][0]["made_of"]
    assert "resolved" in [done["what"] for done in shown["history"]]


def test_pages_of_groups(operator: Client, world: World) -> None:
    from towpath.flow.failures import ErrorCode, RecordFailure

    for word in ("alpha", "beta", "gamma"):
        world.case(failure=RecordFailure(ErrorCode.TRANSFORM_FAILED, word, "KeyError", f"no {word}"))
    seen, cursor = [], None
    while True:
        params: dict[str, Any] = {"limit": 1} | ({} if cursor is None else {"before": cursor})
        page = operator.get(f"{DESK}/groups", params=params).json()
        seen += [group["step"] for group in page["items"]]
        if (cursor := page["next"]) is None:
            break
    assert sorted(seen) == ["alpha", "beta", "gamma"]


def test_lanes(operator: Client, world: World) -> None:
    cases = world.cases(3)
    operator.ask("/desk/cases/replay", {"cases": [case.id for case in cases], "why": "later", "delay_s": 3600})
    [lane] = operator.get(f"{API}/lanes").json()["items"]
    assert (lane["flow"], lane["delay_s"], lane["waiting"]) == (FLOW, 3600, 3)
    path = f"/lanes/{FLOW}/{lane['lane']}"
    assert operator.ask(f"{path}/pause").json()["is_paused"]
    assert not operator.ask(f"{path}/resume").json()["is_paused"]
    assert operator.ask(f"{path}/hurry").status_code == 200
    assert operator.ask(f"{path}/empty", idempotency_key="e1").json()["waiting"] == 0
    assert operator.ask(f"{path}/empty", idempotency_key="e1").headers["idempotency-replayed"] == "true"
    assert operator.get(f"{DESK}/cases/count", params={"states": "open"}).json() == {"cases": 3}
    gone = operator.ask(f"/lanes/{FLOW}/17/empty")
    assert (gone.status_code, error_of(gone)["code"]) == (404, "unknown_lane")


def test_what_waits_in_a_lane(operator: Client, world: World) -> None:
    cases = world.cases(3)
    operator.ask("/desk/cases/replay", {"cases": [case.id for case in cases], "why": "later", "delay_s": 3600})
    path = f"{API}/lanes/{FLOW}/0/cases"
    first = operator.get(path, params={"limit": 2}).json()
    rest = operator.get(path, params={"limit": 2, "after": first["next"]}).json()
    assert [item["id"] for page in (first, rest) for item in page["items"]] == [case.id for case in cases]
    assert rest["next"] is None
    assert error_of(operator.get(path, params={"after": "yesterday"}))["code"] == "bad_value"
    assert operator.get(f"{API}/lanes/{FLOW}/17/cases").status_code == 404


def test_groups_are_found_by_what_they_say(operator: Client, world: World) -> None:
    group = world.case().group_id
    for asked, found in (("text=keyERROR", [group]), ("code=8", []), ("code=9&text=xyz", [])):
        items = operator.get(f"{DESK}/groups?{asked}").json()["items"]
        assert [item["id"] for item in items] == found
        assert all(len(item["trend"]) == 24 for item in items)


def test_policies(operator: Client, world: World) -> None:
    world.cases(2)
    rule = {"policy": "repeat", "times": 3, "step": "price"}
    tried = operator.post(f"{API}/policies/{FLOW}/count", json={"rules": [rule]}).json()
    assert (tried["cases"], tried["rules"][0]["cases"]) == (2, 2)
    made = operator.ask(f"/policies/{FLOW}", {"rules": [rule], "after": 0, "why": "try again"})
    assert (made.status_code, made.json()["version"]) == (200, 1)
    late = operator.ask(f"/policies/{FLOW}", {"rules": [], "after": 0, "why": "x"})
    assert (late.status_code, error_of(late)["code"]) == (409, "changed_meanwhile")
    bad = operator.ask(f"/policies/{FLOW}", {"rules": [{"policy": "pray"}], "why": "x"})
    assert (bad.status_code, error_of(bad)["code"]) == (422, "bad_policy")
    assert len(operator.get(f"{API}/policies").json()["items"]) == 1
    assert operator.ask(f"/policies/{FLOW}/withdraw", {"number": 0, "why": "x"}).json()["version"] == 2
    assert len(operator.get(f"{API}/policies/{FLOW}").json()["items"]) == 2


def test_who_may_not_see_a_field_neither_edits_nor_searches_it(make_desk: Any) -> None:
    runtime = make_desk(desk={"masked": {FLOW: ["city"]}, "sees_masked": "admin"})
    world = World(runtime)
    case = world.cases(1)[0]
    operator, admin = (Client(runtime, make_key(runtime, role)) for role in ("operator", "admin"))
    shown = operator.get(f"{DESK}/cases/{case.id}").json()
    assert "Bonn" not in shown["value"]
    sent = {"value": '{"city": "Köln"}', "seen": shown["seen"], "why": "wrong city"}
    refused = operator.post(f"{DESK}/cases/{case.id}/edit", json=sent)
    assert (refused.status_code, error_of(refused)["code"]) == (403, "fields_masked")
    search = {"kind": "abandon", "selection": {"body": "Bonn"}}
    for path, sent in (("jobs/count", search), ("jobs", {**search, "why": "x"})):
        assert operator.post(f"{DESK}/{path}", json=sent).status_code == 403
    title = "no price for Bonn"
    told = world.cases(1, failure=RecordFailure(ErrorCode.NOT_VALID, "price", "ValueError", title))[0]
    with runtime.database.transaction() as tx:
        data = {"flow": FLOW, "group": told.group_id, "title": title}
        said = Notice(NoticeKind.GROUP_FOUND, f"{FLOW}/1", f"group 1 of {FLOW} is new: {title}", data)
        runtime.notify.notices.tell(tx, said)
    for path in (f"{DESK}/groups", f"{DESK}/groups/{told.group_id}", f"{API}/notify/notices"):
        assert "Bonn" not in operator.get(path).text
        assert "Bonn" in admin.get(path).text
    guess = {"rules": [{"policy": "isolate", "where": "value.city == 'Bonn'"}]}
    counted = operator.post(f"{API}/policies/{FLOW}/count", json=guess)
    assert (counted.status_code, error_of(counted)["code"]) == (403, "fields_masked")
    assert admin.post(f"{API}/policies/{FLOW}/count", json=guess).json()["rules"][0]["cases"] == 2
    assert "Bonn" in admin.get(f"{DESK}/cases/{case.id}").json()["value"]
    assert rows(runtime.database, "desk_edit") == rows(runtime.database, "desk_job") == []
