"""What the frame of the console does: who is let in, for how long, and that nobody else's page can act for them."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi.routing import APIRoute
from tests.support.console import (
    FOREIGN_TOKEN,
    HOSTILE,
    PASSWORD,
    MakeVisitor,
    Visitor,
    has_run,
    make_user,
    said,
    served,
)
from tests.support.desk_world import World
from tests.support.http import API, Client, error_of, make_key
from tests.support.tables import rows

from towpath.core.events import Event, EventKind
from towpath.queue.browser import QueueBrowser
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until
from towpath.web.app import Surface, build_app
from towpath.web.auth import SESSION
from towpath.web.console.layout import live
from towpath.web.console.pages import PAGES

BY: dict[str, Any] = {"who": "test", "why": "a test"}
HOUR_S = 3600.0
OTHER = "another long password"
ELSEWHERE = ("//evil.example", "/\\evil.example", "https://evil.example/", "javascript:alert(1)", "/\t/evil.example")


def is_out(visitor: Visitor, path: str = "/queue") -> bool:
    """They are asked to log in."""
    answer = visitor.get(path)
    return answer.status_code == 303 and answer.headers["location"].startswith("/login?next=")


# Logging in and out


def test_who_logs_in_sees_pages_until_they_log_out(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    visitor = make_visitor("viewer")
    visitor.text("/queue")
    assert visitor.token_on("/queue") == visitor.token
    held = visitor.client.cookies[SESSION]
    visitor.done("/logout")
    assert is_out(visitor)
    visitor.client.cookies.set(SESSION, held)  # what somebody has kept of it opens nothing
    assert is_out(visitor)
    assert rows(runtime.database, "access_session") == []


def test_the_cookie_cannot_be_read_by_scripts_and_is_not_what_is_kept(
    make_visitor: MakeVisitor, runtime: Runtime
) -> None:
    make_user(runtime, "viewer")
    visitor = make_visitor(None)
    cookie = visitor.log_in("viewer").headers["set-cookie"].lower()
    assert {"httponly", "samesite=lax", "path=/"} <= {part.strip() for part in cookie.split(";")}
    secret = visitor.client.cookies[SESSION]
    assert len(secret) >= 43  # 256 bits
    assert secret not in str(rows(runtime.database, "access_session"))


def test_over_tls_the_cookie_stays_there(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    make_user(runtime, "viewer")
    visitor = make_visitor(None)
    visitor.client.base_url = str(visitor.client.base_url).replace("http:", "https:")
    answer = visitor.send("/login", {"name": "viewer", "password": PASSWORD})
    assert "secure" in answer.headers["set-cookie"].lower()


def test_a_link_logs_nobody_out(make_visitor: MakeVisitor) -> None:
    visitor = make_visitor("viewer")
    assert visitor.get("/logout").status_code == 303
    assert not is_out(visitor)


def test_wrong_names_and_passwords_are_told_alike(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    make_user(runtime, "viewer")
    visitor = make_visitor(None)
    told: set[str] = set()
    for name, password in (("viewer", "not-the-one"), ("nobody", PASSWORD), ("", ""), ("viewer", "")):
        answer = visitor.log_in(name, password)
        assert answer.status_code == 401
        told.update(re.findall(r'<p class="said wrong" role="alert">(.*?)</p>', answer.text))
        assert len(told) == 1
        assert SESSION not in visitor.client.cookies
        assert password == "" or password not in answer.text


def test_who_fails_too_often_waits(make_visitor: MakeVisitor, make_runtime: Callable[..., Runtime]) -> None:
    # A wait that is not over before a busy machine has come to the next try.
    runtime = make_runtime(access={"failure_wait_s": 600.0})
    make_user(runtime, "viewer")
    visitor = make_visitor(None, runtime)
    tries = [visitor.log_in("viewer", "wrong").status_code for _ in range(runtime.settings.access.failures)]
    assert set(tries) == {401}
    answer = visitor.log_in("viewer", PASSWORD)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert SESSION not in visitor.client.cookies
    runtime.database.shift_clock(601)
    assert visitor.log_in("viewer", PASSWORD).status_code == 303


def test_the_log_in_page_is_harmless(make_visitor: MakeVisitor) -> None:
    visitor = make_visitor(None)
    for text in HOSTILE[:4]:
        answer = visitor.log_in(text, "wrong", next=text)
        assert answer.status_code in (401, 429)
        assert not has_run(answer.text)


# Where one comes from, and goes back to


def test_who_is_not_logged_in_comes_back_to_where_they_wanted(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    make_user(runtime, "viewer")
    visitor = make_visitor(None)
    answer = visitor.get("/queue/messages?inbox=a%26b&state=NEW")
    assert answer.headers["location"] == "/login?next=%2Fqueue%2Fmessages%3Finbox%3Da%2526b%26state%3DNEW"
    asked = visitor.text(answer.headers["location"])
    assert 'name="next" value="/queue/messages?inbox=a%26b&amp;state=NEW"' in asked
    answer = visitor.log_in("viewer", next="/queue/messages?inbox=a%26b&state=NEW")
    assert answer.headers["location"] == "/queue/messages?inbox=a%26b&state=NEW"


def test_nobody_is_sent_to_another_server(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    make_user(runtime, "viewer")
    visitor = make_visitor(None)
    for address in ELSEWHERE:
        _check_stays(visitor, address)


def _check_stays(visitor: Visitor, address: str) -> None:
    assert visitor.log_in("viewer", next=address).headers["location"] == "/"
    assert visitor.send("/theme", {"theme": "dark", "back": address}).headers["location"] == "/"
    answer = visitor.post("/views", name="x", address=address)
    assert answer.status_code == 422 or answer.headers["location"] == "/"


def test_a_form_of_who_is_not_logged_in_is_refused(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    answer = make_visitor(None).post("/queue/send", inbox="a", function="f", payload="{}", headers="{}")
    assert answer.status_code == 401
    assert rows(runtime.database, "message") == []


# How long a session counts


def test_a_session_ends_when_it_is_not_used(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    visitor = make_visitor("viewer")
    runtime.database.shift_clock(11 * HOUR_S)
    assert not is_out(visitor)
    runtime.database.shift_clock(11 * HOUR_S)
    assert not is_out(visitor)  # the last use moved its end
    runtime.database.shift_clock(12 * HOUR_S + 1)
    assert is_out(visitor)
    assert visitor.post("/logout").status_code == 401


def test_a_disabled_user_is_out_at_once(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    visitor = make_visitor("operator")
    assert not is_out(visitor)
    runtime.access.disable_user("operator", **BY)
    assert is_out(visitor)
    assert visitor.get("/queue", x_live="1").status_code == 303
    assert visitor.post("/views", name="x", address="/queue").status_code == 401


def test_another_role_counts_at_once(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    visitor = make_visitor("operator")
    runtime.queue.synchronous("greeter")
    fields = {"inbox": "greeter", "function": "f", "payload": "{}", "headers": "{}"}
    assert visitor.post("/queue/send", **fields).status_code == 303
    runtime.access.set_role("operator", "viewer", **BY)
    assert "needs" in visitor.refused("/queue/send", 403, **fields)
    assert len(rows(runtime.database, "message")) == 1


def test_a_new_password_ends_all_sessions(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    one, two, other = make_visitor("viewer"), make_visitor("viewer"), make_visitor("operator")
    runtime.access.set_password("viewer", OTHER, **BY)
    assert [is_out(each) for each in (one, two, other)] == [True, True, False]
    assert one.log_in("viewer", PASSWORD).status_code == 401
    assert one.log_in("viewer", OTHER).status_code == 303


def test_cookies_that_nobody_gave_open_nothing(make_visitor: MakeVisitor) -> None:
    visitor = make_visitor(None)
    for secret in ["", "x", "x" * 5000, "ä", "' or 1=1 --", "a\x7fb"]:
        answer = visitor.client.get("/queue", headers={b"Cookie": f"{SESSION}={secret}".encode("latin-1")})
        assert answer.status_code == 303


# Links for choosing a password


def test_a_link_works_once(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    runtime.access.add_user("ada", "operator", **BY)
    secret = runtime.access.sessions.make_link("ada", **BY)
    visitor, second = make_visitor(None), make_visitor(None)
    assert "Welcome, ada" in visitor.text(f"/welcome/{secret}")
    assert "Welcome, ada" in visitor.text(f"/welcome/{secret}")  # looking does not use it up
    answer = visitor.send(f"/welcome/{secret}", {"password": OTHER, "again": OTHER})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert not is_out(visitor)
    assert second.send(f"/welcome/{secret}", {"password": PASSWORD, "again": PASSWORD}).status_code == 410
    assert second.get(f"/welcome/{secret}").status_code == 410
    assert second.log_in("ada", PASSWORD).status_code == 401
    assert second.log_in("ada", OTHER).status_code == 303


def test_a_link_ends(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    runtime.access.add_user("ada", "operator", **BY)
    secret = runtime.access.sessions.make_link("ada", **BY)
    runtime.database.shift_clock(runtime.settings.access.link_s + 1)
    visitor = make_visitor(None)
    assert visitor.get(f"/welcome/{secret}").status_code == 410
    assert visitor.send(f"/welcome/{secret}", {"password": OTHER, "again": OTHER}).status_code == 410
    assert not runtime.access.user("ada").has_password


def test_a_second_link_voids_the_first(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    runtime.access.add_user("ada", "operator", **BY)
    runtime.access.add_user("bea", "operator", **BY)
    first = runtime.access.sessions.make_link("ada", **BY)
    beas = runtime.access.sessions.make_link("bea", **BY)
    second = runtime.access.sessions.make_link("ada", **BY)
    visitor = make_visitor(None)
    assert visitor.get(f"/welcome/{first}").status_code == 410
    assert "Welcome, ada" in visitor.text(f"/welcome/{second}")
    assert "Welcome, bea" in visitor.text(f"/welcome/{beas}")


@pytest.mark.parametrize(
    ("password", "again", "wrong"),
    [(OTHER, OTHER + "!", "not the same"), ("short", "short", "at least 12"), ("", "", "at least 12")],
)
def test_a_password_that_cannot_be_one_leaves_the_link(
    make_visitor: MakeVisitor, runtime: Runtime, password: str, again: str, wrong: str
) -> None:
    runtime.access.add_user("ada", "operator", **BY)
    secret = runtime.access.sessions.make_link("ada", **BY)
    visitor = make_visitor(None)
    answer = visitor.send(f"/welcome/{secret}", {"password": password, "again": again})
    assert answer.status_code == 422
    assert wrong in answer.text
    assert password == "" or f'value="{password}"' not in answer.text
    assert not runtime.access.user("ada").has_password
    assert visitor.send(f"/welcome/{secret}", {"password": OTHER, "again": OTHER}).status_code == 303


def test_a_link_ends_the_sessions_that_there_were(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    old = make_visitor("operator")
    secret = runtime.access.sessions.make_link("operator", **BY)
    make_visitor(None).send(f"/welcome/{secret}", {"password": OTHER, "again": OTHER})
    assert is_out(old)


def test_links_that_nobody_made_open_nothing(make_visitor: MakeVisitor) -> None:
    visitor = make_visitor(None)
    for secret in ("x", "x" * 3000, "%00", "..%2f..", "ä"):
        assert visitor.get(f"/welcome/{secret}").status_code in (404, 410, 422)


# Forms of other pages


def test_a_form_without_the_token_changes_nothing(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    visitor = make_visitor("admin")
    runtime.queue.synchronous("greeter")
    fields = {"why": "x", "inbox": "greeter", "function": "f", "payload": "{}", "headers": "{}"}
    for token in ({}, {"token": ""}, {"token": FOREIGN_TOKEN}, {"token": "ä"}, {"token": "x" * 5000}):
        answer = visitor.send("/queue/send", {**fields, **token})
        assert answer.status_code == 403
    assert rows(runtime.database, "message") == []


def test_the_token_of_another_session_does_not_count(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    one, two = make_visitor("admin"), make_visitor("admin")
    assert one.token != two.token
    assert one.send("/views", {"token": two.token, "name": "x", "address": "/queue"}).status_code == 403
    assert one.send("/views", {"token": one.token, "name": "x", "address": "/queue"}).status_code == 303
    assert [row["name"] for row in rows(runtime.database, "access_view")] == ["x"]


def _routes(method: str) -> list[APIRoute]:
    routes = [route for router in PAGES for route in router.routes if isinstance(route, APIRoute)]
    return [route for route in routes if method in (route.methods or ())]


def test_no_form_acts_without_a_token(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    """Every form of every page that there is: a session alone is refused before anything is looked at."""
    visitor = make_visitor("admin")
    posts = [route.path for route in _routes("POST")]
    open_to_all = {"/login", "/welcome/{secret}", "/theme", "/complain"}
    assert len(posts) > 5
    for path in posts:
        if path in open_to_all:
            continue
        answer = visitor.send(re.sub(r"\{[^}]+\}", "1", path), {"why": "x", "name": "x"})
        assert answer.status_code == 403, path


def test_the_json_api_takes_a_cookie_only_with_the_token(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    visitor = make_visitor("admin")
    body = {"name": "bob", "role": "viewer", "why": "x"}
    assert visitor.client.get(f"{API}/users").status_code == 200
    for headers in ({}, {"X-Form-Token": FOREIGN_TOKEN}):
        refused = visitor.client.post(f"{API}/users", json=body, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "foreign_form")
    assert [user.name for user in runtime.access.users()] == ["admin"]
    answer = visitor.client.post(f"{API}/users", json=body, headers={"X-Form-Token": visitor.token})
    assert answer.status_code == 201


FOREIGN: list[dict[str, str]] = [
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"origin": "https://evil.example"},
    {"origin": "http://127.0.0.1:9"},
    {"sec_fetch_site": "same-origin", "origin": "https://evil.example"},
]


def test_nobody_is_logged_in_by_another_site(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    """Else somebody would work in an account that is not theirs, in front of its owner."""
    make_user(runtime, "viewer")
    runtime.access.add_user("ada", "viewer", **BY)
    secret = runtime.access.sessions.make_link("ada", **BY)
    visitor = make_visitor(None)
    for headers in FOREIGN:
        assert visitor.log_in("viewer", **headers).status_code == 403
        assert visitor.send(f"/welcome/{secret}", {"password": OTHER, "again": OTHER}, **headers).status_code == 403
        assert visitor.send("/theme", {"theme": "dark"}, **headers).status_code == 403
    assert not visitor.client.cookies
    assert not runtime.access.user("ada").has_password


def test_a_page_of_ours_may(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    make_user(runtime, "viewer")
    ours: list[dict[str, str]] = [
        {},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
        {"origin": "http://127.0.0.1:8470"},
    ]
    for headers in ours:
        assert make_visitor(None).log_in("viewer", **headers).status_code == 303


# Every page


def _pages() -> list[str]:
    """Every page without something in its path, and some of those that go wrong."""
    found = {route.path for route in _routes("GET") if "{" not in route.path and route.path not in ("/live", "/logout")}
    return [*sorted(found), "/login?next=%2F", "/none", "/queue/messages/none", "/queue/messages?before=x"]


def test_what_every_page_carries(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    """On PostgreSQL without a log, which is enough for queues, all but the topics are there."""
    visitor, has_log = make_visitor("admin"), runtime.database.dialect == "sqlite"
    for path in _pages():
        answer = visitor.get(path)
        expected = (200, 303, 404, 422) if has_log or path != "/topics" else (503,)
        assert answer.status_code in expected, (path, answer.status_code)
        headers = answer.headers
        policy = headers["content-security-policy"]
        assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; ")), path
        assert not re.search(r"unsafe|\*|http", policy), path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
        if "text/html" not in headers.get("content-type", ""):
            continue
        assert {"script-src 'self'", "form-action 'self'", "base-uri 'none'"} <= set(policy.split("; ")), path
        page = answer.text
        assert not re.search(r"<[^>]*\s(style|on[a-z]+)\s*=", page), f"{path}: an attribute that the policy forbids"
        assert not re.search(r"<style|<script(?![^>]*\ssrc=)", page), f"{path}: style or script in the page"
        assert page.count("<h1") == 1, path
        ids = re.findall(r'\sid="([^"]+)"', page)
        assert len(ids) == len(set(ids)), (path, sorted(ids))


@pytest.mark.parametrize("database_settings", ["postgres"], indirect=True)
def test_who_has_no_log_is_told_which_setting_is_missing(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    assert "log.url" in make_visitor("admin").get("/topics").text
    make_visitor("admin").text("/find?q=orders")
    refused = Client(runtime, make_key(runtime)).get(f"{API}/topics")
    assert (refused.status_code, error_of(refused)["code"]) == (503, "bad_settings")
    assert "log.url" in error_of(refused)["message"]
    assert "Retry-After" not in refused.headers


def test_pages_are_for_those_who_may_read_them(make_visitor: MakeVisitor) -> None:
    nobody = make_visitor(None)
    for path in _pages():
        if not path.startswith(("/login", "/none", "/complain")) or path.startswith("/complaints"):
            assert is_out(nobody, path), path


def test_pages_are_of_the_console_alone(runtime: Runtime) -> None:
    for surface in (Surface.API, Surface.GATEWAY):
        visitor = Visitor(build_app(runtime, surface))
        assert visitor.get("/login").status_code == 404
        assert visitor.get("/queue").headers["content-type"] == "application/json"


def test_style_and_script_are_kept_by_browsers_and_nothing_else_is_given(make_visitor: MakeVisitor) -> None:
    visitor = make_visitor(None)
    page = visitor.text("/login")
    kinds = {"console.css": "text/css", "console.js": "text/javascript", "towpath.svg": "image/svg+xml"}
    for name, kind in kinds.items():
        found = re.search(rf'"(/static/{re.escape(name)}\?[0-9a-f]+)"', page)
        assert found is not None
        answer = visitor.get(found[1])
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, kind)
        assert "immutable" in answer.headers["cache-control"]
    for path in ("/static/none.css", "/static/..%2fpages.py", "/static/%2e%2e/pages.py", "/static/__init__.py"):
        assert visitor.get(path).status_code == 404


# How pages look, and saved views


def test_colours_are_chosen_and_kept(make_visitor: MakeVisitor) -> None:
    visitor = make_visitor(None)
    assert 'data-theme="system"' in visitor.text("/login")
    answer = visitor.post("/theme", theme="dark", back="/login?next=%2Fqueue")
    assert answer.headers["location"] == "/login?next=%2Fqueue"
    assert 'data-theme="dark"' in visitor.text("/login")
    visitor.post("/theme", theme='"><script>', back="/login")
    assert 'data-theme="dark"' in visitor.text("/login")
    assert 'data-theme="system"' in visitor.client.get("/login", headers={"Cookie": "towpath_theme=x"}).text


def test_a_view_is_saved_shown_replaced_and_deleted(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    visitor, other = make_visitor("viewer"), make_visitor("operator")
    address = "/queue/messages?inbox=a%26b&state=ERR"
    page = visitor.done("/views", name="what failed", address=address)
    assert said(page) == "saved as “what failed”"
    assert '<a href="/queue/messages?inbox=a%26b&amp;state=ERR" aria-current="page">what failed</a>' in page
    visitor.done("/views", name="what failed", address="/queue")
    assert runtime.access.sessions.views("viewer") == [("what failed", "/queue")]
    assert "what failed" not in other.text("/queue")
    assert other.post("/views/delete", name="what failed", back="/queue").status_code == 404
    visitor.done("/views/delete", name="what failed", back="/queue")
    assert runtime.access.sessions.views("viewer") == []


def test_saved_views_are_harmless(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    visitor = make_visitor("viewer")
    for number, text in enumerate(HOSTILE):
        visitor.post("/views", name=f"{number}{text}"[:80], address=f"/queue?{text}")
    assert len(runtime.access.sessions.views("viewer")) == len(HOSTILE)
    page = visitor.text("/queue")
    assert not has_run(page)
    assert "2{{7*7}}" in page
    for wrong in ("", " ", "x" * 81):
        assert visitor.post("/views", name=wrong, address="/queue").status_code == 422
    assert visitor.post("/views", name="x", address="/" + "x" * 2000).status_code == 422


def test_what_was_done_is_said_once(make_visitor: MakeVisitor) -> None:
    visitor = make_visitor("viewer")
    answer = visitor.post("/views", name="<b>x</b>", address="/queue")
    assert "httponly" in answer.headers["set-cookie"].lower()
    page = visitor.text("/queue")
    assert said(page) == "saved as “<b>x</b>”"
    assert "<b>x</b>" not in page
    assert said(visitor.text("/queue")) == ""


# Forms that nobody's browser sends


ODD = [
    (b"\xff\xfe", "application/x-www-form-urlencoded"),
    (b"name=%00", "application/x-www-form-urlencoded"),
    (b"name=%ff", "application/x-www-form-urlencoded"),
    (b"&".join(b"a=1" for _ in range(11_000)), "application/x-www-form-urlencoded"),
    (b"novalue", "application/x-www-form-urlencoded"),
    (b'{"name": "x"}', "application/json"),
    (b"--x\r\n\r\n--x--", "multipart/form-data; boundary=x"),
    (b"", ""),
]


def test_odd_forms_are_refused(make_visitor: MakeVisitor) -> None:
    visitor = make_visitor("viewer")
    for body, kind in ODD:
        for path in ("/login", "/views", "/logout"):
            answer = visitor.client.post(path, content=body, headers={"Content-Type": kind})
            assert answer.status_code in (401, 403, 422, 429), (path, answer.status_code)
    assert not is_out(visitor)


def test_a_form_that_is_too_large_is_refused(make_visitor: MakeVisitor) -> None:
    visitor = make_visitor("viewer")
    most = visitor.runtime.settings.api.max_body_bytes
    assert visitor.post("/views", name="x" * most, address="/queue").status_code == 413


# News, and answers that are shared


@contextmanager
def listening(visitor: Visitor) -> Iterator[Iterator[str]]:
    """The lines of the stream of news, as a browser gets them."""
    with served(visitor.app) as address:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
        connection.request("GET", "/live", headers={"Cookie": f"{SESSION}={visitor.client.cookies[SESSION]}"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
        try:
            yield (line.decode().rstrip("\n") for line in iter(answer.readline, b""))
        finally:
            connection.close()


def words_of(lines: Iterator[str]) -> set[str]:
    """What the next news is of."""
    assert next(line for line in lines if line.startswith("event:")) == "event: news"
    return set(next(lines).removeprefix("data: ").split())


def test_open_pages_are_told_of_news(
    make_visitor: MakeVisitor, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "TICK_S", 3600.0)  # so that only what has happened is told
    visitor = make_visitor("viewer")
    broadcaster = visitor.app.state.broadcaster
    world = World(runtime, log=False)
    runtime.queue.synchronous("greeter")
    with listening(visitor) as lines:
        assert words_of(lines) == {"*"}  # whoever comes may have missed something
        runtime.access.add_user("ada", "viewer", **BY)
        assert words_of(lines) == {"event", "user"}
        runtime.queue.outbox("test").notice("greeter", "f", {})
        assert words_of(lines) == {"message"}
        runtime.queue.operator("test").send("greeter", "f", {}, "a test")
        assert words_of(lines) == {"event", "message"}
        world.case()
        assert "case" in words_of(lines)
        monkeypatch.setattr(live, "MOST_EVENTS", 1)
        with runtime.database.transaction() as tx:  # at once: nobody sees one of them alone
            for name in ("bea", "cid"):
                runtime.event_log.record(tx, Event(EventKind.USER_CHANGED_BY_HAND, name))
        assert words_of(lines) == {"*"}
    wait_until(lambda: broadcaster._thread is None, what="nobody looks when nobody listens")


def test_what_leaves_no_trace_is_seen_at_the_next_tick(
    make_visitor: MakeVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "TICK_S", live.LOOK_S)
    with listening(make_visitor("viewer")) as lines:
        assert [words_of(lines) for _ in range(3)] == [{"*"}] * 3


def test_a_stream_too_many_is_told_to_come_later(make_visitor: MakeVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 0)
    with listening(make_visitor("viewer")) as lines:
        assert list(lines) == ["retry: 30000", ""]


def test_pages_that_ask_at_once_get_one_answer_each_session_its_own(
    make_visitor: MakeVisitor, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.web.console.layout.page.FRESH_S", 3600.0)
    one, two = make_visitor("viewer"), make_visitor("operator")
    first = one.get("/queue", x_live="1")
    runtime.queue.synchronous("greeter")
    assert one.get("/queue", x_live="1").text == first.text
    assert one.get("/queue", x_live="1").headers["content-security-policy"] == first.headers["content-security-policy"]
    assert "greeter" in one.text("/queue")  # what a person asks for is always new
    others = two.get("/queue", x_live="1").text
    assert "greeter" in others
    assert two.token in others
    assert one.token not in others
    assert "operator is operator" in two.text("/queue")
    assert "operator is operator" not in others, "the frame of a page stays as it is, and is not made again"
    assert one.get("/queue?x=1", x_live="1").text != first.text
    nobody = make_visitor(None)
    assert nobody.get("/queue", x_live="1").status_code == 303
    one.app.state.broadcaster._ring({live.EVERYTHING})
    assert "greeter" in one.get("/queue", x_live="1").text  # after news nothing old is shown


def test_who_asks_while_an_answer_is_made_gets_it(make_visitor: MakeVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.web.console.layout.page.FRESH_S", 3600.0)
    visitor = make_visitor("viewer")
    asked, may_answer, asked_for = [], threading.Event(), threading.Event()
    inboxes = QueueBrowser.inboxes

    def slow(self: QueueBrowser, *given: Any, **options: Any) -> Any:
        asked.append(1)
        asked_for.set()
        assert may_answer.wait(30)
        return inboxes(self, *given, **options)

    monkeypatch.setattr(QueueBrowser, "inboxes", slow)
    cookie = {"Cookie": f"{SESSION}={visitor.client.cookies[SESSION]}", "X-Live": "1"}
    with served(visitor.app) as address, ThreadPoolExecutor(5) as pool:

        def ask() -> str:
            with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)) as connection:
                connection.request("GET", "/queue", headers=cookie)
                return connection.getresponse().read().decode()

        answers = [pool.submit(ask) for _ in range(5)]
        assert asked_for.wait(30)
        may_answer.set()
        texts = {each.result(30) for each in answers}
    assert len(texts) == 1
    assert len(asked) == 1


def test_a_stream_is_not_shared(make_visitor: MakeVisitor) -> None:
    """It would be collected until there is no memory left."""
    visitor = make_visitor("viewer")
    with served(visitor.app) as address:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
        headers = {"Cookie": f"{SESSION}={visitor.client.cookies[SESSION]}", "X-Live": "1"}
        with closing(connection):
            connection.request("GET", "/live", headers=headers)
            assert connection.getresponse().readline() == b"retry: 3000\n"
