"""Topics on the command line, on both logs: making, looking, growing, deleting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.logs import Place, new
from tests.support.sweep import sweep
from tests.support.topics import set_variables

from towpath.log import Log

BY = ("--why", "a good reason", "--who", "ann")


@pytest.fixture(autouse=True)
def _settings(place: Place, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(place, monkeypatch)


def last_event(command: CommandLine) -> dict[str, Any]:
    event: dict[str, Any] = command.ok("event", "list", "--limit", 1, "--json").json["items"][0]
    return event


def test_create(command: CommandLine, log: Log, name: str) -> None:
    out = command.ok("topic", "create", name, "--partitions", 3, "--retention", "12h", *BY).out
    assert [part for part in (name, "3 partitions", "12h") if part not in out] == []
    made = log.topic(name)
    assert (made.partitions, made.retention_s) == (3, 43_200)
    event = last_event(command)
    assert (event["kind"], event["subject"]) == ("topic_created_by_hand", name)
    assert (event["who"], event["why"], event["data"]["id"]) == ("ann", "a good reason", made.id)

    command("topic", "create", name).refused(1, f"'{name}'")
    again = command.ok("topic", "create", name, "--if-missing", "--json").json
    assert (again["id"], again["is_new"], again["partitions"]) == (made.id, False, 3)
    assert last_event(command)["seq"] == event["seq"], "nothing was changed, so nothing happened"


def test_create_for_ever_and_by_the_settings(command: CommandLine, log: Log, name: str) -> None:
    command.ok("topic", "create", name, "--retention", "never")
    assert log.topic(name).retention_s is None
    other = f"{name}-other"
    command.ok("topic", "create", other)
    assert (log.topic(other).partitions, log.topic(other).retention_s) == (4, 604_800)


def test_list_and_show(command: CommandLine, log: Log, name: str) -> None:
    topic = log.create_topic(name, 2)
    log.append(name, [record._replace(partition=0) for record in new(b"a", b"b", b"c")])
    log.delete_before(name, {0: 1})
    log.commit_positions(f"g-{name}", {(name, 0): 2})
    offsets = [{"partition": 0, "start": 1, "end": 3}, {"partition": 1, "start": 0, "end": 0}]

    [item] = [item for item in command.ok("topic", "list", "--json").json["items"] if item["name"] == name]
    assert item == {
        "name": name,
        "id": topic.id,
        "partitions": 2,
        "retention_s": 604_800,
        "records_at_most": 2,
        "offsets": offsets,
    }
    lines = command.ok("topic", "list").lines
    assert lines[0].split()[:2] == ["topic", "partitions"]
    assert [name, "2", "2", "7d", topic.id] in [line.split() for line in lines]

    shown = command.ok("topic", "show", name, "--json").json
    position = {"partition": 0, "start": 1, "end": 3, "position": 2, "lag": 1}
    assert shown == {**item, "groups": [{"group": f"g-{name}", "positions": [position]}]}
    text = command.ok("topic", "show", name).out
    assert topic.id in text
    assert [f"g-{name}", "0", "2", "1"] in [line.split() for line in text.splitlines()]


def test_offsets(command: CommandLine, log: Log, name: str) -> None:
    log.create_topic(name, 1)
    log.append(name, [record._replace(timestamp_ms=1_700_000_000_000 + n) for n, record in enumerate(new(b"a", b"b"))])
    words = ["--at", "2023-11-14T22:13:20.001Z", "--group", f"g-{name}"]
    [item] = command.ok("topic", "offsets", name, *words, "--json").json["items"]
    assert item == {"partition": 0, "start": 0, "end": 2, "at": 1, "position": None, "lag": None}
    log.commit_positions(f"g-{name}", {(name, 0): 1})
    [item] = command.ok("topic", "offsets", name, *words, "--json").json["items"]
    assert (item["position"], item["lag"]) == (1, 1)
    assert command.ok("topic", "offsets", name, *words).lines[1].split() == ["0", "0", "2", "1", "1", "1"]
    assert command.ok("topic", "offsets", name).lines[1].split() == ["0", "0", "2"]
    [item] = command.ok("topic", "offsets", name, "--at", "2999-01-01", "--json").json["items"]
    assert item["at"] == 2, "nothing is of that time: the next one will be"


def test_grow(command: CommandLine, log: Log, name: str) -> None:
    log.create_topic(name, 2)
    command.ok("topic", "grow", name, "--partitions", 5, *BY)
    assert log.topic(name).partitions == 5
    event = last_event(command)
    assert (event["kind"], event["data"]["was"], event["data"]["now"]) == ("topic_grown_by_hand", 2, 5)
    command.ok("topic", "grow", name, "--partitions", 5, *BY)
    assert last_event(command)["seq"] == event["seq"]
    command("topic", "grow", name, "--partitions", 4).refused(1, "fewer")


def test_delete(command: CommandLine, log: Log, name: str) -> None:
    topic = log.create_topic(name, 2)
    log.append(name, new(b"a"))
    command("topic", "delete", name, *BY).refused(2, "--yes")
    assert log.topic(name) == topic
    command.ok("topic", "delete", name, "--yes", *BY)
    assert name not in [each.name for each in log.topics()]
    event = last_event(command)
    assert (event["kind"], event["subject"], event["who"]) == ("topic_deleted_by_hand", name, "ann")
    assert event["data"]["id"] == topic.id
    assert sorted(event["data"]["ends"].values()) == [0, 1]


def test_a_group_is_shown_and_forgotten(command: CommandLine, log: Log, name: str) -> None:
    group = f"g-{name}"
    log.create_topic(name, 2)
    log.commit_positions(group, {(name, 1): 0})
    [item] = command.ok("topic", "offsets", "--group", group, "--json").json["items"]
    assert item == {"topic": name, "partition": 1, "start": 0, "end": 0, "position": 0, "lag": 0}
    assert command.ok("topic", "offsets", "--group", group).lines[1].split()[:2] == [name, "1"]
    command("topic", "offsets").refused(2, "--group")
    command.ok("topic", "forget-group", group, *BY)
    assert log.positions(group) == {}
    event = last_event(command)
    assert (event["kind"], event["subject"]) == ("group_forgotten_by_hand", group)
    assert event["data"]["positions"] == {f"{name}/1": 0}
    command("topic", "forget-group", group, *BY).refused(1, f"'{group}'")
    assert command.ok("topic", "offsets", "--group", group, "--json").json["items"] == []


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("", 130)])
def test_delete_asks(
    answer: str, code: int, command: CommandLine, log: Log, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = log.create_topic(name)
    monkeypatch.setattr("sys.stdin", _Person(answer))
    ran = command("topic", "delete", name, *BY)
    assert ran.code == code
    assert name in ran.err + ran.out
    assert log.url in ran.err + ran.out
    assert log.topic(name) == topic
    monkeypatch.setattr("sys.stdin", _Person("y\n"))
    command.ok("topic", "delete", name, *BY)
    assert name not in [each.name for each in log.topics()]


class _Person:
    """Somebody at a terminal who types one line."""

    def __init__(self, line: str) -> None:
        self._line = line

    def isatty(self) -> bool:
        return True

    def readline(self, *_: object) -> str:
        return self._line


@sweep(
    ("words", "said"),
    [
        (["show", "NAME"], "'NAME'"),
        (["grow", "NAME", "--partitions", "3"], "'NAME'"),
        (["delete", "NAME", "--yes", "--why", "x"], "'NAME'"),
        (["send", "NAME", "--value", "1"], "'NAME'"),
        (["read", "NAME"], "'NAME'"),
        (["read", "NAME/0/0"], "'NAME'"),
        (["tail", "NAME"], "'NAME'"),
        (["offsets", "NAME"], "'NAME'"),
        (["copy", "NAME", "other"], "'NAME'"),
        (["create", "a b"], "'a b'"),
        (["create", "."], "'.'"),
        (["create", "x" * 250], "topic name"),
        (["create", "a\x1b[31mb"], "topic name"),
        (["create", "é"], "topic name"),
        (["create", ""], "topic name"),
        (["create", "NAME", "--partitions", "10001"], "10000"),
        (["show", "a\x1b[31mb"], "topic"),
        (["read", "a b"], "topic"),
        (["offsets", "NAME", "--group", "__mine"], "own"),
        (["offsets", "NAME", "--group", ""], "group"),
    ],
)
def test_what_is_refused(words: list[str], said: str, command: CommandLine, log: Log, name: str) -> None:
    if "--group" in words:
        name = f"{name}-{words[-1] or 'none'}"
        log.create_topic(name)
    ran = command("topic", *(word.replace("NAME", name) for word in words))
    ran.refused(1, said.replace("NAME", name))
    assert "\x1b" not in ran.err


@pytest.fixture
def topic_a(log: Log) -> None:
    log.create_topic("a", 4)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@sweep(
    ("words", "said"),
    [
        (["create"], "TOPIC"),
        (["create", "a", "--partitions", "0"], "--partitions"),
        (["create", "a", "--retention", "soon"], "--retention 'soon'"),
        (["create", "a", "--log", "nonsense"], "--log 'nonsense'"),
        (["delete", "a"], "--why"),
        (["delete", "a", "--why", " "], "--why"),
        (["copy", "a", "--to", "http://x"], "--to 'http://x'"),
        (["copy", "a", "--from", "kafka://x"], "--from 'kafka://x'"),
        (["offsets", "a", "--at", "soon"], "--at 'soon'"),
        (["read", "a/b"], "'a/b'"),
        (["read", "a/0/1/2"], "TOPIC"),
        (["read", "a/-1"], "TOPIC"),
        (["read", "a/0", "--partition", "0"], "--partition"),
        (["read", "a/0/1", "-n", "1"], "one record"),
        (["read", "a", "--from", "1", "--since", "1h"], "one of them"),
        (["read", "a", "--from", "1"], "one partition"),
        (["read", "a", "--since", "soon"], "--since 'soon'"),
        (["read", "a", "-n", "0"], "-n"),
        (["read", "a", "--header", "x"], "NAME=VALUE"),
        (["tail", "a/0/1"], "followed"),
        (["tail", "a", "-n", "-1"], "-n"),
        (["send", "a", "/does/not/exist"], "/does/not/exist"),
        (["send", "a", "."], "Is a directory"),
        (["send", "a", "x\0y"], "read"),
        (["send", "a", "f", "--value", "1"], "one of them"),
        (["send", "a", "--raw", "--records"], "--raw"),
        (["send", "a", "--key-field", "k", "--key", "k"], "--key-field"),
        (["send", "a", "--header", "\x1b=1"], "NAME=VALUE"),
        (["send", "a", "--value", "\udcff"], "UTF-8"),
        (["send", "a", "--from-line", "0"], "--from-line"),
    ],
)
def test_wrong_usage(words: list[str], said: str, command: CommandLine, topic_a: None) -> None:
    command("topic", *words).refused(2, said)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("words", [["list"], ["read", "a"], ["copy", "a", "b", "--from"]])
def test_a_look_makes_no_log(words: list[str], command: CommandLine, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other.db"
    words = [*words, url] if words[-1] == "--from" else [*words, "--log", url]
    command("topic", *words).refused(3, "no log")
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_log_in_a_file_of_its_own(command: CommandLine, log: Log, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other.db"
    command.ok("topic", "create", "a", "--log", url)
    assert [item["name"] for item in command.ok("topic", "list", "--log", url, "--json").json["items"]] == ["a"]
    assert log.topics() == []
    assert last_event(command)["data"]["log"] == url


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "words", [["list"], ["create", "a"], ["send", "a", "--value", "1"], ["read", "a"], ["tail", "a"]]
)
def test_a_broker_that_is_away(words: list[str], command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_LOG__TIMEOUT_S", "0.5")
    command("topic", *words, "--log", "kafka://127.0.0.1:1").refused(3, "127.0.0.1:1: ")
