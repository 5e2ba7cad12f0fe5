"""The pages of workflows, actors and schedules: started by forms, looked at, aborted, woken, started again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from html import unescape
from urllib.parse import quote
from uuid import uuid4

import pytest
from tests.support.actors import Ask, Count, Counter, Do, Doer, Gather, Nap, Sleeper, Theatre
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run, said
from tests.support.tables import events, rows

from towpath.actors import End, Turn, Wait
from towpath.actors.instance import Phase
from towpath.actors.spawner.store import SpawnedStore
from towpath.core.clock import to_datetime
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

LAUNCH = str(uuid4())
MODULES = {"actors": {"modules": ["tests.support.actors"]}}


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], request: pytest.FixtureRequest) -> Runtime:
    """The process has the code of the actors, unless a test wants to know how it is without."""
    return make_runtime(**getattr(request, "param", MODULES))


@pytest.fixture
def operator(make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("operator")


@pytest.fixture
def viewer(make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("viewer")


def explode(turn: object) -> None:
    raise ValueError("no such <b>page</b>")


def fail(theatre: Theatre, instance: str = "main") -> None:
    Doer.actions["explode"] = explode
    theatre.actors.start(Doer, Do("explode"), instance=instance)
    assert theatre.rest_of("doer", instance).phase is Phase.FAILED


def ask(text: str, turn: Turn) -> Wait:
    return Wait(turn.send("people", "ASK", {text: text}), Do(text))


def sleeping(theatre: Theatre, instance: str = "main") -> None:
    theatre.actors.start(Sleeper, Nap(3600), instance=instance)
    wait_until(lambda: theatre.actors.instance("sleeper", instance).phase is Phase.SLEEPING, timeout_s=30)


def outcomes(page: str) -> list[str]:
    """Of the runs that a page shows."""
    runs = page.partition('aria-label="Runs"')[2].partition("</table>")[0]
    return re.findall(r'<span class="state [a-z]+">([a-z]+)</span>', runs)


# Workflows


@pytest.mark.parametrize("runtime", [MODULES, {}], indirect=True, ids=["with its code", "without"])
def test_a_workflow_is_started_by_its_form(theatre: Theatre, operator: Visitor, viewer: Visitor) -> None:
    page = viewer.text("/workflows")
    assert '<a href="/workflows/counter">counter</a>' in page
    assert "Counts." in page
    page = operator.text("/workflows/counter")
    assert 'name="f.upto"' in page
    assert re.search(r'name="f.n" inputmode="decimal" value="0"', page)
    assert ("<svg" in page, "<style" in page) == (True, False)
    answer = operator.post("/workflows/counter/start", instance="main", state="Count", **{"f.upto": "3", "f.n": "1"})
    assert answer.headers["location"] == "/actors/counter/main"
    assert theatre.rest_of("counter").phase is Phase.ENDED
    assert theatre.history("counter") == [("Count", "OK")] * 4 + [("End", "OK")]
    page = operator.text("/workflows/counter")
    assert outcomes(page) == ["ended"]
    assert "operator: a test" in page
    told = events(theatre.runtime.database, "actor_started_by_hand")
    assert [(row["who"], row["why"]) for row in told] == [("operator", "a test")]


def test_a_form_that_does_not_fit_is_shown_again(theatre: Theatre, operator: Visitor) -> None:
    for fields, wrong in (
        ({"f.upto": "three", "f.n": "1"}, "'three'"),
        ({"f.upto": "", "f.n": "1"}, "number"),
        ({"f.upto": "1.5", "f.n": "1"}, "valid integer"),
        ({"fields": '{"upto": 1, "more": 2}'}, "field more"),
        ({"fields": "{"}, "not JSON"),
        ({"fields": "[" * 100_000}, "not JSON"),
        ({"fields": '{"upto": 1, "upto": 2}'}, "twice"),
        ({"fields": "[1]"}, "JSON object"),
    ):
        page = operator.refused("/workflows/counter/start", 422, state="Count", instance="x", why="<reason>", **fields)
        assert wrong in page, page
        assert 'value="<reason>"' in page  # nothing has to be typed again
        assert all(f'value="{value}"' in page for name, value in fields.items() if name.startswith("f."))
    assert rows(theatre.runtime.database, "message") == []
    assert operator.post("/workflows/counter/start", state="Nope", instance="x").status_code == 422
    assert operator.post("/workflows/nope/start", state="Count", instance="x").status_code == 404
    assert (
        operator.post("/workflows/counter/start", state="Count", instance="a//b", **{"f.upto": "1"}).status_code == 422
    )


def test_all_fields_as_json_count_instead(theatre: Theatre, operator: Visitor) -> None:
    operator.done("/workflows/counter/start", state="Count", instance="json", fields='{"upto": 2}', **{"f.upto": "99"})
    assert theatre.rest_of("counter", "json").phase is Phase.ENDED
    assert len(theatre.history("counter", "json")) == 5


def test_fields_by_their_types(theatre: Theatre, operator: Visitor) -> None:
    page = operator.text("/workflows/parent")
    assert re.search(r'<input type="checkbox" name="f.is_tied" value="yes">', page)
    assert 'name="f.upto"' in page
    operator.done(
        "/workflows/parent/start", state="Gather", instance="main", **{"f.upto": "[1, 2]", "f.is_tied": "yes"}
    )
    assert theatre.rest_of("parent").phase is Phase.ENDED
    assert theatre.messages("parent")[0].payload == {"upto": [1, 2], "is_tied": True}
    page = operator.text("/workflows/asker?state=Ask")
    assert "(or nothing)" in page  # timeout_s: float | None
    operator.done("/workflows/asker/start", state="Ask", instance="main", **{"f.inbox": "people", "f.timeout_s": ""})
    assert theatre.messages("asker")[0].payload == {"inbox": "people", "timeout_s": None}


def test_it_is_started_from_any_of_its_states(theatre: Theatre, operator: Visitor) -> None:
    operator.text("/workflows/sleeper?state=Awake")
    operator.done("/workflows/sleeper/start", state="Awake", instance="main")
    assert theatre.rest_of("sleeper").phase is Phase.ENDED
    assert theatre.history("sleeper") == [("Awake", "OK"), ("Awake", "OK"), ("End", "OK")]


def test_the_same_again(theatre: Theatre, operator: Visitor, viewer: Visitor) -> None:
    run = theatre.actors.start(Counter, Count(2), instance="main")
    theatre.rest_of("counter")
    page = operator.text("/workflows/counter?instance=main")
    assert f"again={run}" in page
    assert "again=" not in viewer.text("/workflows/counter?instance=main")
    assert "&#34;upto&#34;: 2" in operator.text(f"/workflows/counter?instance=main&again={run}")
    operator.done("/workflows/counter/again", run=run)
    wait_until(lambda: len(theatre.history("counter")) == 10, timeout_s=30)
    assert [each.payload for each in theatre.messages("counter") if each.related_id is None] == [
        {"upto": 2, "n": 0}
    ] * 2
    later = theatre.messages("counter")[1].id
    for wrong in (later, "nope", "0" * 36):
        assert operator.post("/workflows/counter/again", run=wrong).status_code in (404, 422)
    assert operator.post("/workflows/sleeper/again", run=run).status_code == 422
    assert operator.post("/workflows/counter/again").status_code == 422


def test_runs_are_told_with_what_came_of_them(theatre: Theatre, operator: Visitor) -> None:
    fail(theatre)
    Doer.actions["well"] = lambda turn: End("fine")
    theatre.actors.start(Doer, Do("well"))
    wait_until(lambda: theatre.actors.instance("doer").phase is Phase.ENDED, timeout_s=30)
    page = operator.text("/workflows/doer")
    assert outcomes(page) == ["ended", "failed"]
    assert "&#34;fine&#34;" in page
    assert "no such &lt;b&gt;page" in page


def test_progress_of_a_spawned_process_is_shown_where_it_is_waited_for(theatre: Theatre, viewer: Visitor) -> None:
    runtime = theatre.runtime
    runtime.queue.synchronous("people")
    theatre.actors.start("asker", Ask("people"))
    wait_until(lambda: theatre.actors.instance("asker").phase is Phase.WAITING, timeout_s=30)
    look = theatre.actors.look("asker")
    assert look is not None
    question = look.questions[0].id
    store = SpawnedStore(runtime.database)
    with runtime.database.transaction() as tx:
        store.begin(tx, "actor:people-runner:main", "people", LAUNCH)
        assert store.show_up(tx, "actor:people-runner:main", LAUNCH, "process-1", 7, "here")
        assert store.take_up(tx, LAUNCH, "process-1", question, 1)
        store.tell(tx, LAUNCH, "process-1", 42.4, "<b>reading</b>")
    for path in ("/workflows", "/workflows/asker", "/actors", "/actors/asker/main"):
        page = viewer.text(path)
        assert 'value="42.4"' in page, path
        assert "42 %, &lt;b&gt;reading&lt;/b&gt;" in page


def test_an_actor_is_disabled_and_enabled(theatre: Theatre, operator: Visitor, viewer: Visitor) -> None:
    for what in ("disable", "enable", "start", "again"):
        assert viewer.post(f"/workflows/counter/{what}", state="Count", **{"f.upto": "1"}).status_code == 403
    assert rows(theatre.runtime.database, "message") == []
    page = operator.done("/workflows/counter/disable", back="/workflows/counter")
    assert "counter" in said(page)
    operator.done("/workflows/counter/disable", back="/workflows")
    known = {each.name: each.is_enabled for each in theatre.actors.known()}
    assert known["counter"] is False
    assert "counter" in said(operator.done("/workflows/counter/enable", back="/workflows/counter"))
    assert operator.post("/workflows/nope/enable").status_code == 404


@pytest.mark.parametrize("runtime", [{"actors": {"modules": ["tests.support.nothing_here"]}}], indirect=True)
def test_modules_that_cannot_be_read_are_told_of(runtime: Runtime, viewer: Visitor) -> None:
    page = viewer.text("/workflows")
    assert "tests.support.nothing_here" in page


# Instances


def test_instances_are_listed_by_actor_and_phase(
    theatre: Theatre, viewer: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(theatre)
    for name in ("a", "b", "c"):
        sleeping(theatre, name)

    def shown(query: str) -> list[str]:
        page = viewer.text(f"/actors{query}")
        return re.findall(r'<td class="nowrap"><a href="/actors/[^"]+">([^<]+)</a></td>', page)

    assert shown("") == ["doer:main", "sleeper:a", "sleeper:b", "sleeper:c"]
    assert shown("?phase=failed") == ["doer:main"]
    assert shown("?actor=sleeper&phase=sleeping") == ["sleeper:a", "sleeper:b", "sleeper:c"]
    assert shown("?actor=sleeper&phase=failed") == []
    assert viewer.get("/actors?phase=nope").status_code == 422
    monkeypatch.setattr("towpath.web.console.actors.actors.ROWS", 2)
    assert shown("") == ["doer:main", "sleeper:a"]
    assert 'after=sleeper%3Aa"' in viewer.text("/actors")
    assert shown("?after=sleeper%3Aa") == ["sleeper:b", "sleeper:c"]


def test_one_that_failed_is_started_again_where_it_did(theatre: Theatre, operator: Visitor, viewer: Visitor) -> None:
    fail(theatre)
    page = viewer.text("/actors/doer/main")
    assert "no such &lt;b&gt;page&lt;/b&gt;" in page
    assert "Traceback" in page
    assert 'class="box bad lit"' in page or 'class="box lit"' in page
    assert "/restart" not in page
    failed = theatre.messages("doer")[1].id
    assert f"/queue/messages/{failed}" in page
    assert viewer.post("/actors/doer/main/restart").status_code == 403
    assert len(theatre.messages("doer")) == 3

    Doer.actions["explode"] = lambda turn: End("mended")
    page = operator.text("/actors/doer/main")
    assert "/restart" in page
    operator.done("/actors/doer/main/restart")
    wait_until(lambda: theatre.actors.instance("doer").phase is Phase.ENDED, what="it goes on")
    operator.refused("/actors/doer/main/restart", 409)


def test_its_fields_are_changed_before_it_is_started_again(theatre: Theatre, operator: Visitor) -> None:
    fail(theatre)
    Doer.actions["other"] = lambda turn: End("well")
    assert operator.post("/actors/doer/main/restart", state="Do", fields="{").status_code == 422
    assert operator.post("/actors/doer/main/restart", state="Do", fields='{"x": 1}').status_code == 422
    operator.done("/actors/doer/main/restart", state="Do", fields='{"what": "other"}')
    wait_until(lambda: theatre.actors.instance("doer").phase is Phase.ENDED, what="it goes on")
    assert theatre.messages("doer")[3].payload == {"what": "other"}


def test_one_that_sleeps_is_woken_and_aborted(theatre: Theatre, operator: Visitor, viewer: Visitor) -> None:
    sleeping(theatre)
    sleeping(theatre, "a/b")
    page = viewer.text("/actors/sleeper/main")
    assert "/wake" not in page
    assert "/abort" not in page
    for what in ("wake", "abort"):
        assert viewer.post(f"/actors/sleeper/main/{what}").status_code == 403
    assert theatre.actors.instance("sleeper").phase is Phase.SLEEPING
    operator.done("/actors/sleeper/main/wake")
    assert theatre.rest_of("sleeper").phase is Phase.ENDED
    assert operator.post("/actors/sleeper/main/wake").status_code == 409
    page = operator.done("/actors/sleeper/a%2Fb/abort", why="not needed")
    found = theatre.rest_of("sleeper", "a/b")
    assert found.phase is Phase.FAILED
    assert "operator: not needed" in unescape(operator.text("/actors/sleeper/a%2Fb"))
    assert operator.post("/actors/sleeper/a%2Fb/abort").status_code == 409
    assert viewer.get("/actors/sleeper/nope").status_code == 404
    assert viewer.get("/actors/nope/main").status_code == 404


def test_a_question_is_answered_from_its_page(theatre: Theatre, operator: Visitor, viewer: Visitor) -> None:
    theatre.runtime.queue.synchronous("people")
    theatre.actors.start("asker", Ask("people"))
    wait_until(lambda: theatre.actors.instance("asker").phase is Phase.WAITING, timeout_s=30)
    look = theatre.actors.look("asker")
    assert look is not None
    question = look.questions[0].id
    assert f"/queue/messages/{question}/reply" not in viewer.text("/actors/asker/main")
    page = operator.text("/actors/asker/main")
    assert f"/queue/messages/{question}/reply" in page
    operator.done(f"/queue/messages/{question}/reply", payload='"yes"', back="/actors/asker/main")
    assert theatre.rest_of("asker").phase is Phase.ENDED
    assert theatre.messages("asker")[-1].payload == {"result": "yes"}


def test_children_lead_to_their_pages_and_back(theatre: Theatre, viewer: Visitor) -> None:
    theatre.actors.start("parent", Gather([1]))
    theatre.rest_of("parent")
    page = viewer.text("/actors/parent/main")
    child = re.search(r'href="(/actors/counter/[^"]+)"', page)
    assert child is not None
    assert '<a href="/actors/parent/main">parent:main</a>' in viewer.text(child[1])


def test_names_fields_and_reasons_are_harmless(theatre: Theatre, operator: Visitor) -> None:
    theatre.runtime.queue.synchronous("people")
    texts = [text for text in HOSTILE if text.isprintable()]
    for number, text in enumerate(texts):
        Doer.actions[text] = partial(ask, text)
        theatre.actors.start(Doer, Do(text), instance=f"{number}{text}".replace(" ", ""))
    wait_until(lambda: theatre.actors.browser().counts().get("doer", {}).get(Phase.WAITING) == len(texts), timeout_s=30)
    page = operator.text("/actors")
    assert not has_run(page)
    paths = [unescape(path) for path in re.findall(r'<td class="nowrap"><a href="(/actors/doer/[^"]+)"', page)]
    assert len(paths) == len(texts)
    for path, text in zip(sorted(paths), texts, strict=True):
        page = operator.text(path)
        assert not has_run(page)
        assert text in unescape(page)
        operator.done(f"{path}/abort", why=text)
        assert not has_run(operator.text(path))
    for text in HOSTILE:
        assert not has_run(operator.get(f"/workflows/doer?state=Do&instance={quote(text)}").text)
    assert not has_run(operator.text("/workflows/doer?instance=0" + quote(texts[0])))


@pytest.mark.parametrize(
    "runtime", [{**MODULES, "desk": {"masked": {"*": ["email"]}, "sees_masked": "admin"}}], indirect=True
)
def test_fields_and_reasons_may_be_masked(theatre: Theatre, operator: Visitor, make_visitor: MakeVisitor) -> None:
    Doer.actions["ann@example.org"] = explode
    theatre.actors.start(Doer, Do("ann@example.org"))
    theatre.rest_of("doer")
    run = theatre.messages("doer")[0].id
    schedule = {"name": "nightly", "actor": "doer", "how": "daily", "daily": "03:30", "state": "Do", "instance": "s"}
    operator.done("/workflows/schedules", fields='{"what": "bob@example.org"}', **schedule)
    admin = make_visitor("admin")
    for path in (
        "/actors/doer/main",
        "/workflows/doer",
        f"/workflows/doer?again={run}",
        "/actors",
        "/workflows/schedules/nightly",
    ):
        page = operator.text(path)
        assert "@example.org" not in page, path
        assert "no such" not in page, path
    assert "ann@example.org" in admin.text("/actors/doer/main")
    assert "bob@example.org" in admin.text("/workflows/schedules/nightly")


# Schedules


def test_a_schedule_is_set_changed_disabled_and_deleted(theatre: Theatre, operator: Visitor, viewer: Visitor) -> None:
    schedules = theatre.actors.schedules
    given = {"name": "night/ly", "actor": "counter", "how": "daily", "daily": "03:30", "zone": "Europe/Berlin"}
    fields = {"instance": "main", "state": "Count", "fields": '{"upto": 3}'}
    assert viewer.post("/workflows/schedules", **given, **fields).status_code == 403
    assert schedules.list() == []
    page = operator.done("/workflows/schedules", **given, **fields)
    assert "night/ly" in said(page)
    found = schedules.show("night/ly")
    assert (str(found.rhythm), found.payload) == ("daily at 03:30 Europe/Berlin", {"upto": 3, "n": 0})
    assert 'href="/workflows/schedules/night%2Fly"' in viewer.text("/workflows/schedules")
    assert 'href="/workflows/schedules/night%2Fly"' in viewer.text("/workflows/counter")
    assert 'href="/workflows/schedules/night%2Fly"' in viewer.text("/workflows")
    assert "/delete" not in viewer.text("/workflows/schedules/night%2Fly")

    path = "/workflows/schedules/night%2Fly"
    operator.done(f"{path}/change", how="every", every_s="90", since="run", instance="main", fields='{"upto": 4}')
    found = schedules.show("night/ly")
    assert (str(found.rhythm), found.payload) == ("every 90 s after the last run", {"upto": 4, "n": 0})
    operator.done(f"{path}/change", how="window", window="22-6", zone="", instance="other")
    found = schedules.show("night/ly")
    assert (str(found.rhythm), found.instance) == ("once between 22:00 and 06:00 UTC", "other")
    for how in (
        {},
        {"how": "every"},
        {"how": "every", "every_s": "x"},
        {"how": "daily", "daily": "25:00"},
        {"how": "daily", "daily": "soon"},
        {"how": "window", "window": "5-5"},
        {"how": "daily", "daily": "1:00", "zone": "Nowhere/Land"},
    ):
        assert operator.post(f"{path}/change", instance="main", **how).status_code == 422, how
    for what in ("change", "disable", "enable", "delete"):
        assert viewer.post(f"{path}/{what}", how="every", every_s="5").status_code == 403
    kept = schedules.show("night/ly")
    assert (kept.rhythm, kept.instance, kept.payload, kept.is_enabled) == (found.rhythm, "other", found.payload, True)

    operator.done(f"{path}/disable")
    assert schedules.show("night/ly").next_at is None
    operator.done(f"{path}/enable")
    assert schedules.show("night/ly").is_enabled
    operator.done(f"{path}/delete")
    assert schedules.list() == []
    assert operator.get(path).status_code == 404


def test_what_came_of_a_schedule_is_shown(theatre: Theatre, operator: Visitor) -> None:
    given = {"name": "soon", "actor": "counter", "how": "every", "every_s": "60", "since": "made", "instance": "main"}
    operator.done("/workflows/schedules", state="Count", fields='{"upto": 1}', **given)
    due = theatre.actors.schedules.show("soon").next_at
    assert due is not None
    theatre.runtime.database.shift_clock(
        (due - to_datetime(theatre.runtime.database.now()) + timedelta(seconds=1)).total_seconds()
    )
    wait_until(lambda: theatre.actors.schedules.show("soon").outcome == "ended", timeout_s=30)
    page = operator.text("/workflows/schedules/soon")
    run = theatre.actors.schedules.show("soon").last_run
    assert f"/queue/messages/{run}" in page
    assert "schedule soon" in operator.text("/workflows/counter")


def test_names_and_reasons_of_schedules_are_harmless(theatre: Theatre, operator: Visitor) -> None:
    for text in HOSTILE:
        given = {"name": text, "actor": "counter", "how": "every", "every_s": "60", "instance": "main", "why": text}
        operator.post("/workflows/schedules", state="Count", fields=json.dumps({"upto": 1}), **given)
    names = [each.name for each in theatre.actors.schedules.list()]
    assert HOSTILE[0] in names
    assert not has_run(operator.text("/workflows/schedules"))
    for path in re.findall(r'<td><a href="(/workflows/schedules/[^"]+)"', operator.text("/workflows/schedules")):
        assert not has_run(operator.text(unescape(path)))
        operator.done(f"{unescape(path)}/delete")
    assert theatre.actors.schedules.list() == []
