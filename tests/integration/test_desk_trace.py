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
    assert now()[0] == "failed"
    life.take()
    (case,) = life.all_cases()
    assert now()[0] == "open"
    life.replay([case])
    place, told = now()
    assert place == "replaying"
    assert "attempt 2 " in told
    life.relay()
    place, told = now()
    assert place == "replaying"
    assert "attempt 2;" in told
    life.run_batch("failed")
    life.take()
    life.replay(life.all_cases(), delay_s=3600)
    place, told = now()
    assert place == "waiting"
    assert "lane 0 " in told
    assert "attempt 3 " in told
    life.relay()
    life.release()
    life.run_batch("loaded")
    life.take()
    place, told = now()
    assert place == "loaded"
    assert "attempt 3 " in told
    lines = command.ok("trace", "clicks/0/0", "--flow", FLOW).lines
    story = [
        *("arrived", "batch 0 ", "code 9 ", "batch 0 ", "case 1", "ann", "code 9 "),
        *("towpath", "ann", "towpath", "towpath", "attempt 3"),
    ]
    assert [part for part, line in zip(story, lines[1:], strict=True) if part not in line] == []


def test_by_number_and_by_correlation_id(life: Life, command: CommandLine) -> None:
    life.send("loaded", "failed")
    life.run_batch()
    life.take()
    (case,) = life.all_cases()
    found = [command.ok("trace", "--case", text, "--flow", FLOW, "--json").json for text in (str(case.seq), case.id)]
    assert found[0] == found[1]
    assert [(item["offset"], item["cases"][0]["id"]) for item in found[0]["items"]] == [(1, case.id)]
    command("trace", "--case", "999", "--flow", FLOW).refused(1, "'999'")
    command("trace", "clicks/0/1", "--case", "1", "--flow", FLOW).refused(2, "--case")


def test_what_a_person_has_given_up(life: Life, command: CommandLine) -> None:
    life.send("failed")
    life.run_batch()
    life.take()
    life.abandon(life.all_cases())
    (item,) = command.ok("trace", "clicks/0/0", "--flow", FLOW, "--json").json["items"]
    assert item["place"] == "abandoned"
    assert "ann: test data" in item["now"]
    assert command.ok("audit", FLOW, "--json").json["places"] == {"abandoned": 1}
