"""A request with an idempotency key is done once, however often it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.http import API, Client, MakeClient, error_of, make_key
from tests.support.sweep import sweep
from tests.support.tables import by_hand, rows

from towpath.errors import CommitUnknown
from towpath.runtime import Runtime

BOB = {"name": "bob", "role": "viewer", "why": "new here"}


def requests(runtime: Runtime) -> list[tuple[str, str, int | None]]:
    return [(row["key"], row["state"], row["status"]) for row in rows(runtime.database, "access_request")]


def test_the_same_again_gets_the_same_answer(make_client: MakeClient, runtime: Runtime) -> None:
    client = make_client()
    first = client.ask("/users", BOB, idempotency_key="k1")
    second = client.ask("/users", BOB, idempotency_key="k1")
    assert (first.status_code, first.headers.get("idempotency-replayed")) == (201, None)
    assert (second.status_code, second.headers.get("idempotency-replayed")) == (201, "true")
    assert first.content == second.content
    assert requests(runtime) == [("k1", "answered", 201)]
    assert len(rows(runtime.database, "access_audit")) == 1


def test_the_same_key_for_something_else_is_refused(make_client: MakeClient, runtime: Runtime) -> None:
    client = make_client()
    client.ask("/users", BOB, idempotency_key="k1")
    for path, body in (
        ("/users", {**BOB, "name": "eve"}),
        ("/users/bob/disable", {"why": "new here"}),
        ("/users?x=1", BOB),
    ):
        answer = client.ask(path, body, idempotency_key="k1")
        assert (answer.status_code, error_of(answer)["code"]) == (409, "request_reused")
    assert [user.name for user in runtime.access.users()] == ["admin", "bob"]


def test_keys_of_two_persons_have_nothing_to_do_with_each_other(make_client: MakeClient, runtime: Runtime) -> None:
    runtime.access.add_user("second", "admin", who="test", why="x")
    _, token = runtime.access.make_key("second", ["admin"], who="test", why="x")
    assert make_client().ask("/users", BOB, idempotency_key="k1").status_code == 201
    answer = Client(runtime, token.text).ask("/users", {**BOB, "name": "eve"}, idempotency_key="k1")
    assert answer.status_code == 201


def test_what_was_refused_may_be_asked_again(make_client: MakeClient, runtime: Runtime) -> None:
    client = make_client()
    assert client.ask("/users/bob/disable", idempotency_key="k1").status_code == 404
    assert requests(runtime) == []
    client.ask("/users", BOB)
    assert client.ask("/users/bob/disable", idempotency_key="k1").status_code == 200


def test_a_secret_is_not_kept(make_client: MakeClient, runtime: Runtime) -> None:
    client = make_client()
    sent = {"user": "admin", "scopes": ["read"], "why": "x"}
    made = client.ask("/keys", sent, idempotency_key="k1")
    assert made.status_code == 201
    again = client.ask("/keys", sent, idempotency_key="k1")
    assert (again.status_code, error_of(again)["code"]) == (409, "shown_once")
    assert made.json()["key"] not in str(rows(runtime.database, "access_request"))
    assert len(runtime.access.keys(limit=9)) == 2


@pytest.fixture
def admin(make_client: MakeClient) -> Client:
    return make_client()


@sweep("key", ["a b", "\t", "x" * 201, "ä".encode().decode("latin-1")])
def test_keys_that_are_none(admin: Client, key: str) -> None:
    answer = admin.post(f"{API}/users", json=BOB, headers={b"Idempotency-Key": key.encode("latin-1")})
    assert answer.status_code == 422
    error_of(answer)


def test_one_at_a_time(make_client: MakeClient, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_client()
    inside, gate = threading.Event(), threading.Event()
    add = runtime.access.add_user

    def slow(*args: Any, **options: Any) -> Any:
        inside.set()
        assert gate.wait(30)
        return add(*args, **options)

    monkeypatch.setattr(runtime.access, "add_user", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.ask, "/users", BOB, idempotency_key="k1")
        assert inside.wait(30)
        second = client.ask("/users", BOB, idempotency_key="k1")
        gate.set()
        assert first.result().status_code == 201
    assert (second.status_code, error_of(second)["code"]) == (409, "request_running")
    assert second.headers["retry-after"] == "1"


def test_one_at_a_time_over_two_processes(
    make_client: MakeClient, make_runtime: Callable[..., Runtime], runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process that lives is at is left to it."""
    client = make_client()
    other = make_runtime()
    client.ask("/users", BOB, idempotency_key="k1")
    by_hand(
        runtime.database,
        "update access_request set state = 'running', status = null, answer = null, owner = :owner",
        owner=other.process().id,
    )
    answer = client.ask("/users", BOB, idempotency_key="k1")
    assert (answer.status_code, error_of(answer)["code"]) == (409, "request_running")


def test_an_owner_that_was_taken_for_dead_cannot_finish(
    make_client: MakeClient, make_runtime: Callable[..., Runtime], runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the check in the change's own transaction the change would be made twice."""
    client = make_client()
    add = runtime.access.add_user

    def overtaken(*args: Any, **options: Any) -> Any:
        by_hand(runtime.database, "update access_request set owner = 'the successor'")
        return add(*args, **options)

    monkeypatch.setattr(runtime.access, "add_user", overtaken)
    answer = client.ask("/users", BOB, idempotency_key="k1")
    assert (answer.status_code, error_of(answer)["code"]) == (409, "request_running")
    assert [user.name for user in runtime.access.users()] == ["admin"]


def test_when_nobody_knows_whether_it_was_made_the_next_one_finds_out(
    make_client: MakeClient, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client()
    add = runtime.access.add_user

    def unknown(*args: Any, **options: Any) -> Any:
        add(*args, **options)
        raise CommitUnknown("the connection broke")

    monkeypatch.setattr(runtime.access, "add_user", unknown)
    answer = client.ask("/users", BOB, idempotency_key="k1")
    assert (answer.status_code, error_of(answer)["code"]) == (503, "commit_unknown")
    assert requests(runtime) == [("k1", "made", None)]
    again = client.ask("/users", BOB, idempotency_key="k1")
    assert (again.status_code, again.json()["name"], again.headers["idempotency-replayed"]) == (201, "bob", "true")


def test_after_a_day_it_is_forgotten(make_client: MakeClient, runtime: Runtime) -> None:
    client = make_client()
    client.ask("/users", BOB, idempotency_key="k1")
    runtime.database.shift_clock(86_400 + 1)
    assert runtime.access.janitor().clean()["requests"] == 1
    answer = client.ask("/users", BOB, idempotency_key="k1")
    assert (answer.status_code, error_of(answer)["code"]) == (409, "user_exists")


def test_many_at_once_make_one(make_runtime: Callable[..., Runtime]) -> None:
    runtimes = [make_runtime() for _ in range(3)]
    key = make_key(runtimes[0])
    clients = [Client(runtime, key) for runtime in runtimes for _ in range(4)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda client: client.ask("/users", BOB, idempotency_key="k1"), clients))
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) <= {201, 409}
    assert 201 in statuses
    fresh = [a for a in answers if a.status_code == 201 and "idempotency-replayed" not in a.headers]
    assert len(fresh) == 1
    assert len([row for row in rows(runtimes[0].database, "access_audit") if row["outcome"] == "done"]) == 1
