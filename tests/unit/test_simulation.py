"""The simulator finds nothing in supervision, and everything that is left out of its broken twins."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from simulation.__main__ import main
from simulation.run import run
from simulation.twins import Twin

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(500_000, 500_080)  # others than those that one has tried by hand


@pytest.mark.parametrize("peers", [2, 3, 5, 7])
def test_no_seed_breaks_a_rule(peers: int) -> None:
    broken = [(seed, outcome.violation) for seed in SEEDS if (outcome := run(seed, peers)).violation]
    assert broken == []


@pytest.mark.parametrize(
    ("twin", "words"),
    [
        (Twin.NO_TERM_CHECK, "acts under term"),
        (Twin.NO_TIE_BREAK, "after the network healed"),
        (Twin.NO_BEAT_CHECK, "has beaten"),
    ],
)
def test_a_broken_twin_is_caught(twin: Twin, words: str) -> None:
    found = (outcome.violation for seed in range(100) if (outcome := run(seed, 3, twin)).violation)
    assert any(words in violation for violation in found)


def test_every_run_kills_and_elects() -> None:
    """A simulator without faults would find nothing either."""
    outcomes = [run(seed, 5) for seed in range(30)]
    assert all(outcome.deaths >= 2 and outcome.terms >= 2 for outcome in outcomes)
    assert sum(outcome.deaths for outcome in outcomes) > 100


def test_a_seed_replays_its_run_to_the_letter() -> None:
    """Also in another process, whose sets and dictionaries are in another order."""
    told: list[str] = []
    run(7, 5, trace=told.append)
    assert len(told) > 20
    script = "from simulation.run import run; run(7, 5, trace=print)"
    again = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert _hash(again.stdout.splitlines()) == _hash(told)


def test_the_command_replays_a_seed_and_tells_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "7", "--peers", "3"]) == 0
    told = capsys.readouterr().out
    assert "takes term 1" in told


def test_the_command_fails_when_a_twin_is_not_caught(capsys: pytest.CaptureFixture[str]) -> None:
    blind = next(seed for seed in range(100) if run(seed, 3, Twin.NO_TIE_BREAK).violation is None)
    seen = next(seed for seed in range(100) if run(seed, 3, Twin.NO_TIE_BREAK).violation)
    common = ["--twin", "no-tie-break", "--peers", "3", "--jobs", "1", "--seeds", "1", "--first"]
    assert main([*common, str(blind)]) == 1
    capsys.readouterr()
    assert main([*common, str(seen)]) == 0
    assert f"--seed {seen} --peers 3" in capsys.readouterr().out


def test_the_command_needs_two_peers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--peers", "1"])
    assert ended.value.code == 2
    assert "at least 2 peers" in capsys.readouterr().err


def _hash(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
