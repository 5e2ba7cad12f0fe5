"""Sending and reading records on the command line, on both logs."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.cli import CommandLine, on_terminal
from tests.support.commands import run
from tests.support.logs import Place, everything, new, values, wait_for_values
from tests.support.sweep import sweep
from tests.support.topics import set_variables

from towpath.log import Log, NewRecord

TIME_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _settings(place: Place, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(place, monkeypatch)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """What standard input holds."""

    def type_in(text: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    return type_in


def test_send_a_file_with_keys_and_headers(command: CommandLine, log: Log, name: str, tmp_path: Path) -> None:
    log.create_topic(name, 3)
    file = tmp_path / "clicks.jsonl"
    file.write_bytes(b'{"user": "ann",  "n": 1.0}\n{"user": "bob"}\n\n{"user": "ann"}\n')
    words = [file, "--key-field", "user", "--header", "src=file", "--header", "src=a=b"]
    ran = command.ok("topic", "send", name, *words)
    found = everything(log, name)
    assert sorted((record.key, record.value) for record in found) == [
        (b"ann", b'{"user": "ann",  "n": 1.0}'),
        (b"ann", b'{"user": "ann"}'),
        (b"bob", b'{"user": "bob"}'),
    ]
    assert {record.headers for record in found} == {(("src", b"file"), ("src", b"a=b"))}
    assert ran.out.startswith(f"sent 3 records to {name}: ")
    assert ran.err == ""


def test_send_says_where(command: CommandLine, log: Log, name: str, typed: Callable[[bytes], None]) -> None:
    log.create_topic(name, 2)
    typed(b'{"value": "a", "partition": 1}\n{"value": "b", "partition": 1}\n')
    sent = command.ok("topic", "send", name, "--records", "--json").json
    assert sent == {"topic": name, "records": 2, "partitions": {"1": 2}}
    typed(b"")
    assert " 0 records " in command.ok("topic", "send", name).out


def test_send_raw_lines(command: CommandLine, log: Log, name: str, typed: Callable[[bytes], None]) -> None:
    log.create_topic(name, 1)
    typed(b"plain\n\xff\x00\n")
    command.ok("topic", "send", name, "--raw", "--key", "k")
    assert [(record.key, record.value) for record in everything(log, name)] == [(b"k", b"plain"), (b"k", b"\xff\x00")]


def test_send_one_value(command: CommandLine, log: Log, name: str) -> None:
    log.create_topic(name, 1)
    command.ok("topic", "send", name, "--value", '{"a":\n1}')
    command.ok("topic", "send", name, "--value", "hello", "--raw")
    command("topic", "send", name, "--value", "hello").refused(1, "JSON")
    assert values(log, name) == [b'{"a":\n1}', b"hello"]


def test_a_bad_line_ends_it_and_one_can_go_on(
    command: CommandLine, log: Log, name: str, typed: Callable[[bytes], None]
) -> None:
    log.create_topic(name, 1)
    typed(b"1\n2\n{bad\n4\n")
    command("topic", "send", name).refused(1, "line 3: ", "2 records", "--from-line 3")
    assert values(log, name) == [b"1", b"2"]
    typed(b"1\n2\n3\n4\n")
    command.ok("topic", "send", name, "--from-line", 3)
    assert values(log, name) == [b"1", b"2", b"3", b"4"]


def test_a_record_that_is_too_large(
    command: CommandLine, log: Log, name: str, typed: Callable[[bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_LOG__MAX_RECORD_BYTES", "1024")
    log.create_topic(name, 1)
    typed(b"1\n" + b"7" * 100_000 + b"\n3\n")
    command("topic", "send", name).refused(1, "line 2: ", "log.max_record_bytes (1024)", "1 record ")
    command("topic", "send", name, "--value", "7" * 1000).refused(1, "log.max_record_bytes (1024)")
    assert values(log, name) == [b"1"]


def test_records_go_out_and_come_back_exactly(command: CommandLine, log: Log, name: str) -> None:
    """Through real pipes: null values, keys and headers that are no text, names that come twice, old times."""
    back = f"{name}-back"
    for topic in (name, back):
        log.create_topic(topic, 3, retention_s="never")
    sent = [
        NewRecord(b'{"n": 1}', b"key", (), TIME_MS),
        NewRecord(None, b"\xff\xfe", (("a", b"1"), ("a", b"\x80"), ("b", None)), TIME_MS + 1),
        NewRecord(b"", b"", (("c", b""),), TIME_MS + 2),
        NewRecord("ключ\0\n\r\u2028".encode(), None, (), TIME_MS + 3, 2),
        NewRecord(bytes(range(256)), None, (), TIME_MS + 4, 0),
        NewRecord(b'{"base64": "eA=="}', b'{"base64": "eA=="}', (("d", b'{"base64": "eA=="}'),), TIME_MS + 5),
    ]
    log.append(name, sent)
    read = run("topic", "read", name, "--json")
    assert (read.returncode, read.stderr) == (0, b"")
    done = run("topic", "send", back, "--records", input=read.stdout)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [record._replace(topic=name) for record in everything(log, back)] == everything(log, name)
    assert len(everything(log, back)) == len(sent)


@pytest.fixture
def clicks(log: Log, name: str) -> str:
    """A topic with two partitions: six records, of which one is deleted."""
    log.create_topic(name, 2, retention_s="never")
    log.append(
        name,
        [
            NewRecord(b'{"n": %d}' % n, b"ann" if n % 2 else b"bob", (("n", b"%d" % n),), TIME_MS + n * 1000, n % 2)
            for n in range(6)
        ],
    )
    log.delete_before(name, {0: 1})
    return name


def numbers(command: CommandLine, *words: object) -> list[int]:
    lines = command.ok("topic", "read", *words, "--json").lines
    return [json.loads(json.loads(line)["value"])["n"] for line in lines]


def test_read_filters(command: CommandLine, clicks: str) -> None:
    assert numbers(command, clicks) == [2, 4, 1, 3, 5], "one partition after the other"
    assert numbers(command, clicks, "--partition", 1) == [1, 3, 5]
    assert numbers(command, f"{clicks}/1", "--from", 1) == [3, 5]
    assert numbers(command, f"{clicks}/1", "--from", 1, "--to", 2) == [3]
    assert numbers(command, f"{clicks}/1", "--to", 1) == [1]
    assert numbers(command, f"{clicks}/1", "--from", 3) == []
    assert numbers(command, clicks, "-n", 3) == [2, 4, 1]
    assert numbers(command, clicks, "--since", "2023-11-14T22:13:23Z") == [4, 3, 5]
    assert numbers(command, clicks, "--since", "1h") == []
    assert numbers(command, clicks, "--since", "1h", "--to", 2, "--partition", 1) == []
    assert numbers(command, clicks, "--key", "bob") == [2, 4]
    assert numbers(command, clicks, "--key", "ann", "--contains", "3") == [3]
    assert numbers(command, clicks, "--header", "n=5") == [5]
    assert numbers(command, clicks, "--header", "n=5", "--header", "n=4") == []


def test_read_for_people_is_one_safe_line_a_record(
    command: CommandLine, log: Log, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create_topic(name, 1, retention_s="never")
    log.append(
        name, [NewRecord(b"\x1b[31mred\n\xff" + b"x" * 500, b"k\0", (("h", b"\x9b"),), TIME_MS), NewRecord(None)]
    )
    first, second = command.ok("topic", "read", name).lines
    assert first == f"0/0  2023-11-14 22:13:20.000  k\\x00  [h=\\x9b]  \\x1b[31mred\\n\\xff{'x' * 500}"
    assert second.endswith("  ∅  ∅")
    on_terminal(monkeypatch, 60)
    cut = command.ok("topic", "read", name).lines
    assert [len(line) <= 60 for line in cut] == [True, True]
    assert cut[0].startswith("0/0  2023-11-14 22:13:20.000  k\\x00  [h=\\x9b]  ")
    assert cut[0].endswith("…")


def test_read_one_record_whole(command: CommandLine, log: Log, clicks: str) -> None:
    text = command.ok("topic", "read", f"{clicks}/1/2").out
    assert f"record    {clicks}/1/2\n" in text
    assert "time      2023-11-14 22:13:25.000 UTC\n" in text
    assert "header n  5\n" in text
    assert text.endswith('{\n  "n": 5\n}\n')
    assert command.ok("topic", "read", f"{clicks}/1/2", "--json").json["offset"] == 2
    for value, shown in (
        (b'{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        (b"a\n\x1b\xff", "a\n\\x1b\\xff"),
        (b"1e999", "1e999"),
    ):
        [(number, offset)] = log.append(clicks, new(value))
        assert command.ok("topic", "read", f"{clicks}/{number}/{offset}").out.endswith(f"\n\n{shown}\n")
    [(number, offset)] = log.append(clicks, new(None))
    assert command.ok("topic", "read", f"{clicks}/{number}/{offset}").out.endswith("no value\n")


@sweep(
    ("words", "said"),
    [
        (["T/0/0"], "offset 0"),
        (["T/1/3"], "offset 3"),
        (["T/1", "--from", "4"], "offset 4"),
        (["T/0", "--from", "0"], "offset 0"),
        (["T/2"], "partition 2"),
        (["T/999999999/0"], "partition 999999999"),
    ],
)
def test_offsets_that_are_not_there(words: list[str], said: str, command: CommandLine, clicks: str) -> None:
    command("topic", "read", *(word.replace("T", clicks) for word in words)).refused(1, said)


@pytest.mark.parametrize("place", ["kafka"], indirect=True)
def test_an_offset_that_holds_nothing(command: CommandLine, log: Log, name: str) -> None:
    log.create_topic(name, 1)
    producer = log.producer("tester")
    for value in (b"a", b"b"):
        with producer.transaction() as transaction:
            transaction.append(name, new(value))
    producer.close()
    wait_for_values(log, name, b"a", b"b")
    command("topic", "read", f"{name}/0/1").refused(1, f"{name}/0/1")
    assert numbers_of(command, name) == [0, 2]


def numbers_of(command: CommandLine, name: str) -> list[int]:
    return [json.loads(line)["offset"] for line in command.ok("topic", "read", name, "--json").lines]


def test_a_reader_that_goes_away_is_no_error(log: Log, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    log.create_topic(name, 1)
    log.append(name, new(*(b"x" * 200 for _ in range(5000))))
    read = run("topic", "read", name, preexec_fn=_without_output)
    assert (read.returncode, read.stderr) == (141, b"")


def _without_output() -> None:
    import os

    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, sys.__stdout__.fileno() if sys.__stdout__ else 1)
