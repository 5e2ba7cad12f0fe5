"""The frame of the JSON API: who is let in, what every answer carries, what goes wrong in one shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.routing import APIRoute
from tests.support.http import API, Client, MakeClient, error_of, make_key
from tests.support.roles import MAY
from tests.support.sweep import sweep
from tests.support.tables import rows

from towpath.access.roles import Role, Scope
from towpath.errors import DatabaseUnavailable
from towpath.runtime import Runtime
from towpath.web.app import ROUTERS, build_app
from towpath.web.auth import scopes_of
from towpath.web.failures import GATEWAY, PREFIX
from towpath.web.middleware import SECURITY_HEADERS

OPEN = {"/healthz", "/readyz", "/metrics", "/complaints"}  # these two look for themselves


def routes() -> list[APIRoute]:
    return [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def test_there_are_routes() -> None:
    assert len(routes()) > 40


@sweep("route", routes())
def test_every_route_needs_a_scope_and_changes_need_more_than_looking(route: APIRoute) -> None:
    if route.path in OPEN:
        return
    assert route.path.startswith((PREFIX, GATEWAY))
    scopes = scopes_of(route)
    assert scopes
    if route.methods != {"GET"} and not route.path.endswith("/count"):
        assert not {Scope.READ, Scope.METRICS} & set(scopes)


@sweep("route", [r for r in routes() if r.path not in OPEN])
def test_nobody_is_let_in_without_what_it_needs(route: APIRoute, sqlite_client: MakeClient) -> None:
    """Asked of every route, by somebody without a key and by each role."""
    path = route.path.replace("{", "").replace("}", "")
    method = min(route.methods or ())
    scopes = scopes_of(route)
    assert error_of(sqlite_client(None).request(method, path, json={}))["code"] == "not_logged_in"
    for role in Role:
        answer = sqlite_client(role).request(method, path, json={})
        assert (answer.status_code == 403) == MAY[role].isdisjoint(scopes), (role, answer.text)
        narrow = sqlite_client(role, ["metrics"]).request(method, path, json={})
        assert error_of(narrow)["code"] == "not_allowed"


@pytest.fixture
def sqlite_client(sqlite_runtime: Runtime) -> MakeClient:
    """For what does not depend on the database. Keys are made once, and so is the app."""
    keys: dict[Any, str] = {}
    app = build_app(sqlite_runtime)

    def make(role: Role | str | None = Role.ADMIN, scopes: Any = None) -> Client:
        named = (role, None if scopes is None else tuple(scopes))
        if role is not None and named not in keys:
            keys[named] = make_key(sqlite_runtime, role, scopes)
        return Client(sqlite_runtime, keys.get(named), app)

    return make


@pytest.fixture
def admin(make_client: MakeClient) -> Client:
    return make_client()


@pytest.fixture(scope="module")
def sqlite_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    import towpath

    url = f"sqlite:///{tmp_path_factory.mktemp('api')}/towpath.db"
    with towpath.connect(url, database={"synchronous": "normal"}) as runtime:
        yield runtime


@sweep(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", f"{API}/nowhere", 404, "not_found"),
        ("GET", f"{API}/users/", 404, "not_found"),
        ("DELETE", f"{API}/me", 405, "method_not_allowed"),
        ("FROB", f"{API}/me", 405, "method_not_allowed"),
        ("OPTIONS", f"{API}/me", 405, "method_not_allowed"),
        ("GET", f"{API}/keys?limit=0", 422, "not_valid"),
        ("GET", f"{API}/keys?limit=1001", 422, "not_valid"),
        ("GET", f"{API}/keys?limit=x", 422, "not_valid"),
        ("GET", f"{API}/keys?before={2**63}", 422, "not_valid"),
        ("GET", f"{API}/users/nobody", 404, "unknown_user"),
        ("GET", f"{API}/users/a%00b", 422, "bad_value"),
        ("GET", f"{API}/audit?who=%00", 422, "bad_value"),
        ("GET", f"{API}/desk/cases?frob=1", 422, "not_valid"),
        ("GET", f"{API}/desk/cases?states=gone", 422, "not_valid"),
        ("GET", f"{API}/desk/cases?since=2026-01-01", 422, "not_valid"),
        ("GET", f"{API}/desk/cases/12", 404, "unknown_case"),
        ("GET", f"{API}/desk/groups?before=x", 422, "bad_value"),
        ("GET", f"{API}/desk/groups/{2**63}", 422, "not_valid"),
        ("GET", f"{API}/desk/jobs/12", 404, "unknown_job"),
    ],
)
def test_what_is_wrong_has_one_shape(admin: Client, method: str, path: str, status: int, code: str) -> None:
    answer = admin.request(method, path)
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)
    assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert answer.headers["x-request-id"]


@sweep(
    "body",
    [
        b"",
        b"{",
        b"[1]",
        b"\xff\xfe",
        b"null",
        b'{"name": "x"}',
        b'{"name": "x", "role": "viewer", "why": "y", "more": 1}',
        b'{"name": "x\\u0000", "role": "viewer", "why": "y"}',
        b'{"name": "\\ud800", "role": "viewer", "why": "y"}',
        b'{"name": "x", "role": "viewer", "why": ""}',
        b'{"name": {"a": 1}, "role": "viewer", "why": "y"}',
        b'{"name": "x", "role": "viewer", "why": NaN}',
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"[" * 200_000,
    ],
)
def test_bodies_that_cannot_be_used(sqlite_client: MakeClient, sqlite_runtime: Runtime, body: bytes) -> None:
    client = sqlite_client()
    before = len(rows(sqlite_runtime.database, "access_audit"))
    answer = client.post(f"{API}/users", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    error_of(answer)
    written = rows(sqlite_runtime.database, "access_audit")[before:]
    assert [row["outcome"] for row in written] in (["refused"], [])  # what is no JSON is not known to be a change


def test_an_error_never_repeats_what_was_sent(make_client: MakeClient) -> None:
    sent = {"name": "x", "role": "viewer", "why": "y", "password": "hunter2"}
    answer = make_client().post(f"{API}/users", json=sent)
    assert answer.status_code == 422
    assert "hunter2" not in answer.text


def test_a_fault_inside_is_one_sentence(
    make_client: MakeClient, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = make_client()
    monkeypatch.setattr(runtime.access, "users", lambda: 1 / 0)
    answer = client.get(f"{API}/users", headers={"X-Request-ID": "r-42"})
    assert answer.status_code == 500
    assert error_of(answer)["code"] == "unexpected"
    assert "ZeroDivision" not in answer.text
    assert answer.headers["x-request-id"] == "r-42"
    [record] = [each for each in caplog.records if each.name == "towpath.web.middleware"]
    assert record.exc_info is not None
    assert record.__dict__["request_id"] == "r-42"


def test_a_database_that_is_away_is_503(
    make_client: MakeClient, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client()

    def away() -> Any:
        raise DatabaseUnavailable("postgresql://ada:hunter2@db/x: away; nothing was written")

    monkeypatch.setattr(runtime.access, "users", away)
    answer = client.get(f"{API}/users")
    assert (answer.status_code, error_of(answer)["code"]) == (503, "database_unavailable")
    assert answer.headers["retry-after"] == "1"
    assert "hunter2" not in answer.text
    monkeypatch.setattr(runtime.event_log, "last_seq", lambda tx: away())
    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").json() == {"status": "ok"}


@sweep("host", ["evil.example", "evil.example:8470", "127.0.0.1.evil.example", "", "[::2]:1", ":8470"])
def test_another_name_is_refused(admin: Client, host: str) -> None:
    """A page under a name that its owner lets point here could otherwise use a browser to ask us."""
    answer = admin.get(f"{API}/me", headers={"Host": host})
    assert (answer.status_code, error_of(answer)["code"]) == (421, "unknown_host")


@pytest.fixture
def named(make_runtime: Callable[..., Runtime]) -> Client:
    return Client(make_runtime(api={"hosts": ["Towpath.example"]}))


@sweep("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]", "[::1]:8470", "towpath.example:443"])
def test_our_names_are_answered(named: Client, host: str) -> None:
    assert named.get("/healthz", headers={"Host": host}).status_code == 200


def test_a_body_that_is_too_large(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime(api={"max_body_bytes": 1024})
    client = Client(runtime, make_key(runtime))
    assert client.ask("/users", {"name": "bob", "role": "viewer", "why": "x" * 900}).status_code == 201
    said = client.post(f"{API}/users", content=b"x" * 1025)
    in_parts = client.post(f"{API}/users", content=iter([b"x" * 600, b"x" * 600]))
    for answer in (said, in_parts):
        assert (answer.status_code, error_of(answer)["code"]) == (413, "too_large")


@sweep("given", ["", "a b", "x" * 65, "ä", "a/b"])
def test_a_request_id_that_is_none_is_replaced(admin: Client, given: str) -> None:
    answer = admin.get("/healthz", headers={b"X-Request-ID": given.encode()})
    assert answer.headers["x-request-id"] != given
    assert len(answer.headers["x-request-id"]) == 32


@pytest.fixture
def stranger(make_client: MakeClient) -> Client:
    return make_client(None)


@sweep("header", ["", "Bearer", "Bearer x", "Basic YTpi", "Bearer tp_aaaaaaaa_" + "A" * 43])
def test_keys_that_are_none(stranger: Client, header: str) -> None:
    answer = stranger.get(f"{API}/me", headers={"Authorization": header})
    assert (answer.status_code, error_of(answer)["code"]) == (401, "not_logged_in")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_users_and_keys_over_http(make_client: MakeClient, runtime: Runtime) -> None:
    admin = make_client()
    assert admin.ask("/users", {"name": "bob", "role": "viewer", "why": "new here"}).status_code == 201
    made = admin.ask("/keys", {"user": "bob", "scopes": ["read"], "label": "his", "why": "asked for"})
    assert made.status_code == 201
    bob = Client(runtime, made.json()["key"])
    assert bob.get(f"{API}/me").json() == {"name": "bob", "role": "viewer", "scopes": ["read"]}
    assert bob.get(f"{API}/users").status_code == 403
    assert admin.ask("/users/bob/role", {"role": "operator", "why": "earned"}).json()["role"] == "operator"
    assert admin.ask("/users/bob/password", {"password": "x" * 12, "why": "y"}).json()["has_password"]
    assert not admin.ask("/users/bob/disable").json()["is_enabled"]
    assert bob.get(f"{API}/me").status_code == 401
    assert admin.ask("/users/bob/enable").json()["is_enabled"]
    assert admin.ask(f"/keys/{made.json()['prefix']}/revoke").json()["revoked_by"] == "admin"
    assert bob.get(f"{API}/me").status_code == 401
    assert [key["label"] for key in admin.get(f"{API}/keys?user=bob").json()["items"]] == ["his"]
    assert made.json()["key"] not in admin.get(f"{API}/keys").text


def test_every_change_is_in_the_trail_and_every_refusal(make_client: MakeClient) -> None:
    admin, viewer = make_client(), make_client("viewer")
    sent = {"name": "bob", "role": "viewer", "why": "new here"}
    assert viewer.ask("/users", sent, x_request_id="r-1").status_code == 403
    assert admin.ask("/users", {"name": "bob"}, x_request_id="r-2").status_code == 422
    assert admin.ask("/users", sent, x_request_id="r-3").status_code == 201
    assert admin.ask("/users", sent, x_request_id="r-4").status_code == 409
    assert admin.ask("/desk/cases/17/note", {"text": "hm"}, x_request_id="r-5").status_code == 404
    assert admin.get(f"{API}/users/nobody").status_code == 404  # looking is no change
    came = admin.get(f"{API}/audit").json()["items"]
    assert [(row["request"], row["who"], row["outcome"], row["subject"]) for row in came] == [
        ("r-5", "admin", "refused", f"{API}/desk/cases/17/note"),
        ("r-4", "admin", "refused", "bob"),
        ("r-3", "admin", "done", "bob"),
        ("r-2", "admin", "refused", f"{API}/users"),
        ("r-1", "viewer", "refused", f"{API}/users"),
    ]
    assert all(row["by"].startswith("key:") for row in came)


def test_pages_go_on_where_they_ended(make_client: MakeClient, runtime: Runtime) -> None:
    client = make_client()
    for number in range(5):
        runtime.access.make_key("admin", ["read"], who="test", why="x", label=f"k{number}")
    seen: list[str] = []
    cursor: int | None = None
    while True:
        params = {"limit": 2} | ({} if cursor is None else {"before": cursor})
        page = client.get(f"{API}/keys", params=params).json()
        seen += [key["label"] for key in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == ["k4", "k3", "k2", "k1", "k0", "key"]


def test_metrics_need_a_key_unless_they_are_open(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime()
    assert Client(runtime).get("/metrics").status_code == 401
    scraper = Client(runtime, make_key(runtime, "viewer", ["metrics"]))
    scraper.get("/somewhere")
    text = scraper.get("/metrics").text
    assert 'towpath_api_requests_total{method="GET",route="none",status="404"} 1.0' in text
    assert scraper.get(f"{API}/me").status_code == 403
    assert 'route="/api/v1/me",status="403"' in scraper.get("/metrics").text
    open_to_all = make_runtime(api={"open_metrics": True})
    assert Client(open_to_all).get("/metrics").status_code == 200


def test_many_at_once(make_client: MakeClient) -> None:
    client = make_client()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.get(f"{API}/users").status_code, range(80)))
    assert answers == [200] * 80
