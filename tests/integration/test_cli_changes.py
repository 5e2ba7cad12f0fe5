"""Changes by hand on the command line: each leaves who, what and why; a refused one leaves nothing."""

from __future__ import annotations

import getpass
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.sweep import sweep
from tests.support.tables import rows

from towpath.queue import Message
from towpath.runtime import Runtime

BY = ("--why", "a good reason", "--who", "ann")


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], variables: dict[str, str]) -> Runtime:
    runtime = make_runtime()
    runtime.queue.inbox("prices")
    return runtime


@pytest.fixture
def message(runtime: Runtime) -> str:
    return runtime.queue.outbox("shop").send("prices", "quote", {"n": 1}, headers={"a": "1", "b": "2"})


def read(runtime: Runtime, message_id: str) -> Message:
    return runtime.queue.browser().message(message_id)


def last_event(command: CommandLine) -> dict[str, Any]:
    event: dict[str, Any] = command.ok("event", "list", "--limit", 1, "--json").json["items"][0]
    return event


def whole(runtime: Runtime) -> list[Any]:
    return [rows(runtime.database, table) for table in ("message", "inbox", "event")]


def test_send(command: CommandLine, runtime: Runtime) -> None:
    words = ["--header", "k=v", "--header", "e=a=b", "--delay", 30, "--ttl", 60, "--json", *BY]
    sent = read(runtime, command.ok("queue", "send", "prices", "quote", '{"n": 1}', *words).json["id"])
    assert (sent.payload, sent.headers, sent.ttl_s) == ({"n": 1}, {"k": "v", "e": "a=b"}, 60)
    assert sent.deliver_after_us is not None
    assert sent.deliver_after_us - sent.created_us == 30_000_000
    assert sent.reply_to is None
    event = last_event(command)
    assert (event["kind"], event["subject"]) == ("message_sent_by_hand", sent.id)
    assert (event["who"], event["why"], event["data"]["function"]) == ("ann", "a good reason", "quote")


def test_who_is_the_user_of_the_system(command: CommandLine, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    command.ok("queue", "send", "prices", "quote", "--why", "x")
    assert last_event(command)["who"] == getpass.getuser()
    monkeypatch.setenv("SUDO_USER", "bob")
    command.ok("queue", "send", "prices", "quote", "--why", "x")
    assert last_event(command)["who"] == "bob"


def test_payload_from_file_and_standard_input(
    command: CommandLine, runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"from": "žfile", "n": 12345678901234567890}')
    sent = command.ok("queue", "send", "prices", "quote", f"@{file}", "--json", *BY).json["id"]
    assert read(runtime, sent).payload == {"from": "žfile", "n": 12345678901234567890}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'"typed"\n')))
    sent = command.ok("queue", "send", "prices", "quote", "-", "--json", *BY).json["id"]
    assert read(runtime, sent).payload == "typed"
    assert read(runtime, command.ok("queue", "send", "prices", "quote", "--json", *BY).json["id"]).payload is None


def test_send_and_wait(command: CommandLine, runtime: Runtime) -> None:
    worker = runtime.queue.synchronous("prices")

    @worker.on("quote")
    def quote(message: Message) -> Any:
        return {"cents": 100 // message.payload["n"]}

    worker.start()
    ran = command.ok("queue", "send", "prices", "quote", '{"n": 3}', "--wait", 60, "--json", *BY)
    assert ran.json["answer"] == {"state": "OK", "payload": {"cents": 33}}
    assert '"cents": 50' in command.ok("queue", "send", "prices", "quote", '{"n": 2}', "--wait", 60, *BY).out
    failed = command("queue", "send", "prices", "quote", '{"n": 0}', "--wait", 60, "--json", *BY)
    assert failed.code == 1
    assert failed.json["answer"]["state"] == "ERR"
    assert "ZeroDivisionError" in failed.json["answer"]["payload"]["error"]
    worker.stop()


def test_an_answer_that_does_not_come_in_time_names_the_request(command: CommandLine, runtime: Runtime) -> None:
    ran = command("queue", "send", "prices", "quote", "--wait", 0.05, *BY)
    [sent] = runtime.queue.browser().page(inbox="prices")
    ran.refused(1, sent.id, "0.05 s")
    assert sent.reply_to == "operator//reply"


def test_reply(command: CommandLine, runtime: Runtime, message: str) -> None:
    command.ok("queue", "reply", message, '{"cents": 5}', *BY)
    answer = runtime.queue.outbox("shop").poll(message)
    assert answer is not None
    assert (answer.state, answer.payload) == ("OK", {"cents": 5})
    event = last_event(command)
    assert (event["kind"], event["subject"], event["who"]) == ("message_answered_by_hand", message, "ann")


def test_edit(command: CommandLine, runtime: Runtime, message: str) -> None:
    command.ok("queue", "edit", message, "--payload", '{"n": 2}', *BY)
    assert (read(runtime, message).payload, read(runtime, message).headers) == ({"n": 2}, {"a": "1", "b": "2"})
    command.ok("queue", "edit", message, "--header", "a=9", "--header", "c=3", "--drop-header", "b", *BY)
    assert (read(runtime, message).payload, read(runtime, message).headers) == ({"n": 2}, {"a": "9", "c": "3"})
    event = last_event(command)
    assert (event["kind"], event["subject"]) == ("message_edited", message)
    assert json.loads(event["data"]["headers_before"]) == {"a": "1", "b": "2"}


def test_set_state(command: CommandLine, runtime: Runtime, message: str) -> None:
    assert message in command.ok("queue", "set-state", message, "dead", *BY).out
    assert read(runtime, message).state == "DEAD"
    command.ok("queue", "set-state", message, "NEW", *BY)
    assert read(runtime, message).state == "NEW"
    event = last_event(command)
    assert (event["kind"], event["data"]["was"], event["data"]["now"]) == ("message_moved_by_hand", "DEAD", "NEW")


ABSENT = "01980000-0000-7000-8000-000000000000"


@sweep(
    ("words", "said"),
    [
        (["send", "nope", "quote"], "'nope'"),
        (["send", "prices", ""], "function"),
        (["send", "prices", "a b"], "function"),
        (["send", "prices", "quote", "{bad"], "JSON"),
        (["send", "prices", "quote", "NaN"], "JSON"),
        (["send", "prices", "quote", "1e999"], "JSON"),
        (["send", "prices", "quote", '"\\u0000"'], "NUL"),
        (["send", "prices", "quote", '"\\ud800"'], "surrogate"),
        (["send", "prices", "quote", json.dumps("x" * 100)], "queue.max_payload_bytes"),
        (["send", "prices", "quote", "--delay", "-1"], "seconds"),
        (["send", "prices", "quote", "--ttl", "0"], "seconds"),
        (["send", "prices", "quote", "--ttl", "nan"], "seconds"),
        (["send", "prices", "quote", "--reply", "--ttl", "inf"], "seconds"),
        (["reply", "MESSAGE", "{bad"], "JSON"),
        (["reply", ABSENT, "1"], ABSENT),
        (["edit", "MESSAGE", "--payload", "{bad"], "JSON"),
        (["edit", ABSENT, "--payload", "1"], ABSENT),
        (["set-state", "MESSAGE", "nope"], "'nope'"),
        (["set-state", "MESSAGE", "ACK"], "ACK"),
        (["set-state", "MESSAGE", "OK"], "is NEW"),
        (["set-state", "MESSAGE", "NEW"], "is NEW"),
        (["set-state", ABSENT, "NEW"], ABSENT),
        (["set-state", "nope", "NEW"], "'nope'"),
    ],
)
def test_what_is_refused_leaves_nothing(
    words: list[str],
    said: str,
    command: CommandLine,
    runtime: Runtime,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOWPATH_QUEUE__MAX_PAYLOAD_BYTES", "64")
    before = whole(runtime)
    command("queue", *(message if word == "MESSAGE" else word for word in words), *BY).refused(1, said)
    assert whole(runtime) == before


def test_a_payload_that_is_no_text(command: CommandLine, runtime: Runtime, tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(b'"\xff"')
    before = whole(runtime)
    command("queue", "send", "prices", "quote", f"@{file}", *BY).refused(1, "UTF-8")
    assert whole(runtime) == before


def test_a_claimed_message_cannot_be_edited(command: CommandLine, runtime: Runtime, message: str) -> None:
    runtime.queue.inbox("prices").claim(1)
    command("queue", "edit", message, "--payload", "1", *BY).refused(1, "is ACK")


def test_a_notice_cannot_be_answered(command: CommandLine, runtime: Runtime) -> None:
    notice = runtime.queue.outbox("shop").notice("prices", "quote")
    command("queue", "reply", notice, "1", *BY).refused(1, "no answer")
