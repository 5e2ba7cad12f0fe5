"""Block rules, complaints and maintenance over HTTP: who may do what, and what anybody may do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.http import API, Client, MakeClient, error_of, make_key
from tests.support.sweep import sweep
from tests.support.tables import events, rows

from towpath.log import NewRecord
from towpath.runtime import Runtime

RULE = {"action": "ignore", "topic": "orders", "key": "k", "until": "2100-01-01", "why": "noise"}
SAID = {"target": "orders", "document": "order-7", "text": "not mine", "contact": "reader@example.org"}


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("towpath.admin.cleanup.shared_directory", lambda: tmp_path / "shared")
    return make_runtime(
        log={"url": f"sqlite:///{tmp_path}/topics.db"},
        complaints={"public": True, "per_minute": 0.6},  # so slow that a busy machine does not wait for the next one
        gateway={"directory": str(tmp_path / "uploads")},
    )


@pytest.fixture
def operator(make_client: MakeClient) -> Client:
    return make_client("operator")


# Block rules


def test_a_rule_is_made_shown_and_withdrawn(make_client: MakeClient, runtime: Runtime) -> None:
    operator, viewer = make_client("operator"), make_client("viewer")
    made = operator.ask("/blocks", RULE)
    assert made.status_code == 201, made.text
    number = made.json()["number"]
    assert made.json()["match"] == {"topic": "orders", "key": "k"}
    assert made.json()["until"] == "2100-01-02T00:00:00Z"
    assert viewer.get(f"{API}/blocks/{number}").json() == made.json()
    assert viewer.get(f"{API}/blocks", params={"state": "active"}).json()["items"] == [made.json()]
    assert error_of(viewer.ask("/blocks", RULE))["code"] == "not_allowed"
    gone = operator.ask(f"/blocks/{number}/withdraw")
    assert (gone.json()["state"], gone.json()["withdrawn_by"]) == ("withdrawn", "operator")
    again = operator.ask(f"/blocks/{number}/withdraw")
    assert (again.status_code, error_of(again)["code"]) == (409, "illegal_block_move")
    assert operator.get(f"{API}/blocks/99").status_code == 404
    assert [row["what"] for row in rows(runtime.database, "access_audit")][:2] == [
        "add block rule",
        "POST /api/v1/blocks",
    ]


def test_a_rule_is_made_once(make_client: MakeClient, runtime: Runtime) -> None:
    operator = make_client("operator")
    first, second = (operator.ask("/blocks", RULE, idempotency_key="one") for _ in range(2))
    assert first.json() == second.json()
    assert len(rows(runtime.database, "block_rule")) == 1


@sweep(
    ("change", "code"),
    [
        ({"until": "2001-01-01"}, "bad_block"),
        ({"until": "2100-01-01T00:00:00"}, "bad_block"),
        ({"until": None}, "not_valid"),
        ({"action": "burn"}, "not_valid"),
        ({"topic": None, "key": None}, "bad_block"),
        ({"prefix": "k"}, "bad_block"),
        ({"where": "value."}, "bad_expression"),
        ({"where": "code = 7"}, "bad_block"),
        ({"why": ""}, "not_valid"),
        ({"colour": "red"}, "not_valid"),
    ],
)
def test_what_is_no_rule(change: dict[str, Any], code: str, operator: Client, runtime: Runtime) -> None:
    answer = operator.ask("/blocks", {**RULE, **change})
    assert (answer.status_code, error_of(answer)["code"]) == (422, code)
    assert rows(runtime.database, "block_rule") == []


# Complaints


def test_anybody_may_complain_but_not_too_often(make_client: MakeClient, runtime: Runtime) -> None:
    nobody = make_client(None)
    heard = [nobody.post("/complaints", json=SAID) for _ in range(2)]
    assert [answer.status_code for answer in heard] == [202, 202]
    assert heard[0].json() == {"complaint": 1}
    refused = nobody.post("/complaints", json=SAID)
    assert (refused.status_code, error_of(refused)["code"]) == (429, "too_fast")
    assert 1 <= int(refused.headers["Retry-After"]) <= 100
    [first, _] = rows(runtime.database, "complaint")
    assert (first["said"], first["made_by"], first["state"]) == ("not mine", None, "new")


@pytest.mark.parametrize(
    "change",
    [{"text": ""}, {"text": "x" * 5001}, {"document": "x" * 1001}, {"target": ""}, {"why": "x"}, {"text": "a\x00"}],
)
def test_what_is_no_complaint(change: dict[str, str], make_client: MakeClient, runtime: Runtime) -> None:
    answer = make_client(None).post("/complaints", json={**SAID, **change})
    assert (answer.status_code, error_of(answer)["code"]) == (422, "not_valid")
    assert rows(runtime.database, "complaint") == []


def test_a_stranger_does_not_send_much(make_client: MakeClient, runtime: Runtime) -> None:
    body = json.dumps({**SAID, "text": "x" * (64 << 10)}).encode()
    answer = make_client(None).post("/complaints", content=body)
    assert (answer.status_code, error_of(answer)["code"]) == (413, "too_large")
    in_pieces = make_client(None).post("/complaints", content=iter([body[:1000], body[1000:]]))
    assert in_pieces.status_code == 413


def test_where_nobody_may_complain_there_is_no_such_route(make_runtime: Callable[..., Runtime]) -> None:
    closed = make_runtime()
    answer = Client(closed).post("/complaints", json={})
    assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
    staff = Client(closed, make_key(closed, "operator")).ask("/complaints", SAID)
    assert (staff.status_code, staff.json()["made_by"]) == (201, "operator")


def test_a_complaint_is_worked_on(make_client: MakeClient, runtime: Runtime) -> None:
    operator, viewer = make_client("operator"), make_client("viewer")
    number = operator.ask("/complaints", SAID).json()["number"]
    other = operator.ask("/complaints", SAID).json()["number"]
    shown = viewer.get(f"{API}/complaints/{number}").json()
    assert (shown["text"], shown["contact"], shown["others"]) == ("not mine", None, [other])
    assert operator.get(f"{API}/complaints/{number}").json()["contact"] == "reader@example.org"
    assert error_of(viewer.ask(f"/complaints/{number}/take"))["code"] == "not_allowed"
    assert operator.ask(f"/complaints/{number}/take").json()["taken_by"] == "operator"
    done = operator.ask(f"/complaints/{number}/dismiss", {"reply": "It is yours.", "why": "checked"})
    assert (done.json()["state"], done.json()["outcome"]) == ("settled", "dismissed")
    again = operator.ask(f"/complaints/{number}/take")
    assert (again.status_code, error_of(again)["code"]) == (409, "illegal_complaint_move")
    assert [each["number"] for each in viewer.get(f"{API}/complaints?state=new").json()["items"]] == [other]
    assert operator.ask(f"/complaints/{other}/dismiss").status_code == 422


def test_a_complaint_leads_to_its_record(make_client: MakeClient, runtime: Runtime) -> None:
    runtime.log.create_topic("orders", 1)
    runtime.log.append("orders", [NewRecord(b"{}", b"ann")])
    operator = make_client("operator")
    numbers = [operator.ask("/complaints", SAID).json()["number"] for _ in range(2)]
    unknown = operator.ask(f"/complaints/{numbers[0]}/rerun")
    assert (unknown.status_code, error_of(unknown)["code"]) == (409, "record_unknown")
    place = {"topic": "orders", "partition": 0, "offset": 0}
    for number in numbers:
        linked = operator.ask(f"/complaints/{number}/link", {**place, "why": "the log"})
        assert linked.json()["record"] == place
    again = [operator.ask(f"/complaints/{numbers[0]}/rerun", idempotency_key="x") for _ in range(2)]
    assert [answer.json()["outcome"] for answer in again] == ["re-run", "re-run"]
    assert runtime.log.ends("orders") == {0: 2}
    only_data = make_client("operator", ["data:write", "read"])
    until = {"until": "2100-01-01", "why": "spam"}
    assert error_of(only_data.ask(f"/complaints/{numbers[1]}/block", until))["code"] == "not_allowed"
    blocked = operator.ask(f"/complaints/{numbers[1]}/block", until).json()
    assert operator.get(f"{API}/blocks/{blocked['rule']}").json()["match"] == {"topic": "orders", "key": "ann"}


# Maintenance


def test_what_can_be_cleaned_is_shown_and_cleaned(make_client: MakeClient, runtime: Runtime) -> None:
    viewer, operator = make_client("viewer"), make_client("operator")
    runtime.log.topics()
    shown = viewer.get(f"{API}/maintenance")
    assert shown.status_code == 200, shown.text
    names = [each["name"] for each in shown.json()["items"]]
    assert {"queue", "queue-reap", "desk", "access", "uploads", "log", "database", "fetched-files"} <= set(names)
    assert all(each["last"] is None and each["size"]["amount"] >= 0 for each in shown.json()["items"])
    [keys] = [each for each in shown.json()["caches"] if each["name"] == "partitions of keys"]
    assert set(keys) == {"name", "hits", "misses", "held", "most", "hit_rate"}
    assert error_of(viewer.ask("/maintenance/queue/run"))["code"] == "not_allowed"
    done = operator.ask("/maintenance/queue/run").json()
    assert (done["name"], done["who"], done["before"]["unit"]) == ("queue", "operator", "rows")
    assert viewer.get(f"{API}/maintenance/queue").json()["last"]["why"] == "a test"
    assert error_of(operator.ask("/maintenance/moon/run"))["code"] == "unknown_cleaning"
    assert [row["subject"] for row in events(runtime.database, "cleaned_by_hand")] == ["queue"]
