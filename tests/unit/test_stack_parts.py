"""The small parts of a stack: ports, records, the ends of logs, the question to a broker."""

from __future__ import annotations

import errno
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from towpath.errors import ServerFailed
from towpath.stack import daemon, kafka
from towpath.stack.daemon import ask, free_port, require_free
from towpath.stack.model import ServerRecord
from towpath.stack.server import LogFollower, explaining, reason, tail
from towpath.stack.user import current_user


def test_a_free_port_is_free_and_none_that_the_system_gives_to_clients() -> None:
    port = free_port()
    require_free("kafka", port)
    assert port < 32768


def test_a_second_port_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_port()
    monkeypatch.setattr(daemon, "LOWEST", first)
    monkeypatch.setattr(daemon, "HIGHEST", first + 1)
    assert free_port() == first
    with pytest.raises(ServerFailed, match="port"):
        free_port(first)


def test_a_busy_port_is_told_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ServerFailed, match=rf"kafka: .*{port} .* --port kafka=N"):
            require_free("kafka", port)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert ServerRecord.read(tmp_path / "kafka") is None
    ServerRecord(9092, 3).write(tmp_path / "kafka")
    assert ServerRecord.read(tmp_path / "kafka") == ServerRecord(9092, 3)
    assert [path.name for path in (tmp_path / "kafka").iterdir()] == ["server.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff", '{"post": 1}', '{"port": "1"}', '{"port": null}'])
def test_a_record_that_is_not_one_is_told(text: str, tmp_path: Path) -> None:
    home = tmp_path / "kafka"
    home.mkdir()
    (home / "server.json").write_text(text, encoding="latin-1")
    with pytest.raises(ServerFailed, match=r"kafka/server\.json .*towpath stack reset kafka"):
        ServerRecord.read(home)
    assert ServerRecord.is_there(home)


def test_the_end_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert tail(log, 5) == []
    log.write_bytes(b"one\ntwo\nth\xffree\n")
    assert tail(log, 2) == ["two", "th�ree"]
    assert tail(log, 0) == []


def test_a_log_is_followed_through_a_restart(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("old\n")
    follower = LogFollower(log)
    assert list(follower.new_lines()) == []
    with log.open("a") as file:
        file.write("new\nhalf")
    assert list(follower.new_lines()) == ["new"]
    with log.open("a") as file:
        file.write(" whole\n")
    assert list(follower.new_lines()) == ["half whole"]
    log.replace(tmp_path / "server.log.1")
    assert list(follower.new_lines()) == []
    log.write_text("after the restart\n")
    assert list(follower.new_lines()) == ["after the restart"]


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that reads one question, gives this answer and closes."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("answer", "is_well"),
    [
        (struct.pack(">iihi", 10, 7, 0, 0), True),
        (struct.pack(">iihi", 10, 7, 35, 0), False),
        (struct.pack(">iihi", 10, 8, 0, 0), False),
        (b"HTTP/1.1 400 Bad Request\r\n", False),
        (b"", False),
    ],
)
def test_only_the_answer_of_a_broker_counts(answer: bytes, is_well: bool) -> None:
    with answering(answer) as port:
        assert kafka.answers(port) is is_well


def test_nobody_there_is_no_answer() -> None:
    assert not kafka.answers(free_port())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b'HTTP/1.0 200 OK\r\n\r\n{"status": "green"}', {"status": "green"}),
        (b'HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{"status": "green"}', {}),
        (b"HTTP/1.0 200 OK\r\n\r\n[1]", {}),
        (b"HTTP/1.0 200 OK\r\n\r\n{", {}),
        (b"HTTP/1.0 503 Busy\r\n\r\n{}", {}),
        (b"nonsense\r\n", {}),
        (b"", {}),
    ],
)
def test_only_a_whole_answer_counts(answer: bytes, told: dict[str, str]) -> None:
    """A server that is killed while it answers breaks off in the middle."""
    with answering(answer) as port:
        assert ask(f"http://127.0.0.1:{port}/") == told


def test_a_program_that_does_not_end_is_told() -> None:
    with pytest.raises(ServerFailed, match=r"^sleep .*0\.1 s"):
        current_user().run(["sleep", "60"], timeout_s=0.1)


@pytest.mark.parametrize(("number", "told"), [(errno.ENOSPC, "disk"), (errno.EACCES, "kafka: Permission")])
def test_what_the_file_system_refuses_is_told(number: int, told: str) -> None:
    with pytest.raises(ServerFailed, match=told), explaining("kafka", Path("/data")):
        raise OSError(number, "Permission denied", "/data/x")


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("one\ntwo\n\n", "one\ntwo"),
        ("", "it wrote nothing"),
        ("starting\nFATAL: no such setting\nHINT: mend it", "FATAL: no such setting"),
        ("INFO a\njava.lang.Exception: b\n\tat Exception.c(d)\nINFO e", "java.lang.Exception: b"),
        ("INFO a\nIOException: No space left on device\nlater", "the disk is full; make room, then start it again"),
    ],
)
def test_of_a_long_log_the_lines_that_tell_are_shown(written: str, why: str) -> None:
    assert reason(written) == why
