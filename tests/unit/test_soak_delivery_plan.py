"""Who is struck when: the same for the same seed, and as many as asked for."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tomllib
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from soak.delivery import tree
from soak.delivery.plan import Plan, Target, counts
from soak.delivery.records import Kind, kind_of, values
from soak.delivery.settings import as_toml, sections

from towpath.testing.clock import wait_until


def test_a_seed_can_be_given_again() -> None:
    plan = Plan(kills=200, seconds=1500, seed=7)
    assert plan.strikes() == plan.strikes()
    assert plan.strikes() != Plan(kills=200, seconds=1500, seed=8).strikes()


@given(kills=st.integers(1, 2000), seed=st.integers(0, 10**6))
def test_as_many_kills_as_asked_for(kills: int, seed: int) -> None:
    struck = [strike.target for strike in Plan(kills, 100, seed).strikes()]
    assert sum(target is not Target.SLEEPER for target in struck) == kills
    assert all(counts(kills)[target] == struck.count(target) for target in Target)


def test_two_hundred_are_of_every_kind() -> None:
    assert counts(200) == {
        Target.WORKER: 100,
        Target.DRIVER: 60,
        Target.POSTGRES: 24,
        Target.KAFKA: 16,
        Target.SLEEPER: 10,
    }


def test_the_pauses_take_about_the_time_of_the_plan() -> None:
    strikes = Plan(kills=200, seconds=1500, seed=1).strikes()
    assert sum(strike.after_s for strike in strikes) == pytest.approx(1500, rel=0.2)
    assert sum(strike.is_at_once for strike in strikes) > 20


def test_a_records_kind_is_seen_by_its_text() -> None:
    some = list(islice(values(seed=3), 400))
    assert some == list(islice(values(seed=3), 400))
    assert [number for number, _ in some] == list(range(400))
    for _, value in some:
        kind = kind_of(value)
        assert kind is Kind.BROKEN or json.loads(value)["kind"] == kind
    assert {kind_of(value) for _, value in some} == set(Kind)


def test_the_settings_are_readable_as_a_file(tmp_path: Path) -> None:
    given = sections(tmp_path, "postgresql://towpath@127.0.0.1:1/postgres", "kafka://127.0.0.1:2")
    assert tomllib.loads(as_toml(given)) == given


def test_descendants_are_found_and_signalled() -> None:
    shell = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"],
        stdin=subprocess.PIPE,
    )
    try:
        [child] = wait_until(lambda: tree.descendants(shell.pid), 30)
        tree.send([child], signal.SIGKILL)
        wait_until(lambda: not tree.is_alive(child), 30)
        assert shell.wait(30) == 0
        assert tree.descendants(shell.pid) == []
    finally:
        shell.kill()
        shell.communicate()
