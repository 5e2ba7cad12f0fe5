"""Following a topic on the command line, as real processes, on both logs."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from itertools import count, islice

import pytest
from tests.support.commands import TIMEOUT_S, next_line, started
from tests.support.logs import Place, new, wait_for_values
from tests.support.topics import set_variables

from towpath.cli.topics.views import TopicFollower
from towpath.errors import LogUnavailable, TopicReplaced
from towpath.log import Log, NewRecord

TIME_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _settings(place: Place, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(place, monkeypatch)


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, err


def test_tail_shows_the_last_then_each_new_one_until_ctrl_c(log: Log, name: str) -> None:
    log.create_topic(name, 2, retention_s="never")
    log.append(name, [NewRecord(b"%d" % n, timestamp_ms=TIME_MS + n, partition=n % 2) for n in range(5)])
    with started("topic", "tail", name, "-n", 3, "--json") as tail:
        assert [json.loads(next_line(tail))["value"] for _ in range(3)] == ["2", "3", "4"], "by their time"
        log.append(name, new(b"5"))
        assert json.loads(next_line(tail))["value"] == "5"
        log.add_partitions(name, 3)
        log.append(name, [NewRecord(b"6", partition=2)])
        assert json.loads(next_line(tail))["partition"] == 2, "a new partition is followed too"
        assert end(tail) == (130, "", "")


def test_tail_for_people_with_filters(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    log.append(name, new(b"old", key=b"ann"))
    with started("topic", "tail", f"{name}/0", "--key", "ann") as tail:
        assert next_line(tail).endswith("  ann  old\n")
        log.append(name, new(b"other", key=b"bob"))
        log.append(name, new(b"new", key=b"ann"))
        assert next_line(tail).endswith("  ann  new\n")
        assert end(tail) == (130, "", "")


def test_tail_ends_when_the_topic_is_deleted(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    log.append(name, new(b"a"))
    with started("topic", "tail", name) as tail:
        next_line(tail)
        log.delete_topic(name)
        _, err = tail.communicate(timeout=TIMEOUT_S)
    assert tail.returncode == 1
    assert err.startswith("error: ")
    assert f"'{name}'" in err


def test_a_terminal_shows_a_record_at_once(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    log.append(name, new(b"a"))
    leader, follower = pty.openpty()
    with started("topic", "tail", name, stdout=follower, text=False):
        os.close(follower)
        seen = b""
        while b"a\r\n" not in seen:
            seen += os.read(leader, 1000)
        log.append(name, new(b"bb"))
        while b"bb\r\n" not in seen:
            seen += os.read(leader, 1000)
    os.close(leader)


# The follower itself, with the moments of its rounds chosen.


class Rounds:
    """Acts between the rounds, and an end after the last."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self._acts = iter(acts)

    def __call__(self) -> None:
        next(self._acts)()


def followed(follower: TopicFollower, *acts: Callable[[], object]) -> list[bytes | None]:
    seen: list[bytes | None] = []
    with suppress(RuntimeError):  # no acts are left
        for record in follower.follow(Rounds(*acts)):
            seen.append(record.value)
    return seen


def test_the_last_of_a_topic_with_holes(log: Log, name: str) -> None:
    topic = log.create_topic(name, 1)
    producer = log.producer(f"p-{name}")
    for n in range(12):  # on Kafka each leaves an offset that holds nothing
        with producer.transaction() as transaction:
            transaction.append(name, new(b"%d" % n))
    producer.close()
    wait_for_values(log, name, *(b"%d" % n for n in range(12)))
    assert [record.value for record in TopicFollower(log, topic).last(9)] == [b"%d" % n for n in range(3, 12)]
    assert [record.value for record in TopicFollower(log, topic).last(100)] == [b"%d" % n for n in range(12)]
    assert TopicFollower(log, topic).last(0) == []


def test_records_that_were_deleted_before_they_could_be_shown(
    log: Log, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = log.create_topic(name, 1)

    def act() -> None:
        log.append(name, new(b"a", b"b", b"c"))
        log.delete_before(name, {0: 2})

    assert followed(TopicFollower(log, topic), act, lambda: None) == [b"c"]
    said = f"{name}/0: the records from 0 to before 2 are deleted already\n"
    assert capsys.readouterr().err == said


def test_a_topic_that_is_made_again_is_another(log: Log, name: str) -> None:
    topic = log.create_topic(name, 1)

    def act() -> None:
        log.delete_topic(name)
        log.create_topic(name, 1)

    with pytest.raises(TopicReplaced):
        followed(TopicFollower(log, topic), act, lambda: None)


QUESTIONS = ("topic", "starts", "ends", "read")


class Deletion:
    """Another program deletes a topic when a log has given so many answers, and perhaps makes it again, smaller."""

    def __init__(self, log: Log, other: Log, topic: str, *, after: int, makes_again: bool) -> None:
        self._other = other
        self._topic = topic
        self._left = after
        self._makes_again = makes_again
        self.is_done = False
        for each in QUESTIONS:
            setattr(log, each, self._watched(getattr(log, each)))

    def _watched(self, question: Callable[..., object]) -> Callable[..., object]:
        def asked(*given: object) -> object:
            answer = question(*given)
            if self._left == 0 and not self.is_done:
                self.is_done = True
                self._other.delete_topic(self._topic)
                if self._makes_again:
                    self._other.create_topic(self._topic, 1)
            self._left -= 1
            return answer

        return asked

    def call_off(self) -> None:
        """If it has not come by now, it does not come any more."""
        self._left = -1


def all_of(follower: TopicFollower, *acts: Callable[[], object]) -> TopicReplaced | None:
    """What ends a follower that shows the last record and then waits for others."""
    try:
        follower.last(1)
        followed(follower, *acts)
    except TopicReplaced as error:
        return error
    return None


@pytest.mark.parametrize("makes_again", [False, True])
def test_a_topic_may_be_deleted_between_any_two_questions(
    make_log: Callable[..., Log], name: str, makes_again: bool
) -> None:
    other = make_log()
    for after in count():
        log, topic = make_log(timeout_s=3.0), other.create_topic(f"{name}-{after}", 2)
        other.append(topic.name, [NewRecord(b"old", partition=1)])
        follower = TopicFollower(log, topic, 1)
        deletion = Deletion(log, other, topic.name, after=after, makes_again=makes_again)

        def append(topic: str = topic.name, deletion: Deletion = deletion) -> None:
            if not deletion.is_done:
                other.append(topic, [NewRecord(b"new", partition=1)])

        end = all_of(follower, append, lambda: None, deletion.call_off, lambda: None)
        if not deletion.is_done:
            break
        assert end is not None, f"deleted after {after} answers, and not noticed"
        assert (end.id, bool(end.found)) == (topic.id, makes_again)
    assert after > len(QUESTIONS)


def test_an_outage_is_told_once_and_nothing_is_missed(
    log: Log, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = log.create_topic(name, 1)
    whole = log.read

    def away(*_: object) -> dict[int, int]:
        raise LogUnavailable("gone fishing")

    def cut_off(*where: object) -> object:
        yield from islice(whole(*where), 1)  # type: ignore[arg-type]
        raise LogUnavailable("gone fishing")

    acts: list[Callable[[], object]] = [
        lambda: (log.append(name, new(b"a", b"b", b"c")), monkeypatch.setattr(log, "read", cut_off)),
        lambda: monkeypatch.setattr(log, "ends", away),
        lambda: None,
        monkeypatch.undo,
        lambda: log.append(name, new(b"d")),
        lambda: None,
    ]
    assert followed(TopicFollower(log, topic), *acts) == [b"a", b"b", b"c", b"d"]
    waiting, _ = capsys.readouterr().err.splitlines()
    assert "gone fishing" in waiting
