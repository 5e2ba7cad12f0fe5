"""`towpath upload`: what operators see of uploads, and do about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.cli import CommandLine
from tests.support.given_results import OWNER, RESULTS_STREAM, closing_upload, give
from tests.support.tables import events, rows

from towpath.gateway.uploads.model import SenderRequest
from towpath.gateway.uploads.store import UploadStore
from towpath.runtime import Runtime
from towpath.settings import load

NOBODY = "00000000-0000-0000-0000-000000000000"
LINES = b'{"n": 1}\nnonsense\n'

Towpath = Callable[..., CommandLine]


@pytest.fixture
def runtime(variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """With the stream `trips`; its log is a file, whatever the database is."""
    monkeypatch.setenv("TOWPATH_LOG__URL", f"sqlite:///{tmp_path}/topics.db")
    monkeypatch.setenv("TOWPATH_GATEWAY__DIRECTORY", str(tmp_path / "uploads"))
    config = tmp_path / "towpath.toml"
    config.write_text(RESULTS_STREAM)
    monkeypatch.chdir(tmp_path)
    return Runtime(load())


@pytest.fixture
def upload(runtime: Runtime) -> str:
    """One that has sent two lines, of which one is none."""
    gateway = runtime.gateway
    found = gateway.open("trips", [SenderRequest("trips", "trips", "jsonl")], owner=OWNER, label="tuesday").upload.id
    session = gateway.session(found, "trips", owner=OWNER).session
    gateway.take(found, "trips", owner=OWNER, session=session, offset=0, sequence=1, data=LINES)
    return found


def test_list_and_show(runtime: Runtime, upload: str, command: CommandLine) -> None:
    other = closing_upload(runtime)
    give(runtime, other, "fastest", [{"n": 1}])
    runtime.close()
    listed = command.ok("upload", "list", "--json").json
    assert [(each["id"], each["state"], each["owner"]) for each in listed["items"]] == [
        (other, "closing", OWNER),
        (upload, "receiving", OWNER),
    ]
    first = command.ok("upload", "list", "--limit", 1)
    assert first.lines[1].startswith(other)
    assert "--before" in first.lines[2]
    cursor = first.lines[2].split()[-1]
    assert upload in command.ok("upload", "list", "--before", cursor).out
    assert (
        command.ok("upload", "list", "--state", "receiving", "--stream", "trips", "--owner", OWNER).out.count("\n") == 2
    )
    assert command.ok("upload", "list", "--owner", "nobody").out.count("\n") == 1
    shown = command.ok("upload", "show", upload)
    assert "tuesday" in shown.out
    assert [line.split() for line in shown.lines if line.startswith("trips")] == [
        ["trips", "trips", "jsonl", "receiving", f"{len(LINES)}", "B", "2", "1", "0", "1"]
    ]
    as_json = command.ok("upload", "show", other, "--json").json
    assert [(each["query"], each["state"], each["rows"]) for each in as_json["results"]] == [
        ("fastest", "complete", 1),
        ("stops", "open", None),
    ]
    assert [each["state"] for each in as_json["senders"]] == ["finished"]


def test_abort(runtime: Runtime, upload: str, command: CommandLine) -> None:
    command("upload", "abort", upload, "--why", "a test").refused(2, "--yes")
    command.ok("upload", "abort", upload, "--why", "its client is gone", "--who", "ada", "--yes")
    found = runtime.gateway.status(upload, owner=None).upload
    assert (found.state, found.who, found.why) == ("aborted", "ada", "its client is gone")
    [trail] = rows(runtime.database, "access_audit")
    assert (trail["what"], trail["subject"], trail["outcome"]) == ("abort upload", upload, "done")
    assert len(events(runtime.database, "upload_aborted_by_hand")) == 1
    runtime.close()


def test_retry_a_closing_that_has_failed(runtime: Runtime, upload: str, command: CommandLine) -> None:
    other = closing_upload(runtime)
    with runtime.database.transaction() as tx:
        UploadStore(runtime.database).note_failure(tx, other, "the step fastest raised KeyError")
    assert "the step fastest raised KeyError" in command.ok("upload", "show", other).out
    command.ok("upload", "retry", other, "--why", "mended")
    found = runtime.gateway.status(other, owner=None).upload
    assert (found.tries, found.why) == (0, None)
    command("upload", "retry", upload, "--why", "mended").refused(1, "receiving")
    runtime.close()


@pytest.mark.parametrize("act", [("show",), ("abort", "--why", "x", "--yes"), ("retry", "--why", "x")])
def test_an_unknown_upload(act: tuple[str, ...], runtime: Runtime, command: CommandLine) -> None:
    command("upload", act[0], NOBODY, *act[1:]).refused(1, NOBODY)
    runtime.close()


def test_an_unknown_state(runtime: Runtime, command: CommandLine) -> None:
    command("upload", "list", "--state", "lost").refused(1, "receiving, closing, sending")
    runtime.close()
