"""Looking at the queue on the command line, on both databases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.cli import CommandLine, on_terminal
from tests.support.sweep import sweep

from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

BIG = 12345678901234567890123


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], variables: dict[str, str]) -> Runtime:
    """A runtime on the database that the variables name."""
    return make_runtime()


@pytest.fixture
def prices(runtime: Runtime) -> list[str]:
    """An inbox with five notices: two done, one failed, two waiting."""
    inbox = runtime.queue.inbox("prices")
    ids = [runtime.queue.outbox("shop").notice("prices", "quote", {"n": n}) for n in range(5)]
    inbox.finish(inbox.claim(2))
    inbox.fail(inbox.claim(1), "no \x1b[31msuch\nfruit")
    return ids


def test_inboxes(command: CommandLine, runtime: Runtime, prices: list[str]) -> None:
    runtime.queue.inbox("empty", on_owner_death="dead", max_attempts=1)
    items = command.ok("queue", "inboxes", "--json").json["items"]
    assert [item["name"] for item in items] == ["empty", "prices"]
    assert items[0]["counts"] == {"NEW": 0, "ACK": 0, "OK": 0, "ERR": 0, "DEAD": 0}
    assert (items[0]["on_owner_death"], items[0]["max_attempts"], items[0]["oldest_new_at"]) == ("dead", 1, None)
    assert items[1]["counts"] == {"NEW": 2, "ACK": 0, "OK": 2, "ERR": 1, "DEAD": 0}
    assert items[1]["oldest_new_at"].endswith("+00:00")

    lines = command.ok("queue", "inboxes").lines
    assert lines[0].split()[:6] == ["inbox", "NEW", "ACK", "OK", "ERR", "DEAD"]
    assert lines[2].split()[:6] == ["prices", "2", "0", "2", "1", "0"]


def test_list_shows_the_newest_first_and_pages(command: CommandLine, prices: list[str]) -> None:
    first = command.ok("queue", "list", "--limit", 2, "--json").json
    second = command.ok("queue", "list", "--limit", 2, "--before", first["next"], "--json").json
    third = command.ok("queue", "list", "--limit", 2, "--before", second["next"], "--json").json
    pages = [first, second, third]
    assert [[item["id"] for item in page["items"]] for page in pages] == [
        prices[:2:-1],
        prices[2:0:-1],
        prices[:1],
    ]
    assert third["next"] is None


def test_list_tells_how_to_go_on(command: CommandLine, prices: list[str]) -> None:
    cursor = command.ok("queue", "list", "--limit", 5, "--json").json["next"]
    assert cursor is None, "a page that holds the rest is the last"
    lines = command.ok("queue", "list", "--limit", 4).lines
    assert len(lines) == 6
    assert "--before " in lines[-1]


@sweep(
    ("words", "numbers"),
    [
        (["--state", "ERR"], [2]),
        (["--state", "new"], [4, 3]),
        (["--inbox", "prices", "--state", "OK"], [1, 0]),
        (["--function", "quote", "--limit", "1"], [4]),
        (["--function", "other"], []),
        (["--owner", "nobody"], []),
    ],
)
def test_list_filters(words: list[str], numbers: list[int], command: CommandLine, prices: list[str]) -> None:
    items = command.ok("queue", "list", *words, "--json").json["items"]
    assert [item["payload"]["n"] for item in items] == numbers


def test_list_by_owner(command: CommandLine, runtime: Runtime, prices: list[str]) -> None:
    items = command.ok("queue", "list", "--owner", runtime.process().id, "--json").json["items"]
    assert [item["id"] for item in items] == prices[2::-1]


def test_list_for_people_is_one_safe_line_a_message(
    command: CommandLine, prices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = command.ok("queue", "list", "--state", "ERR").lines
    assert len(whole) == 2
    assert whole[1].endswith("no \\x1b[31msuch\\nfruit")
    on_terminal(monkeypatch, 80)
    cut = command.ok("queue", "list", "--state", "ERR").lines
    assert [len(line) <= 80 for line in cut] == [True, True]
    assert prices[2] in cut[1]


def test_unknown_names(command: CommandLine, prices: list[str]) -> None:
    command("queue", "list", "--inbox", "nope").refused(1, "'nope'", "prices")
    command("queue", "tail", "--inbox", "nope").refused(1, "'nope'", "prices")
    command("queue", "list", "--state", "nope").refused(1, "'nope'", "NEW, ACK, OK, ERR, DEAD")
    command("queue", "show", "nope").refused(1, "'nope'")
    absent = "01980000-0000-7000-8000-000000000000"
    command("queue", "show", absent).refused(1, f"'{absent}'")


def test_show_has_the_message_its_tree_and_its_events(command: CommandLine, runtime: Runtime) -> None:
    worker = runtime.queue.synchronous("prices")
    runtime.queue.inbox("log")
    outbox = runtime.queue.outbox("shop")

    @worker.on("quote")
    def quote(message: object) -> object:
        outbox.notice("log", "note", {"big": BIG})
        return {"cents": 30}

    worker.start()
    request = outbox.send("prices", "quote", {"fruit": "apple", "big": BIG}, headers={"trace": "t-1"})
    assert outbox.wait(request, 60).is_ok
    worker.stop()
    command.ok("queue", "set-state", request, "NEW", "--why", "look again", "--who", "ann")

    ran = command.ok("queue", "show", request, "--json")
    assert f'"big":{BIG}' in ran.out, "a number is shown as it is stored"
    shown = ran.json
    assert (shown["id"], shown["state"], shown["headers"]) == (request, "NEW", {"trace": "t-1"})
    related = {item["function"]: item for item in shown["related"]}
    assert related["REPLY"]["related_id"] == request
    assert related["note"]["audit_id"] == request
    assert [(event["kind"], event["who"], event["why"]) for event in shown["events"]] == [
        ("message_moved_by_hand", "ann", "look again")
    ]

    text = command.ok("queue", "show", request).out
    assert f'"big": {BIG}' in text
    assert '"trace": "t-1"' in text
    assert f"{request} NEW quote → prices" in text
    assert f"── {related['REPLY']['id']} OK REPLY → shop//reply" in text
    assert f"── {related['note']['id']} NEW note → log" in text
    assert "message_moved_by_hand" in text
    assert command.ok("queue", "show", related["note"]["id"], "--json").json["payload"] == {"big": BIG}


def test_show_survives_messages_that_name_each_other_in_a_circle(command: CommandLine, runtime: Runtime) -> None:
    runtime.queue.inbox("prices")
    outbox = runtime.queue.outbox("shop")
    first, second = "01980000-0000-7000-8000-000000000001", "01980000-0000-7000-8000-000000000002"
    outbox.notice("prices", "a", message_id=first, related_id=second)
    outbox.notice("prices", "b", message_id=second, related_id=first)
    outbox.notice("prices", "c", message_id=second[:-1] + "3", related_id=second[:-1] + "3")
    text = command.ok("queue", "show", first).out
    assert f"{second} NEW b" in text
    command.ok("queue", "show", second[:-1] + "3")


def test_reap(command: CommandLine, runtime: Runtime) -> None:
    runtime.queue.inbox("prices")
    outbox = runtime.queue.outbox("shop")
    # Longer than a busy machine takes to the first command, which must not find them expired.
    ids = [outbox.notice("prices", "quote", ttl_s=300) for _ in range(3)]
    outbox.notice("prices", "quote", ttl_s=3000)
    assert command.ok("queue", "reap", "--why", "test", "--json").json == {"expired": 0}
    runtime.database.shift_clock(600)
    wait_until(lambda: command.ok("queue", "reap", "--why", "test", "--json").json == {"expired": 3})
    assert "0 messages" in command.ok("queue", "reap", "--why", "test").out
    dead = command.ok("queue", "list", "--state", "DEAD", "--json").json["items"]
    assert {item["id"] for item in dead} == set(ids)
    [event] = command.ok("event", "list", "--kind", "messages_expired", "--json").json["items"]
    assert (event["subject"], event["data"]["count"]) == ("prices", 3)
    by_hand = command.ok("event", "list", "--kind", "queue_reaped_by_hand", "--json").json["items"]
    assert {event["why"] for event in by_hand} == {"test"}
    assert sorted(event["data"]["expired"] for event in by_hand)[-1] == 3


def test_clean(command: CommandLine, runtime: Runtime, prices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "0 OK" in command.ok("queue", "clean", "--why", "test").out
    runtime.database.shift_clock(100)
    monkeypatch.setenv("TOWPATH_QUEUE__RETENTION__OK_S", "50")
    assert command.ok("queue", "clean", "--why", "test", "--json").json["deleted"]["ok"] == 2
    states = [item["state"] for item in command.ok("queue", "list", "--json").json["items"]]
    assert states == ["NEW", "NEW", "ERR"], "a failure is kept until a person clears it"


def test_processes(command: CommandLine, runtime: Runtime) -> None:
    process = runtime.process()
    [item] = command.ok("process", "list", "--json").json["items"]
    assert (item["id"], item["state"]) == (process.id, "alive")
    assert command.ok("process", "list").lines[1].split()[:2] == [process.id, "alive"]
    runtime.close()
    [item] = command.ok("process", "list", "--json").json["items"]
    assert item["state"] == "stopped"


def test_events_page_and_filter(command: CommandLine, runtime: Runtime, prices: list[str]) -> None:
    for n in range(3):
        command.ok("queue", "set-state", prices[3], ["DEAD", "NEW"][n % 2], "--why", f"w{n}", "--who", "ann")
    first = command.ok("event", "list", "--subject", prices[3], "--limit", 2, "--json").json
    second = command.ok("event", "list", "--subject", prices[3], "--limit", 2, "--before", first["next"], "--json").json
    assert [event["why"] for event in first["items"] + second["items"]] == ["w2", "w1", "w0"]
    assert second["next"] is None
    kinds = command.ok("event", "list", "--kind", "process_started", "--json").json["items"]
    assert [event["subject"] for event in kinds] == [runtime.process().id]
    lines = command.ok("event", "list", "--limit", 1).lines
    assert "--before " in lines[-1]
    assert "message_moved_by_hand" in lines[1]
    assert "now=DEAD" in lines[1]
