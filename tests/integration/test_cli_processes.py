"""The command line as real processes: following, Ctrl-C, closed pipes, the editor, two at once."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import TIMEOUT_S, TOWPATH, next_line, started

from towpath.queue import MessageState
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], variables: dict[str, str]) -> Runtime:
    runtime = make_runtime()
    runtime.queue.inbox("prices")
    return runtime


def run(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*TOWPATH, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, **options)


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Ctrl-C, and what was left to say."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, err


def test_as_a_program(runtime: Runtime) -> None:
    sent = run("queue", "send", "prices", "quote", '{"n": 1}', "--why", "try")
    assert (sent.returncode, sent.stderr) == (0, "")
    assert sent.stdout.startswith("sent ")
    listed = run("queue", "list", "--json")
    assert json.loads(listed.stdout)["items"][0]["payload"] == {"n": 1}
    failed = run("queue", "list", "--inbox", "nope")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("error: ")
    assert "'nope'" in failed.stderr


def test_tail_shows_the_last_then_each_new_one_until_ctrl_c(runtime: Runtime) -> None:
    runtime.queue.inbox("other")
    outbox = runtime.queue.outbox("shop")
    ids = [outbox.notice("prices", "quote", {"n": n}) for n in range(3)]
    with started("queue", "tail", "--inbox", "prices", "--last", 2, "--json") as tail:
        shown = [json.loads(next_line(tail)) for _ in range(2)]
        outbox.notice("other", "quote")
        ids.append(outbox.notice("prices", "quote", {"n": 3}))
        shown.append(json.loads(next_line(tail)))
        assert [item["id"] for item in shown] == ids[1:]
        assert end(tail) == (130, "", "")


def test_tail_of_everything_for_people(runtime: Runtime) -> None:
    outbox = runtime.queue.outbox("shop")
    first = outbox.notice("prices", "quote", {"n": "\x9b31m"})
    with started("queue", "tail") as tail:
        assert next_line(tail).split()[1:] == [first, "NEW", "prices", "quote", '{"n":"\\x9b31m"}']
        runtime.queue.inbox("other")
        ids = outbox.notice_many("other", "quote", range(1200))
        assert [next_line(tail).split()[1] for _ in ids] == ids
        assert end(tail) == (130, "", "")


def test_follow_events(runtime: Runtime) -> None:
    message = runtime.queue.outbox("shop").notice("prices", "quote")
    operator = runtime.queue.operator("ann")
    operator.set_state(message, MessageState.DEAD, "first")
    words = ["event", "follow", "--last", 1, "--subject", message, "--json"]
    with started(*words) as follow:
        assert json.loads(next_line(follow))["why"] == "first"
        operator.send("prices", "quote", None, "about another message")
        operator.set_state(message, MessageState.NEW, "second")
        assert json.loads(next_line(follow))["why"] == "second"
        assert end(follow) == (130, "", "")


def test_in_the_background_of_a_shell_sigterm_ends_it(runtime: Runtime) -> None:
    """There SIGINT is ignored from the start, and whoever presses Ctrl-C means another program."""
    outbox = runtime.queue.outbox("shop")
    ids = [outbox.notice("prices", "quote")]
    with started("queue", "tail", "--json", inherited=signal.SIG_IGN) as tail:
        shown = [json.loads(next_line(tail))["id"]]
        tail.send_signal(signal.SIGINT)
        ids.append(outbox.notice("prices", "quote"))
        shown.append(json.loads(next_line(tail))["id"])
        assert shown == ids
        tail.send_signal(signal.SIGTERM)
        assert tail.communicate(timeout=TIMEOUT_S) == ("", "")
        assert tail.returncode == -signal.SIGTERM


def test_a_reader_that_goes_away_is_no_error(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    # Unbuffered, Python itself overlooks that a long write was cut short.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    runtime.queue.outbox("shop").notice_many("prices", "quote", [{"text": "x" * 200}] * 2000)
    with started("queue", "list", "--limit", 2000, "--json") as listing:
        assert listing.stdout is not None
        listing.stdout.read(10)
        listing.stdout.close()
        assert listing.stderr is not None
        assert listing.stderr.read() == ""
        assert listing.wait(TIMEOUT_S) == 141


def test_sending_wakes_a_reader_in_another_process(runtime: Runtime) -> None:
    """The command ends right after its commit: the ring must be out by then."""
    seen: list[str] = []
    worker = runtime.queue.synchronous("prices")
    worker.on("quote")(lambda message: seen.append(message.id))
    worker.start()
    sent = json.loads(run("queue", "send", "prices", "quote", "--why", "try", "--json").stdout)["id"]
    wait_until(lambda: seen == [sent])
    worker.stop()


def editor(tmp_path: Path, script: str) -> str:
    """A program that edits the file it is given, as a person would."""
    program = tmp_path / "editor"
    program.write_text(f"#!{sys.executable}\nimport sys, json, pathlib\nfile = pathlib.Path(sys.argv[1])\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


@contextmanager
def terminal() -> Iterator[int]:
    ours, theirs = pty.openpty()
    try:
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


def edit_with(tmp_path: Path, script: str, message: str) -> subprocess.CompletedProcess[str]:
    # Scratch files of the editor go where the test can look for what is left of them.
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    environment = {**os.environ, "EDITOR": editor(tmp_path, script), "TMPDIR": str(scratch)}
    environment.pop("VISUAL", None)
    with terminal() as stdin:
        return run("queue", "edit", message, "--why", "typo", "--who", "ann", stdin=stdin, env=environment)


def test_the_editor(runtime: Runtime, tmp_path: Path) -> None:
    message = runtime.queue.outbox("shop").notice("prices", "quote", {"n": 12345678901234567890}, headers={"a": "1"})
    script = """
text = json.loads(file.read_text())
text["payload"]["n"] += 1
text["headers"]["b"] = 2
file.write_text(json.dumps(text))"""
    assert edit_with(tmp_path, script, message).returncode == 0
    found = runtime.queue.browser().message(message)
    assert (found.payload, found.headers) == ({"n": 12345678901234567891}, {"a": "1", "b": 2})
    assert not list((tmp_path / "scratch").glob("towpath-edit-*"))


@pytest.mark.parametrize(
    ("script", "said", "is_kept"),
    [
        ("", "nothing was changed in the editor", False),
        ("sys.exit(3)", "ended with code 3", False),
        ("file.write_text('{bad')", "the edited text is not JSON", True),
        ("file.write_text('[]')", "must be", True),
        ("""file.write_text('{"payload": "\\\\u0000", "headers": {}}')""", "NUL", True),
    ],
)
def test_an_edit_that_cannot_be_taken_is_not_lost(
    script: str, said: str, is_kept: bool, runtime: Runtime, tmp_path: Path
) -> None:
    message = runtime.queue.outbox("shop").notice("prices", "quote", {"n": 1})
    before = runtime.queue.browser().message(message)
    done = edit_with(tmp_path, script, message)
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
    assert runtime.queue.browser().message(message) == before
    kept = list((tmp_path / "scratch").glob("towpath-edit-*"))
    assert (len(kept) == 1) == is_kept
    assert all(str(file) in done.stderr for file in kept)


def test_who_edits_what_another_has_changed_meanwhile_is_refused(runtime: Runtime, tmp_path: Path) -> None:
    message = runtime.queue.outbox("shop").notice("prices", "quote", {"n": 1})
    script = f"""
import subprocess
other = [{sys.executable!r}, "-m", "towpath", "queue", "edit", {message!r}, "--payload", "2", "--why", "x"]
subprocess.run(other, check=True)
file.write_text('{{"payload": 3, "headers": {{}}}}')"""
    done = edit_with(tmp_path, script, message)
    assert done.returncode == 1
    assert "kept in" in done.stderr
    assert runtime.queue.browser().message(message).payload == 2
