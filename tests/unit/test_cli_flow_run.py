"""What `towpath run` says: at every move, while it runs, at its end; and how a project is made. Without Spark."""

from __future__ import annotations

import io
import random
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from rich.console import Console
from tests.support.cli import CommandLine

from towpath.cli.flows import run
from towpath.cli.flows import views as flow_words
from towpath.cli.flows.screen import RunTally, java_output_to
from towpath.cli.flows.views import StageLine, picture
from towpath.cli.progress import SignalHandler
from towpath.core.events import Event, EventKind
from towpath.flow.failures import MEANINGS, ErrorCode
from towpath.flow.stage import RetryWaits, StageMachine, StageState, StageTrouble, move_event
from towpath.testing.clock import wait_until

if TYPE_CHECKING:
    from towpath.flow.run.flow_run import FlowRun

FLOW = """
from towpath import Flow, topic, files
flow = Flow("shop")
@flow.each(topic("events"))
def priced(event): return event
flow.load(priced, files("results"))
"""
COUNTS = {"read": 4, "loaded": 1, "filtered": {"priced": 1}, "failed": {"9": 1, "10": 1}, "delivered": {"files": 1}}


def machine() -> StageMachine:
    return StageMachine.new(0).started(0)


def failing() -> StageMachine:
    trouble = StageTrouble(ErrorCode.SINK_FAILED, "index views", "503: try later")
    return machine().failed(trouble, 0, RetryWaits(30.0, 60.0, random.Random(1)))


def drawn(*stages: StageLine, now: int = 0, height: int = 24) -> list[str]:
    console = Console(width=80, height=height, record=True, file=io.StringIO())
    console.print(picture(stages, now, height))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_every_code_has_its_meaning() -> None:
    assert set(MEANINGS) == set(ErrorCode)


def test_the_picture_fits_on_a_terminal_of_80_columns() -> None:
    partitions = [{"topic": "events", "partition": n, "position": 5, "end": 5 + n, "lag": n} for n in range(40)]
    sample = {"partitions": partitions, "lag": 1_000_000, "rate": 12_345.6}
    counts = {"read": 12_345_678, "loaded": 12_345_000, "filtered": 600, "failed": 78}
    lines = drawn(StageLine("events", failing(), sample, counts), now=3_000_000)
    assert lines[0].split() == ["stage", "state", "for", "rate/s", "lag", "loaded", "filtered", "failed"]
    assert " ".join(lines[1].split()) == "events retry 3s 12,345.6 1,000,000 12,345,000 600 78"
    assert re.fullmatch(r"events: .*\bcode 11\b.*…", lines[2])
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert [lines[-2].split()[0], lines[-1].split()[:3]] == ["events/39", ["and", "25", "more"]]


def test_a_stage_with_nothing_to_read_is_idle() -> None:
    waiting = machine().moved(StageState.EXTRACT, 0)
    assert drawn(StageLine("events", waiting, {"lag": 0}, {}))[1].split()[:2] == ["events", "idle"]
    assert drawn(StageLine("events", waiting, {"lag": 3}, {}))[1].split()[:2] == ["events", "extract"]


def test_a_line_for_each_memorable_move_only() -> None:
    before, idle = machine(), machine().moved(StageState.EXTRACT, 0)
    told = flow_words.moved_text(move_event("shop", "events", before, failing()))
    assert re.fullmatch(r"shop/events: configure → retry, code 11 .*503: try later", told)
    everyday = move_event("shop", "events", idle, idle.moved(StageState.TRANSFORM, 0))
    assert flow_words.moved_text(everyday) == ""
    halted = idle.rested(StageState.HALTED, "why", 0)
    assert flow_words.moved_text(move_event("shop", "events", idle, halted)).endswith("→ halted: why")


def ended(monkeypatch: pytest.MonkeyPatch, end: StageMachine) -> None:
    """A run that is over at once: two batches, and this end."""

    def play(
        runtime: Any, flow: Any, until_idle: bool, tally: RunTally, metrics: int | None
    ) -> dict[str, StageMachine]:
        for number in range(2):
            tally(Event(EventKind.BATCH_COMMITTED, "shop/events", data={"batch_id": number, **COUNTS}))
        return {"events": end}

    monkeypatch.setattr(run, "run_flow", play)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr("towpath.flow.flow.FlowFile.take_along", lambda self: "")
    path = tmp_path / "a_shop.py"
    path.write_text(FLOW)
    return path


def test_the_end_tells_where_every_record_went(
    shop: Path, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(monkeypatch, machine().rested(StageState.STOPPED, "Ctrl-C", 0))
    ran = command.ok("--database", "sqlite:///t.db", "run", shop)
    assert ran.lines[1].split() == ["events", "stopped", "8", "2", "2", "4", "2", "Ctrl-C"]
    failed = ran.lines.index("failed")
    assert [line.split()[:2] for line in ran.lines[failed + 2 : failed + 4]] == [["2", "9"], ["2", "10"]]
    assert any(line.endswith(" --database sqlite:///t.db topic read shop.errors -n 10") for line in ran.lines)
    found = command.ok("--database", "sqlite:///t.db", "run", shop, "--json").json
    assert found["stages"][0]["failed_by_code"] == {"9": 2, "10": 2}
    [stage] = found["stages"]
    assert stage["read"] == stage["loaded"] + stage["filtered"] + stage["failed"]


def test_a_halt_is_a_failure_with_its_reason_and_the_way_on(
    shop: Path, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(monkeypatch, machine().rested(StageState.HALTED, "the checkpoint is not the ledger's", 0))
    ran = command("run", shop)
    assert ran.code == 1
    assert "the checkpoint is not the ledger's" in ran.out
    assert "towpath flow resume shop events --why" in ran.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "missing.py"], 1, "missing.py"),
        (["run"], 2, "TARGET"),
        (["--config", "none.toml", "run", "a_shop.py"], 3, "none.toml"),
        (["--database", "sqlite:///none/none.db", "run", "a_shop.py"], 3, "/none "),
        (["run", "a_shop.py", "--name", "no good"], 3, "process.name"),
        (["run", "a_shop.py", "--until-idle"], 1, "'events'"),
        (["flow", "graph", "a_shop.py", "--json", "--mermaid"], 2, "one of them"),
        (["init", "new", "--name", "no good"], 2, "letters"),
        (["init", "a_shop.py"], 2, "a_shop.py"),
    ],
)
def test_what_is_refused(words: list[str], code: int, said: str, shop: Path, command: CommandLine) -> None:
    command(*words).refused(code, said)


def test_the_graph(shop: Path, command: CommandLine) -> None:
    assert command.ok("flow", "graph", shop).lines == [
        "shop",
        "└─ topic events (no schema)",
        "   └─ priced (each record)",
        "      └─ ▶ files results",
    ]
    assert command.ok("flow", "graph", "a_shop:flow", "--mermaid").lines[0] == "flowchart LR"
    [stage] = command.ok("flow", "graph", "a_shop", "--json").json["stages"]
    assert stage["topology"]["topics"] == ["events"]


def test_a_new_project_overwrites_nothing(shop: Path, command: CommandLine, tmp_path: Path) -> None:
    ran = command.ok("init", "My Shop!")
    made = {path.name for path in (tmp_path / "My Shop!").iterdir()}
    assert made == {".gitignore", "README.md", "events.jsonl", "flow.py", "test_flow.py", "towpath.toml"}
    assert 'flow = Flow("My-Shop")' in (tmp_path / "My Shop!" / "flow.py").read_text()
    assert ran.out.splitlines()[-1] == "  cd 'My Shop!'"
    assert "@name@" not in "".join(path.read_text() for path in (tmp_path / "My Shop!").iterdir())

    half = tmp_path / "half"
    half.mkdir()
    (half / "flow.py").write_text("mine")
    command("init", half).refused(1, "flow.py")
    assert [path.read_text() for path in half.iterdir()] == ["mine"]


class Running:
    """A flow that only remembers why it was stopped."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def stop(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.mark.parametrize(("first", "reason"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_the_first_signal_ends_it_after_the_batch_and_the_second_at_once(
    first: signal.Signals, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[object] = []
    monkeypatch.setattr("os._exit", left.append)
    running, before = Running(), signal.getsignal(signal.SIGINT)
    with SignalHandler(lambda: left.append("told")) as stopping:
        stopping.of(cast("FlowRun", running))
        signal.raise_signal(first)
        assert [stopping.news(), stopping.news()] == [True, False]
        assert (running.reasons, left) == ([reason], [])
        signal.raise_signal(signal.SIGINT)
    assert (running.reasons, left) == ([reason], ["told", 130])
    assert signal.getsignal(signal.SIGINT) is before


def test_before_the_flow_runs_a_signal_is_an_interruption() -> None:
    with pytest.raises(KeyboardInterrupt), SignalHandler(lambda: None):
        signal.raise_signal(signal.SIGTERM)


def test_what_java_prints_comes_line_by_line_and_not_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    with java_output_to(said.append):
        subprocess.run("echo out; echo err >&2; echo 'WARNING: Using incubator modules: x' >&2", shell=True, check=True)  # noqa: S602
    wait_until(lambda: sorted(said) == ["err", "out"], what="both lines")
    assert capfd.readouterr() == ("", "")
