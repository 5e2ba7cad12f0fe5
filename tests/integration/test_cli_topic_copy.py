"""Copying topics on the command line: between the logs and back, into what is there, and by two at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.logs import Place, everything, new
from tests.support.topics import set_variables

from towpath.db import open_database
from towpath.errors import ProducerFenced
from towpath.log import Log, NewRecord, Record, open_log
from towpath.log.topic_copy import TopicCopy
from towpath.settings import DatabaseSettings, LogSettings
from towpath.testing.clock import wait_until

TIME_MS = 1_700_000_000_000
BY = ("--why", "a good reason", "--who", "ann")


@pytest.fixture(autouse=True)
def _settings(place: Place, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(place, monkeypatch)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Log]:
    """Another log, in a file."""
    url = f"sqlite:///{tmp_path}/elsewhere.db"
    database = open_database(DatabaseSettings(url=url))
    yield open_log(LogSettings(), database)
    database.close()


@pytest.fixture
def clicks(log: Log, name: str) -> str:
    """Records of all kinds, the first of them deleted."""
    log.create_topic(name, 3, retention_s="never")
    log.append(
        name,
        [
            *(NewRecord(b"%d" % n, b"k%d" % (n % 7), (("n", b"%d" % n),), TIME_MS + n) for n in range(200)),
            NewRecord(None, b"\xff", (("a", b"1"), ("a", b"\x80"), ("b", None)), TIME_MS),
            NewRecord(b"", None, (), TIME_MS, 1),
        ],
    )
    log.delete_before(name, {0: 2})
    return name


def contents(log: Log, name: str) -> list[tuple[Any, ...]]:
    """All but topic and offset, which are the log's own."""
    return [(record.partition, *record[3:]) for record in everything(log, name)]


def wait_for_contents(log: Log, name: str, expected: list[tuple[Any, ...]]) -> None:
    """Kafka shows a committed transaction a moment after its commit."""
    wait_until(lambda: len(contents(log, name)) >= len(expected), what=f"the records of {name}")
    assert contents(log, name) == expected


def last_event(command: CommandLine) -> dict[str, Any]:
    event: dict[str, Any] = command.ok("event", "list", "--limit", 1, "--json").json["items"][0]
    return event


def test_there_and_back(command: CommandLine, log: Log, elsewhere: Log, clicks: str) -> None:
    back = f"{clicks}-back"
    out = command.ok("topic", "copy", clicks, "--to", elsewhere.url, *BY).out
    assert out.startswith(f"copied {len(everything(log, clicks))} records to {clicks} of {elsewhere.url} in ")
    event = last_event(command)
    assert (event["kind"], event["subject"], event["who"]) == ("topic_copied_by_hand", clicks, "ann")
    assert event["data"]["from"] == f"{log.url} {clicks}"
    command.ok("topic", "copy", clicks, back, "--from", elsewhere.url)
    assert contents(elsewhere, clicks) == contents(log, clicks)
    wait_for_contents(log, back, contents(log, clicks))
    assert elsewhere.topic(clicks).retention_s is None
    assert log.topic(back).partitions == 3
    assert command.ok("topic", "show", back, "--json").json["groups"] == [], "how far a copy is, is its own business"


def test_the_same_command_brings_what_has_come_since(
    command: CommandLine, log: Log, elsewhere: Log, clicks: str
) -> None:
    words = ["topic", "copy", clicks, "--to", elsewhere.url, "--json"]
    first = command.ok(*words).json
    assert (first["records"], first["went_on"]) == (len(everything(log, clicks)), False)
    again = command.ok(*words).json
    assert (again["records"], again["went_on"]) == (0, True)
    log.append(clicks, new(b"more", b"and more", key=b"k1"))
    assert command.ok(*words).json["records"] == 2
    assert contents(elsewhere, clicks) == contents(log, clicks)
    log.append(clicks, [NewRecord(b"gone", partition=0)])
    log.append(clicks, [NewRecord(b"there", partition=0)])
    log.delete_before(clicks, {0: log.ends(clicks)[0] - 1})
    assert command.ok(*words).json["records"] == 1, "what retention took from the source cannot be copied"


def test_a_target_with_other_records(command: CommandLine, log: Log, elsewhere: Log, clicks: str) -> None:
    elsewhere.create_topic(clicks, 3)
    elsewhere.append(clicks, [NewRecord(b"mine", timestamp_ms=1, partition=0)])
    words = ["topic", "copy", clicks, "--to", elsewhere.url]
    command(*words).refused(1, "--append")
    assert len(everything(elsewhere, clicks)) == 1
    command.ok(*words, "--append")
    mine = (0, 1, None, b"mine", ())
    assert sorted(contents(elsewhere, clicks), key=repr) == sorted([mine, *contents(log, clicks)], key=repr)
    assert command.ok(*words, "--json").json["records"] == 0, "from here on it is a copy that goes on"


def test_a_target_with_fewer_partitions(command: CommandLine, log: Log, elsewhere: Log, clicks: str) -> None:
    elsewhere.create_topic(clicks, 2)
    command("topic", "copy", clicks, "--to", elsewhere.url).refused(1, "2 partitions")
    command.ok("topic", "grow", clicks, "--partitions", 3, "--log", elsewhere.url)
    command.ok("topic", "copy", clicks, "--to", elsewhere.url)
    assert contents(elsewhere, clicks) == contents(log, clicks)


def test_a_target_with_more_partitions_gets_records_where_their_keys_belong(
    command: CommandLine, log: Log, elsewhere: Log, clicks: str
) -> None:
    for name in (clicks, "belongs"):
        elsewhere.create_topic(name, 8)
    command.ok("topic", "copy", clicks, "--to", elsewhere.url)
    found = everything(elsewhere, clicks)
    assert sorted((r[3:] for r in found), key=repr) == sorted((r[3:] for r in everything(log, clicks)), key=repr)
    for key in {record.key for record in found if record.key is not None}:
        [(number, _)] = elsewhere.append("belongs", [NewRecord(b"", key)])
        assert {record.partition for record in found if record.key == key} == {number}


def test_a_source_that_was_made_again_is_another(command: CommandLine, log: Log, elsewhere: Log, clicks: str) -> None:
    words = ["topic", "copy", clicks, "--to", elsewhere.url]
    command.ok(*words)
    log.delete_topic(clicks)
    log.create_topic(clicks, 3)
    log.append(clicks, new(b"new"))
    command(*words).refused(1, "--append")


@pytest.mark.parametrize("other", [[], ["--to", "URL"], ["--from", "URL"]])
def test_no_topic_is_copied_to_itself(other: list[str], command: CommandLine, log: Log, clicks: str) -> None:
    before = contents(log, clicks)
    command("topic", "copy", clicks, *(log.url if word == "URL" else word for word in other)).refused(1, f"'{clicks}'")
    assert contents(log, clicks) == before


def test_within_a_log(command: CommandLine, log: Log, clicks: str) -> None:
    command.ok("topic", "copy", clicks, f"{clicks}-2")
    wait_for_contents(log, f"{clicks}-2", contents(log, clicks))


def test_a_record_that_the_target_cannot_hold_is_named(
    command: CommandLine, log: Log, elsewhere: Log, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create_topic(name, 1)
    log.append(name, new(b"a", b"b" * 2000, b"c"))
    monkeypatch.setenv("TOWPATH_LOG__MAX_RECORD_BYTES", "1024")
    command("topic", "copy", name, "--to", elsewhere.url).refused(1, f"{name}/0/1: ", "2064")
    monkeypatch.setenv("TOWPATH_LOG__MAX_RECORD_BYTES", "4096")
    command.ok("topic", "copy", name, "--to", elsewhere.url)
    assert contents(elsewhere, name) == contents(log, name)


def test_of_two_copies_at_once_the_older_stops(log: Log, elsewhere: Log, clicks: str) -> None:
    def overtake(_: int) -> None:
        if not everything(elsewhere, "rival"):
            elsewhere.append("rival", new(b"begun"))
            TopicCopy(log, elsewhere, 1 << 20).run(clicks, clicks)

    elsewhere.create_topic("rival", 1)
    with pytest.raises(ProducerFenced):
        TopicCopy(log, elsewhere, 1 << 20).run(clicks, clicks, report=overtake)
    assert contents(elsewhere, clicks) == contents(log, clicks)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_copy_does_not_hold_retention_up(command: CommandLine, log: Log, elsewhere: Any, clicks: str) -> None:
    """Its positions are offsets of the source: they say nothing about who has read the target."""
    elsewhere.create_topic(clicks, 3, retention_s=1)
    command.ok("topic", "copy", clicks, "--to", elsewhere.url)
    elsewhere.append(clicks, [NewRecord(b"later, and old too", timestamp_ms=TIME_MS, partition=0)])
    elsewhere.expire(lambda tx, event: None)
    assert everything(elsewhere, clicks) == list[Record]()
