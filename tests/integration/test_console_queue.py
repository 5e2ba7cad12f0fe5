"""The queue's pages: what they show is what is there, and what they do is done."""

from __future__ import annotations

import pytest
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run, said
from tests.support.sweep import sweep
from tests.support.tables import rows

from towpath.core.exact_json import read_exactly
from towpath.queue import MessageState
from towpath.runtime import Runtime


@pytest.fixture
def sent(runtime: Runtime) -> str:
    """A request that waits in an inbox."""
    runtime.queue.synchronous("greeter")
    return runtime.queue.outbox("alice").send("greeter", "greet", {"name": "Bob", "n": 10**20})


def test_inboxes_and_messages_are_shown(make_visitor: MakeVisitor, runtime: Runtime, sent: str) -> None:
    visitor = make_visitor("viewer")
    assert 'href="/queue/messages?inbox=greeter&amp;state=NEW">1<' in visitor.text("/queue")
    assert sent[:13] in visitor.text("/queue/messages?inbox=greeter&state=NEW")
    assert sent[:13] not in visitor.text("/queue/messages?inbox=greeter&state=OK")
    page = visitor.text(f"/queue/messages/{sent}")
    assert "&#34;n&#34;: 100000000000000000000" in page  # as it is stored
    assert f"/queue/messages/{sent}/reply" not in page
    assert f"/queue/messages/{sent}/edit" not in page


def test_a_list_goes_on_where_it_ended(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    runtime.queue.synchronous("many")
    outbox = runtime.queue.outbox("alice")
    ids = [outbox.notice("many", "work", {"n": n}) for n in range(60)]
    visitor = make_visitor("viewer")
    first = visitor.text("/queue/messages?inbox=many")
    shown = [id for id in ids if id in first]
    assert shown == ids[10:]
    older = first.split('rel="next"')[0].rpartition('href="')[2].split('"')[0].replace("&amp;", "&")
    assert [id for id in ids if id in visitor.text(older)] == ids[:10]


def test_a_message_is_sent_by_hand(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    runtime.queue.synchronous("greeter")
    visitor = make_visitor("operator")
    fields = {
        "inbox": "greeter",
        "function": "greet",
        "payload": '{"n": 1.50}',
        "headers": '{"a": "b"}',
        "reply": "yes",
    }
    assert said(visitor.done("/queue/send", **fields))
    [message] = runtime.queue.browser().page(inbox="greeter")
    assert (message.function, message.payload, message.headers) == ("greet", {"n": 1.5}, {"a": "b"})
    assert message.expects_answer
    [event] = [row for row in rows(runtime.database, "event") if row["kind"] == "message_sent_by_hand"]
    assert (event["who"], event["why"]) == ("operator", "a test")
    [trail] = [row for row in rows(runtime.database, "access_audit") if row["what"] == "send message"]
    assert (trail["who"], trail["outcome"]) == ("operator", "done")


@pytest.fixture
def operator(make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("operator")


@pytest.fixture
def greeter(runtime: Runtime) -> None:
    """An inbox."""
    runtime.queue.synchronous("greeter")


@sweep(
    ("fields", "problem"),
    [
        ({"payload": "{"}, "not JSON"),
        ({"payload": "[" * 100_000}, "not JSON"),
        ({"payload": '{"n": 1, "n": 2}'}, "twice"),
        ({"headers": "[]"}, "JSON object"),
        ({"inbox": "nobodys"}, "nobodys"),
        ({"delay_s": "soon"}, "'soon'"),
        ({"why": ""}, "why"),
    ],
)
def test_what_cannot_be_sent_is_told(
    operator: Visitor, greeter: None, runtime: Runtime, fields: dict[str, str], problem: str
) -> None:
    given = {"inbox": "greeter", "function": "greet", "payload": "{}", **fields}
    answer = operator.post("/queue/send", **given)
    assert answer.status_code in (404, 422)
    assert problem in operator.refused("/queue/send", answer.status_code, **given)
    assert runtime.queue.browser().page(inbox="greeter") == []


def test_a_waiting_message_is_edited_if_nobody_was_faster(
    make_visitor: MakeVisitor, runtime: Runtime, sent: str
) -> None:
    visitor = make_visitor("operator")
    message = runtime.queue.browser().message(sent)
    seen = f"{message.updated_at.isoformat()} {message.state}"
    edited = {"payload": '{"name": "Eve"}', "headers": "{}", "seen": seen}
    assert said(visitor.done(f"/queue/messages/{sent}/edit", back=f"/queue/messages/{sent}", **edited))
    assert runtime.queue.browser().message(sent).payload == {"name": "Eve"}
    late = {**edited, "payload": '{"name": "Mallory"}', "seen": "2020-01-01T00:00:00+00:00 NEW"}
    visitor.refused(f"/queue/messages/{sent}/edit", 422, **late)
    assert runtime.queue.browser().message(sent).payload == {"name": "Eve"}


def test_a_request_is_answered_and_moved(make_visitor: MakeVisitor, runtime: Runtime, sent: str) -> None:
    visitor = make_visitor("operator")
    visitor.done(f"/queue/messages/{sent}/reply", payload='{"hello": 1}', back="/queue")
    answer = runtime.queue.outbox("alice").wait(sent, timeout_s=30)
    assert answer.payload == {"hello": 1}
    page = visitor.text(f"/queue/messages/{sent}")
    assert "Set NEW" in page
    visitor.done(f"/queue/messages/{sent}/state", state="NEW", back="/queue")
    assert runtime.queue.browser().message(sent).state is MessageState.NEW
    visitor.done(f"/queue/messages/{sent}/state", state="DEAD", back="/queue")
    assert runtime.queue.browser().message(sent).state is MessageState.DEAD
    assert visitor.post(f"/queue/messages/{sent}/state", state="OK").status_code == 409
    assert visitor.post(f"/queue/messages/{sent}/state", state="GONE").status_code == 422


@pytest.mark.parametrize("what", ["reply", "edit", "state"])
def test_a_viewer_changes_nothing(make_visitor: MakeVisitor, runtime: Runtime, sent: str, what: str) -> None:
    visitor = make_visitor("viewer")
    before = rows(runtime.database, "message")
    assert visitor.post(f"/queue/messages/{sent}/{what}", payload="{}", state="DEAD").status_code == 403
    assert visitor.post("/queue/send", inbox="greeter", function="x", payload="{}").status_code == 403
    assert rows(runtime.database, "message") == before
    assert "Send…" not in visitor.text("/queue")


def test_nothing_in_a_message_runs(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    runtime.queue.synchronous("inbox")
    outbox = runtime.queue.outbox("alice")
    visitor = make_visitor("operator")
    for text in HOSTILE:
        payload = {text.replace("\x00", ""): [text, {text: text}]}
        id = outbox.send("inbox", "work", payload, headers={"h": text})
        page = visitor.text(f"/queue/messages/{id}")
        assert not has_run(page)
        assert "{{7*7}}" in page or "{{7*7}}" not in text
        assert read_exactly(runtime.queue.browser().message(id).payload_json) == payload
    assert not has_run(visitor.text("/queue/messages"))


def test_what_belongs_together_is_shown_as_a_tree(make_visitor: MakeVisitor, runtime: Runtime, sent: str) -> None:
    visitor = make_visitor("operator")
    visitor.done(f"/queue/messages/{sent}/reply", payload="{}", back="/queue")
    page = visitor.text(f"/queue/messages/{sent}")
    assert "this one" in page
    assert "↳" in page


def test_who_is_not_there_is_not_found(make_visitor: MakeVisitor) -> None:
    visitor = make_visitor("viewer")
    assert visitor.get("/queue/messages/00000000-0000-0000-0000-000000000000").status_code == 404
    assert visitor.get("/queue/messages/nonsense").status_code in (404, 422)
    assert visitor.get("/queue/messages?before=x").status_code == 422
    assert visitor.get("/queue/messages?state=x").status_code == 422
