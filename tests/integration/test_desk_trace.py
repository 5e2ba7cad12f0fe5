"""`towpath trace` goes on where the flow ends: case, attempts, lane and due time, replay, outcome."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.audited import FLOW
from tests.support.cli import CommandLine
from tests.support.desk_life import Life
from tests.support.quiet import Quiet

from towpath.log import Log, open_log
from towpath.settings import LogSettings


@pytest.fixture
def log(quiet: Quiet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/log.db"
    monkeypatch.setenv("TOWPATH_LOG__URL", url)
    opened = open_log(LogSettings(url=url), quiet.database)
    yield opened
    opened.close()


@pytest.fixture
def life(quiet: Quiet, log: Log, variables: dict[str, str]) -> Life:
    return Life(quiet, log)


def test_the_way_of_a_case(life: Life, command: CommandLine) -> None:
    def now() -> tuple[str, str]:
        (item,) = command.ok("trace", "clicks/0/0", "--flow", FLOW, "--json").json["items"]
        return item["place"], item["now"]

    life.send("failed")
    life.run_batch()
    assert now() == ("failed", "failed: it lies in the error topic")
    life.take()
    (case,) = life.all_cases()
    assert now() == ("open", f"on the desk, in front of a person (case 1 of group {case.group_id})")
    life.replay([case])
    assert now() == ("replaying", "about to be sent back for attempt 2 (case 1)")
    life.relay()
    assert now() == ("replaying", "sent back for attempt 2; what became of it is not known yet (case 1)")
    life.run_batch("failed")
    life.take()
    life.replay(life.all_cases(), delay_s=3600)
    place, told = now()
    assert (place, told[:25]) == ("waiting", "waiting in lane 0 until 2")
    assert told.endswith("for attempt 3 (case 1)")
    life.relay()
    life.release()
    life.run_batch("loaded")
    life.take()
    assert now() == ("loaded", "loaded at attempt 3 (case 1)")
    lines = command.ok("trace", "clicks/0/0", "--flow", FLOW).lines
    story = [line[23:].split(":")[0].split(" (")[0] for line in lines[1:]]
    assert story == [
        "arrived",
        "read by batch 0 of generation 1",
        "failed with code 9 at label",
        "batch 0 of generation 1 was committed",
        "taken in as case 1",
        "replaying by ann",
        "attempt 2 failed with code 9 at label",
        "open by towpath",
        "waiting by ann",
        "replaying by towpath",
        "resolved by towpath",
        "loaded at attempt 3",
    ]


def test_by_number_and_by_correlation_id(life: Life, command: CommandLine) -> None:
    life.send("loaded", "failed")
    life.run_batch()
    life.take()
    (case,) = life.all_cases()
    found = [command.ok("trace", "--case", text, "--flow", FLOW, "--json").json for text in (str(case.seq), case.id)]
    assert found[0] == found[1]
    assert [(item["offset"], item["cases"][0]["id"]) for item in found[0]["items"]] == [(1, case.id)]
    command("trace", "--case", "999", "--flow", FLOW).refused(1, "no case has the id or number '999'")
    command("trace", "clicks/0/1", "--case", "1", "--flow", FLOW).refused(2, "--case says which record")


def test_what_a_person_has_given_up(life: Life, command: CommandLine) -> None:
    life.send("failed")
    life.run_batch()
    life.take()
    life.abandon(life.all_cases())
    (item,) = command.ok("trace", "clicks/0/0", "--flow", FLOW, "--json").json["items"]
    assert (item["place"], item["now"]) == ("abandoned", "abandoned by ann: test data (case 1)")
    assert command.ok("audit", FLOW, "--json").json["places"] == {"abandoned": 1}
