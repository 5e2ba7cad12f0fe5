"""The queue over HTTP: what is seen is what the command line shows, what is changed is changed in somebody's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.http import API, Client, MakeClient, error_of, make_key
from tests.support.sweep import sweep
from tests.support.tables import by_hand, events, message_row, rows

from towpath.desk.masks import MASK
from towpath.queue import MessageState
from towpath.queue.payload import new_id
from towpath.runtime import Runtime

BIG = "12345678901234567890.12345678901234567890"
EXACT = f'{{"n": 1.10, "big": {BIG}, "much": 1E2, "text": "\\u00e4 </script>"}}'


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], variables: dict[str, str]) -> Runtime:
    """Commands have the same database."""
    runtime = make_runtime()
    runtime.queue.inbox("prices")
    return runtime


@pytest.fixture
def asked(runtime: Runtime) -> str:
    """A request that waits."""
    return runtime.queue.outbox("shop").send("prices", "quote", {"n": 1}, headers={"a": "1"})


@pytest.fixture
def five(runtime: Runtime) -> list[str]:
    """Two done, one failed, one dead, one delayed, one waiting, one being worked on."""
    inbox, outbox = runtime.queue.inbox("prices"), runtime.queue.outbox("shop")
    ids = outbox.notice_many("prices", "quote", [{"n": n} for n in range(5)])
    claimed = inbox.claim(4)
    inbox.finish(claimed[:2])
    inbox.fail(claimed[2], "no such fruit")
    runtime.queue.operator("ann").set_state(claimed[3].id, MessageState.DEAD, "too old")
    ids.append(outbox.notice("prices", "later", 5, delay_s=600))
    runtime.queue.inbox("other")
    ids += outbox.notice_many("other", "quote", [6])
    runtime.queue.inbox("other").claim(1)
    return ids


def ids_of(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def whole(runtime: Runtime) -> list[Any]:
    return [rows(runtime.database, table) for table in ("message", "inbox", "event")]


def trail(runtime: Runtime) -> list[tuple[str, str, str, str]]:
    return [(row.who, row.what, row.subject, row.outcome) for row in runtime.access.trail()]


# Looking


def test_inboxes_are_what_the_command_line_shows(
    make_client: MakeClient, command: CommandLine, runtime: Runtime, five: list[str]
) -> None:
    shown = make_client("viewer").get(f"{API}/queue/inboxes").json()
    assert shown == {**command.ok("queue", "inboxes", "--json").json, "next": None}
    assert shown["items"][1] == {
        "name": "prices",
        "counts": {"NEW": 2, "ACK": 0, "OK": 2, "ERR": 1, "DEAD": 1},
        "more": [],
        "oldest_new_at": runtime.queue.browser().message(five[4]).created_at.isoformat(),
        "on_owner_death": "again",
        "max_attempts": 5,
    }


def test_inboxes_page_by_name(make_client: MakeClient, runtime: Runtime) -> None:
    for name in ("a", "b", "z"):
        runtime.queue.inbox(name)
    by_hand(runtime.database, "insert into inbox values ('actor:x:main', 'again', 5, 1)")
    client = make_client("viewer")
    names: list[list[str]] = []
    after: str | None = ""
    for _ in range(3):
        page = client.get(f"{API}/queue/inboxes?limit=2&after={after}").json()
        names.append([item["name"] for item in page["items"]])
        after = page["next"]
    assert (names, after) == ([["a", "actor:x:main"], ["b", "prices"], ["z"]], None)

    def named(query: str) -> list[str]:
        return [item["name"] for item in client.get(f"{API}/queue/inboxes?{query}").json()["items"]]

    assert named("of_actors=true") == ["actor:x:main"]
    assert named("of_actors=false") == ["a", "b", "prices", "z"]


def test_messages_are_what_the_command_line_shows(
    make_client: MakeClient, command: CommandLine, five: list[str]
) -> None:
    client = make_client("viewer")
    assert (
        client.get(f"{API}/queue/messages?limit=50").json() == command.ok("queue", "list", "--limit", 50, "--json").json
    )
    page, words = client.get(f"{API}/queue/messages?limit=3").json(), ("queue", "list", "--limit", 3, "--json")
    assert page == command.ok(*words).json
    assert client.get(f"{API}/queue/messages?limit=3&before={page['next']}").json() == (
        command.ok(*words, "--before", page["next"]).json
    )


FILTERS: list[tuple[str, list[int]]] = [
    ("", [6, 5, 4, 3, 2, 1, 0]),
    ("inbox=prices", [5, 4, 3, 2, 1, 0]),
    ("inbox=other", [6]),
    ("state=NEW", [5, 4]),
    ("state=ACK", [6]),
    ("state=OK", [1, 0]),
    ("state=ERR", [2]),
    ("state=DEAD", [3]),
    ("inbox=prices&state=NEW", [5, 4]),
    ("inbox=prices&state=NEW&function=later", [5]),
    ("inbox=other&state=ACK", [6]),
    ("inbox=prices&state=ACK", []),
    ("inbox=prices&state=ERR&function=quote", [2]),
    ("inbox=other&state=ERR", []),
    ("state=DEAD&function=later", []),
    ("function=quote", [6, 4, 3, 2, 1, 0]),
    ("owner=nobody", []),
    ("owner={owner}", [6, 3, 2, 1, 0]),
    ("owner={owner}&state=ACK", [6]),
    ("owner={owner}&state=ERR&inbox=prices", [2]),
]


def test_filters_page_by_page(make_client: MakeClient, runtime: Runtime, five: list[str]) -> None:
    """Each filter, by pages of one, two and all: the same messages in the same order."""
    client = make_client("viewer")
    for query, expected in FILTERS:
        for limit in (1, 2, 100):
            path = f"{API}/queue/messages?limit={limit}&{query.format(owner=runtime.process().id)}"
            found, pages = walked(client, path)
            assert found == [five[n] for n in expected], query
            assert pages == max(1, -(-len(expected) // limit)), "the last page says that it is the last"


def walked(client: Client, path: str) -> tuple[list[str], int]:
    """The ids on all pages, and how many pages there are."""
    found: list[str] = []
    pages, before = 0, ""
    while True:
        answer = client.get(f"{path}{before}")
        found += ids_of(answer)
        pages += 1
        if answer.json()["next"] is None:
            return found, pages
        before = f"&before={answer.json()['next']}"


def test_messages_of_a_time(make_client: MakeClient, runtime: Runtime) -> None:
    """Times are no index: they are found among the numbers, also where messages are gone."""
    client, outbox = make_client("viewer"), runtime.queue.outbox("shop")
    ids = outbox.notice_many("prices", "quote", range(40))
    start = datetime(2026, 3, 1, tzinfo=UTC)
    for n, id in enumerate(ids):
        at = start + timedelta(minutes=10 * n)
        by_hand(runtime.database, "update message set created_at = :at where id = :id", at=us(at), id=id)
    by_hand(runtime.database, "delete from message where seq - seq / 3 * 3 = 0")
    left = {row["id"] for row in rows(runtime.database, "message")}

    def found(**times: datetime) -> list[str]:
        given = {name: at.isoformat() for name, at in times.items()}
        return ids_of(client.get(f"{API}/queue/messages", params=given))

    def expected(low: int, high: int) -> list[str]:
        return [id for id in ids[low:high][::-1] if id in left]

    for low, high in ((0, 40), (7, 8), (10, 31), (39, 40), (0, 1), (20, 20)):
        since, until = start + timedelta(minutes=10 * low), start + timedelta(minutes=10 * high)
        assert found(since=since, until=until) == expected(low, high)
        assert found(since=since) == expected(low, 40)
        assert found(until=until) == expected(0, high)
    assert found(since=start + timedelta(days=9)) == []
    assert found(until=datetime(1, 1, 1, tzinfo=UTC)) == []
    assert found(until=datetime(9999, 12, 31, tzinfo=UTC)) == expected(0, 40)


def us(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)


def test_a_message_is_what_the_command_line_shows(
    make_client: MakeClient, command: CommandLine, runtime: Runtime, asked: str
) -> None:
    client = make_client("operator")
    assert client.ask(f"/queue/messages/{asked}/reply", {"payload": {"cents": 5}, "why": "by hand"}).status_code == 200
    answer = client.get(f"{API}/queue/messages/{asked}")
    shown = answer.json()
    assert shown == command.ok("queue", "show", asked, "--json").json
    assert answer.text == command.ok("queue", "show", asked, "--json").out.rstrip("\n")
    assert (shown["state"], shown["headers"]) == ("OK", {"a": "1"})
    [related] = shown["related"]
    assert (related["function"], related["related_id"], related["inbox"]) == ("REPLY", asked, "shop//reply")
    assert [(event["kind"], event["who"], event["why"]) for event in shown["events"]] == [
        ("message_answered_by_hand", "operator", "by hand")
    ]


def test_numbers_are_shown_as_they_are_stored(make_client: MakeClient, runtime: Runtime, asked: str) -> None:
    """Whoever reads them through a float sees other numbers: 1.1 and 12345678901234567000."""
    by_hand(
        runtime.database, "update message set payload = :exact, headers = :headers", exact=EXACT, headers='{"h":1.50}'
    )
    client = make_client("operator")
    looks = [client.get(f"{API}/queue/messages"), client.get(f"{API}/queue/messages/{asked}")]
    looks.append(client.ask(f"/queue/messages/{asked}/state", {"state": "DEAD", "why": "x"}))
    looks.append(client.ask(f"/queue/messages/{asked}/copy"))
    for answer in looks:
        assert answer.status_code in (200, 201), answer.text
        assert answer.headers["content-type"] == "application/json"
        assert EXACT in answer.text
        assert '{"h":1.50}' in answer.text
        json.loads(answer.text)
    assert message_row(runtime.database, looks[-1].json()["id"])["payload"] == EXACT


WRONG_LOOKS = [
    ("messages?inbox=nope", 404, "unknown_inbox"),
    ("messages?state=nope", 422, "not_valid"),
    ("messages?state=new", 422, "not_valid"),
    ("messages?since=2026-01-01", 422, "not_valid"),
    ("messages?limit=0", 422, "not_valid"),
    ("messages?limit=1001", 422, "not_valid"),
    (f"messages?before={2**63}", 422, "not_valid"),
    ("messages?frob=1", 422, "not_valid"),
    ("messages?owner=a%00b", 422, "bad_value"),
    ("messages/nope", 404, "unknown_message"),
    ("messages/01980000-0000-7000-8000-000000000000", 404, "unknown_message"),
    ("messages/%00", 422, "bad_value"),
    ("inboxes?limit=x", 422, "not_valid"),
    ("inboxes?after=%00", 422, "bad_value"),
    (f"inboxes?after={'x' * 201}", 422, "not_valid"),
]


def test_looks_that_are_refused(make_client: MakeClient, runtime: Runtime) -> None:
    client = make_client("viewer")
    for path, status, code in WRONG_LOOKS:
        answer = client.get(f"{API}/queue/{path}")
        assert (answer.status_code, error_of(answer)["code"]) == (status, code), path


def test_looking_changes_nothing(make_client: MakeClient, runtime: Runtime, five: list[str]) -> None:
    client, before = make_client("viewer"), whole(runtime)
    for path in ("inboxes", "messages", "messages?state=NEW&inbox=prices", f"messages/{five[0]}"):
        assert client.get(f"{API}/queue/{path}").status_code == 200
    assert whole(runtime) == before
    assert trail(runtime) == []


# Changing

SENT = {
    "inbox": "prices",
    "function": "quote",
    "payload": {"n": [1, None, "ä"]},
    "headers": {"trace": "t-1", "deep": {"x": 1}},
    "delay_s": 30,
    "ttl_s": 60.5,
    "reply": True,
    "why": "a try",
}


def test_send(make_client: MakeClient, command: CommandLine, runtime: Runtime) -> None:
    answer = make_client("operator").ask("/queue/messages", SENT)
    assert answer.status_code == 201
    made = answer.json()
    row = message_row(runtime.database, made["id"])
    assert (row["inbox"], row["function"], row["state"], row["ttl_s"]) == ("prices", "quote", "NEW", 60.5)
    assert json.loads(row["payload"]) == SENT["payload"]
    assert json.loads(row["headers"]) == SENT["headers"]
    assert row["deliver_after"] - row["created_at"] == 30_000_000
    assert row["reply_to"] == "operator//reply"
    assert made == command.ok("queue", "show", made["id"], "--json").json
    [event] = events(runtime.database, "message_sent_by_hand")
    assert (event["subject"], event["who"], event["why"]) == (made["id"], "operator", "a try")
    assert trail(runtime) == [("operator", "send message", "prices", "done")]


def test_send_says_little(make_client: MakeClient, runtime: Runtime) -> None:
    """What is not said is nothing: no payload, no headers, no answer, no delay, no end."""
    made = make_client("operator").ask("/queue/messages", {"inbox": "prices", "function": "quote", "why": "x"}).json()
    said = {name: made[name] for name in ("payload", "headers", "reply_to", "deliver_after", "ttl_s", "expires_at")}
    assert said == {"headers": {}} | dict.fromkeys(("payload", "reply_to", "deliver_after", "ttl_s", "expires_at"))


def test_a_message_that_was_sent_is_taken(make_client: MakeClient, runtime: Runtime) -> None:
    made = make_client("operator").ask("/queue/messages", {**SENT, "delay_s": 0}).json()
    inbox = runtime.queue.inbox("prices")
    [message] = inbox.claim(5)
    assert (message.id, message.payload) == (made["id"], SENT["payload"])
    inbox.finish(message, "done")
    [answer] = make_client("viewer").get(f"{API}/queue/messages?inbox=operator//reply").json()["items"]
    assert (answer["related_id"], answer["payload"]) == (made["id"], "done")


@pytest.mark.parametrize(
    ("path", "body"),
    [("/queue/messages", {**SENT, "why": "x"}), ("/queue/messages/{asked}/copy", {"payload": 7, "why": "x"})],
)
def test_sent_once_with_an_idempotency_key(
    make_client: MakeClient, runtime: Runtime, asked: str, path: str, body: dict[str, Any]
) -> None:
    client, path = make_client("operator"), path.format(asked=asked)
    first = client.ask(path, body, idempotency_key="k1")
    again = client.ask(path, body, idempotency_key="k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotency-replayed"] == "true"
    assert first.text == again.text
    assert len(rows(runtime.database, "message")) == 2
    # Only the answer was lost: it is found again by the id, which is the same.
    by_hand(runtime.database, "update access_request set state = 'made', status = null, answer = null")
    assert client.ask(path, body, idempotency_key="k1").json()["id"] == first.json()["id"]
    assert len(rows(runtime.database, "message")) == 2
    assert client.ask(path, {**body, "payload": 8}, idempotency_key="k1").status_code == 409
    assert client.ask(path, body, idempotency_key="k2").json()["id"] != first.json()["id"]
    assert client.ask(path, body).json()["id"] not in (first.json()["id"], None)
    assert len(rows(runtime.database, "message")) == 4


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


WRONG_SENDS: list[tuple[dict[str, Any], int, str]] = [
    ({"inbox": "wrong"}, 404, "unknown_inbox"),
    ({"inbox": "a b"}, 422, "bad_name"),
    ({"inbox": ""}, 422, "not_valid"),
    ({"inbox": "x" * 201}, 422, "not_valid"),
    ({"function": "a\nb"}, 422, "bad_name"),
    ({"headers": {"a b": 1}}, 422, "bad_name"),
    ({"headers": []}, 422, "not_valid"),
    ({"payload": "\x00"}, 422, "not_valid"),
    ({"payload": {"\x00": 1}}, 422, "not_valid"),
    ({"payload": "x" * (1 << 20)}, 422, "bad_payload"),
    ({"headers": {"x": "y" * (1 << 20)}}, 422, "bad_payload"),
    ({"payload": deep(250)}, 422, "not_valid"),
    ({"payload": float("nan")}, 422, "bad_payload"),
    ({"payload": [float("inf")]}, 422, "bad_payload"),
    ({"payload": "\ud800"}, 422, "bad_payload"),
    ({"headers": {"x": "\ud800"}}, 422, "bad_payload"),
    ({"delay_s": -1}, 422, "not_valid"),
    ({"delay_s": float("nan")}, 422, "not_valid"),
    ({"delay_s": 1e300}, 422, "not_valid"),
    ({"ttl_s": 0}, 422, "not_valid"),
    ({"ttl_s": "soon"}, 422, "not_valid"),
    ({"why": ""}, 422, "not_valid"),
    ({"why": " "}, 422, "bad_value"),
    ({"who": "somebody else"}, 422, "not_valid"),
    ({"id": "01980000-0000-7000-8000-000000000000"}, 422, "not_valid"),
]


def test_sends_that_are_refused(make_client: MakeClient, runtime: Runtime) -> None:
    client, before = make_client("operator"), whole(runtime)
    for changed, status, code in WRONG_SENDS:
        answer = client.post(
            f"{API}/queue/messages",
            content=json.dumps({**SENT, **changed}),
            headers={"Content-Type": "application/json"},
        )
        assert (answer.status_code, error_of(answer)["code"]) == (status, code), str(changed)[:80]
        assert whole(runtime) == before, str(changed)[:80]
    assert [row[3] for row in trail(runtime)] == ["refused"] * len(WRONG_SENDS)


def test_payloads_that_are_odd_arrive(make_client: MakeClient, runtime: Runtime) -> None:
    client = make_client("operator")
    odd = [None, 0, "", [], {}, "null", "</script>", 10**400, deep(150), "💧" * 1000]
    for payload in odd:
        made = client.ask("/queue/messages", {**SENT, "payload": payload})
        assert made.status_code == 201
        assert json.loads(message_row(runtime.database, made.json()["id"])["payload"]) == payload
        assert client.get(f"{API}/queue/messages/{made.json()['id']}").json()["payload"] == payload


def test_reply(make_client: MakeClient, runtime: Runtime, asked: str) -> None:
    shown = make_client("operator").ask(f"/queue/messages/{asked}/reply", {"payload": None, "why": "it is clear"})
    assert (shown.status_code, shown.json()["state"]) == (200, "OK")
    assert shown.json()["reason"].endswith("operator: it is clear")
    answer = runtime.queue.outbox("shop").poll(asked)
    assert answer is not None
    assert (answer.state, answer.payload) == ("OK", None)
    assert trail(runtime) == [("operator", "answer message", asked, "done")]


def test_edit(make_client: MakeClient, runtime: Runtime, asked: str) -> None:
    client = make_client("operator")

    def edit(**changes: Any) -> dict[str, Any]:
        seen = client.get(f"{API}/queue/messages/{asked}").json()["updated_at"]
        answer = client.ask(f"/queue/messages/{asked}/edit", {**changes, "seen": seen, "why": "typo"})
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    shown = edit(payload={"n": 2})
    assert (shown["payload"], shown["headers"], shown["state"]) == ({"n": 2}, {"a": "1"}, "NEW")
    shown = edit(headers={"b": [2]})
    assert (shown["payload"], shown["headers"]) == ({"n": 2}, {"b": [2]})
    shown = edit(payload=None, headers={})
    assert (shown["payload"], shown["headers"]) == (None, {})
    assert shown["events"][0]["data"] == {"payload_before": '{"n":2}', "headers_before": '{"b":[2]}'}
    assert {event["who"] for event in shown["events"]} == {"operator"}
    assert trail(runtime) == [("operator", "edit message", asked, "done")] * 3


def test_an_edit_of_what_was_changed_meanwhile_is_refused(
    make_client: MakeClient, runtime: Runtime, asked: str
) -> None:
    client = make_client("operator")
    seen = client.get(f"{API}/queue/messages/{asked}").json()["updated_at"]
    body = {"payload": 2, "seen": seen, "why": "x"}
    runtime.queue.operator("ann").edit(asked, "faster", payload="hers")
    stale = client.ask(f"/queue/messages/{asked}/edit", body)
    assert (stale.status_code, error_of(stale)["code"]) == (409, "changed_meanwhile")
    runtime.queue.inbox("prices").claim(1)
    taken = client.ask(f"/queue/messages/{asked}/edit", body)
    assert (taken.status_code, error_of(taken)["code"]) == (409, "illegal_move")
    assert message_row(runtime.database, asked)["payload"] == '"hers"'
    assert trail(runtime) == [("operator", "edit message", asked, "refused")] * 2


MOVES = [  # from, to, what it is then
    ("NEW", "DEAD", "DEAD"),
    ("ACK", "NEW", "NEW"),
    ("ACK", "ERR", "ERR"),
    ("ACK", "DEAD", "DEAD"),
    ("DEAD", "NEW", "NEW"),
    ("ERR", "NEW", "NEW"),
    ("NEW", "NEW", None),
    ("NEW", "ACK", None),
    ("NEW", "OK", None),
    ("NEW", "ERR", None),
    ("ACK", "OK", None),  # a request is not done without an answer
    ("ACK", "ACK", None),
    ("DEAD", "OK", None),
    ("ERR", "DEAD", None),
]


@pytest.fixture
def operator(make_client: MakeClient) -> Client:
    return make_client("operator")


@sweep(("state", "wanted", "then"), MOVES)
def test_moves_by_hand(operator: Client, runtime: Runtime, state: str, wanted: str, then: str | None) -> None:
    asked = runtime.queue.outbox("shop").send("prices", "quote", {"n": 1})
    if state in ("ACK", "ERR"):
        runtime.queue.inbox("prices").claim(100)
    if state in ("ERR", "DEAD"):
        runtime.queue.operator("ann").set_state(asked, MessageState(state), "before")
    answer = operator.ask(f"/queue/messages/{asked}/state", {"state": wanted, "why": "stuck"})
    of_it = [row for row in trail(runtime) if row[2] == asked]
    if then is None:
        assert (answer.status_code, error_of(answer)["code"]) == (409, "illegal_move")
        assert message_row(runtime.database, asked)["state"] == state
        assert of_it == [("operator", f"set message to {wanted}", asked, "refused")]
    else:
        assert (answer.status_code, answer.json()["state"]) == (200, then)
        assert answer.json()["reason"].endswith("operator: stuck")
        assert of_it == [("operator", f"set message to {wanted}", asked, "done")]


def test_copy(make_client: MakeClient, runtime: Runtime, asked: str) -> None:
    runtime.queue.operator("ann").set_state(asked, MessageState.DEAD, "nobody came")
    client = make_client("operator")
    first = client.ask(f"/queue/messages/{asked}/copy", {"why": "once more"})
    other = client.ask(f"/queue/messages/{asked}/copy", {"why": "once more", "payload": None})
    assert (first.status_code, other.status_code) == (201, 201)
    old, new = message_row(runtime.database, asked), message_row(runtime.database, first.json()["id"])
    same = ("inbox", "function", "payload", "headers", "ttl_s")
    assert [new[name] for name in same] == [old[name] for name in same]
    assert (new["state"], new["audit_id"], new["related_id"], new["reply_to"]) == (
        "NEW",
        asked,
        None,
        "operator//reply",
    )
    assert old["state"] == "DEAD"
    assert message_row(runtime.database, other.json()["id"])["payload"] == "null"
    [event] = client.get(f"{API}/queue/messages/{first.json()['id']}").json()["events"]
    assert (event["kind"], event["data"]["copy_of"]) == ("message_sent_by_hand", asked)
    family = client.get(f"{API}/queue/messages/{asked}").json()["related"]
    assert [each["id"] for each in family] == [first.json()["id"], other.json()["id"]]
    assert trail(runtime) == [("operator", "copy message", asked, "done")] * 2


def test_a_copy_of_a_notice_expects_no_answer(make_client: MakeClient, runtime: Runtime) -> None:
    sent = runtime.queue.outbox("shop").notice("prices", "quote", 1, delay_s=600, ttl_s=60)
    made = make_client("operator").ask(f"/queue/messages/{sent}/copy").json()
    assert (made["reply_to"], made["deliver_after"], made["ttl_s"]) == (None, None, 60)
    assert made["expires_at"] is not None


ABSENT = "01980000-0000-7000-8000-000000000000"
NOW = "2026-01-01T00:00:00Z"


WRONG_CHANGES: list[tuple[str, dict[str, Any], int, str]] = [
    (f"messages/{ABSENT}/reply", {"payload": 1, "why": "x"}, 404, "unknown_message"),
    (f"messages/{ABSENT}/edit", {"payload": 1, "seen": NOW, "why": "x"}, 404, "unknown_message"),
    (f"messages/{ABSENT}/state", {"state": "DEAD", "why": "x"}, 404, "unknown_message"),
    (f"messages/{ABSENT}/copy", {"why": "x"}, 404, "unknown_message"),
    ("messages/nope/copy", {"why": "x"}, 404, "unknown_message"),
    ("messages/{asked}/reply", {"why": "x"}, 422, "not_valid"),
    ("messages/{asked}/reply", {"payload": "x" * (1 << 20), "why": "x"}, 422, "bad_payload"),
    ("messages/{notice}/reply", {"payload": 1, "why": "x"}, 422, "no_reply_expected"),
    ("messages/{answered}/reply", {"payload": 1, "why": "x"}, 409, "illegal_move"),
    ("messages/{asked}/edit", {"seen": NOW, "why": "x"}, 422, "not_valid"),
    ("messages/{asked}/edit", {"headers": None, "seen": NOW, "why": "x"}, 422, "not_valid"),
    ("messages/{asked}/edit", {"payload": 1, "why": "x"}, 422, "not_valid"),
    ("messages/{asked}/edit", {"payload": 1, "seen": "2026-01-01T00:00:00", "why": "x"}, 422, "not_valid"),
    ("messages/{asked}/edit", {"payload": 1, "seen": NOW, "why": "x"}, 409, "changed_meanwhile"),
    ("messages/{asked}/edit", {"payload": 1, "seen": "{seen}", "why": " "}, 422, "bad_value"),
    ("messages/{asked}/edit", {"headers": {"": 1}, "seen": "{seen}", "why": "x"}, 422, "bad_name"),
    ("messages/{answered}/edit", {"payload": 1, "seen": NOW, "why": "x"}, 409, "illegal_move"),
    ("messages/{asked}/state", {"state": "GONE", "why": "x"}, 422, "not_valid"),
    ("messages/{asked}/state", {"state": "DEAD"}, 422, "not_valid"),
    ("messages/{asked}/copy", {"payload": "x" * (1 << 20), "why": "x"}, 422, "bad_payload"),
    ("messages/{asked}/copy", {"why": "x", "inbox": "other"}, 422, "not_valid"),
    ("reap", {}, 422, "not_valid"),
    ("clean", {"why": " "}, 422, "bad_value"),
]


def test_changes_that_are_refused(make_client: MakeClient, runtime: Runtime, asked: str) -> None:
    outbox = runtime.queue.outbox("shop")
    names = {"asked": asked, "notice": outbox.notice("prices", "quote"), "answered": outbox.send("prices", "quote")}
    runtime.queue.operator("ann").reply(names["answered"], 1, "before")
    seen = runtime.queue.browser().message(asked).updated_at.isoformat()
    client, before = make_client("operator"), whole(runtime)
    for path, body, status, code in WRONG_CHANGES:
        sent = {**body, "seen": seen} if body.get("seen") == "{seen}" else body
        answer = client.ask(f"/queue/{path.format(**names)}", sent)
        assert (answer.status_code, error_of(answer)["code"]) == (status, code), (path, answer.text)
        assert whole(runtime) == before, path
    assert [row[3] for row in trail(runtime)] == ["refused"] * len(WRONG_CHANGES)


def test_reap_and_clean(make_client: MakeClient, make_runtime: Callable[..., Runtime], runtime: Runtime) -> None:
    other = make_runtime(queue={"retention": {"dead_s": 1}})
    client = Client(other, make_key(other, "operator"))
    sent = runtime.queue.outbox("shop").notice("prices", "quote", ttl_s=60)
    assert client.ask("/queue/reap").json() == {"expired": 0}
    runtime.database.shift_clock(3600)
    wait_for_clock(other, runtime)
    expired = client.ask("/queue/reap", idempotency_key="k1")
    assert expired.status_code == 200
    assert client.ask("/queue/reap", idempotency_key="k1").text == expired.text
    assert message_row(runtime.database, sent)["state"] == "DEAD"
    runtime.queue.outbox("shop").notice("prices", "quote")  # the newest one is never deleted
    runtime.database.shift_clock(7200)
    wait_for_clock(other, runtime)
    cleaned = client.ask("/queue/clean")
    assert set(cleaned.json()["deleted"]) == {"ok", "err", "dead", "events", "processes"}
    assert sent not in {row["id"] for row in rows(runtime.database, "message")}
    kinds = [event["kind"] for event in events(runtime.database, "queue_reaped_by_hand", "queue_cleaned_by_hand")]
    assert kinds == ["queue_reaped_by_hand"] * 2 + ["queue_cleaned_by_hand"]
    assert [row[1:] for row in trail(runtime)] == [
        ("clean queue", "queue", "done"),
        ("reap queue", "queue", "done"),
        ("reap queue", "queue", "done"),
    ]


def wait_for_clock(runtime: Runtime, like: Runtime) -> None:
    """Others read a shift of the clock a moment later."""
    from towpath.testing.clock import wait_until

    wait_until(lambda: runtime.database.now() >= like.database.now() - 1_000_000, 10, "the shifted clock")


# Who may what

CHANGES = {
    "messages": SENT,
    "messages/{asked}/reply": {"payload": 1, "why": "x"},
    "messages/{asked}/edit": {"payload": 1, "seen": NOW, "why": "x"},
    "messages/{asked}/state": {"state": "DEAD", "why": "x"},
    "messages/{asked}/copy": {"why": "x"},
    "reap": {"why": "x"},
    "clean": {"why": "x"},
}


def test_who_may_only_look_changes_nothing(make_client: MakeClient, runtime: Runtime, asked: str) -> None:
    viewer, narrow = make_client("viewer"), make_client("operator", ["read", "desk:write", "process:write"])
    stranger, before = make_client(None), whole(runtime)
    for path, body in CHANGES.items():
        for client in (viewer, narrow):
            answer = client.ask(f"/queue/{path.format(asked=asked)}", body)
            assert (answer.status_code, error_of(answer)["code"]) == (403, "not_allowed"), path
        assert stranger.ask(f"/queue/{path.format(asked=asked)}", body).status_code == 401
        assert whole(runtime) == before, path
    refused = [("operator", "refused"), ("viewer", "refused")]
    assert [(row[0], row[3]) for row in trail(runtime)] == refused * len(CHANGES)


def test_a_key_for_the_queue_is_enough(make_client: MakeClient, runtime: Runtime, asked: str) -> None:
    client = make_client("operator", ["queue:write"])
    assert client.ask(f"/queue/messages/{asked}/state", {"state": "DEAD", "why": "x"}).status_code == 200
    assert client.get(f"{API}/queue/messages").status_code == 403


def test_who_may_not_see_all_fields_sees_no_payloads(make_runtime: Callable[..., Runtime]) -> None:
    """A message may quote a record, and nobody can say where in it a field is."""
    runtime = make_runtime(desk={"masked": {"shop": ["city"]}, "sees_masked": "admin"})
    runtime.queue.inbox("prices")
    asked = runtime.queue.outbox("shop").send("prices", "quote", {"city": "Graz"}, headers={"h": "Graz"})
    runtime.queue.operator("ann").edit(asked, "was Graz", payload={"city": "Graz", "n": 1})
    runtime.queue.operator("ann").set_state(asked, MessageState.DEAD, "Graz again")
    masked, admin = Client(runtime, make_key(runtime, "operator")), Client(runtime, make_key(runtime, "admin"))
    for path in ("queue/messages", f"queue/messages/{asked}", "events"):
        assert "Graz" in admin.get(f"{API}/{path}").text
        assert "Graz" not in masked.get(f"{API}/{path}").text
    shown = masked.get(f"{API}/queue/messages/{asked}").json()
    assert (shown["payload"], shown["headers"], shown["reason"]) == (MASK, MASK, MASK)
    copied = masked.ask(f"/queue/messages/{asked}/copy")
    assert (copied.status_code, "Graz" in copied.text) == (201, False)
    copy = copied.json()
    edited = masked.ask(f"/queue/messages/{copy['id']}/edit", {"payload": 1, "seen": copy["updated_at"], "why": "x"})
    assert (edited.status_code, error_of(edited)["code"]) == (403, "fields_masked")
    assert json.loads(message_row(runtime.database, copy["id"])["payload"]) == {"city": "Graz", "n": 1}


def test_an_id_that_somebody_else_has(make_client: MakeClient, runtime: Runtime, asked: str) -> None:
    """The store refuses a second message of one id, whoever made that."""
    from towpath.errors import DuplicateMessage

    id = new_id()
    operator = runtime.queue.operator("ann")
    operator.send("prices", "quote", 1, "first", id=id)
    before = whole(runtime)
    for act in (lambda: operator.send("prices", "quote", 1, "x", id=id), lambda: operator.copy(asked, "x", id=id)):
        with pytest.raises(DuplicateMessage):
            act()
    assert whole(runtime) == before
