"""`make simulate`: play many seeds, and the broken twins, and say what was found."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import Pool

from simulation.run import Outcome, run
from simulation.twins import Twin

SEEDS = 1000
TWIN_SEEDS = 100
SAY_EVERY_S = 10.0
CHUNK = 20

Job = tuple[int, int]


def main(arguments: list[str] | None = None) -> int:
    """0: no rule was broken, and every broken twin was caught."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    sizes = [int(size) for size in asked.peers.split(",")]
    if min(sizes) < 2:
        parser.error("a coordinator dies in every run: it takes at least 2 peers")
    if asked.seed is not None:
        return _replay(asked.seed, sizes[0], asked.twin)
    jobs = [(seed, size) for seed in range(asked.first, asked.first + asked.seeds) for size in sizes]
    if asked.twin is not None:
        return 0 if _catch(asked.twin, jobs, asked.jobs) else 1
    is_sound = _play(jobs, asked.jobs)
    twin_jobs = [(seed, size) for seed in range(TWIN_SEEDS) for size in sizes]
    are_caught = [_catch(twin, twin_jobs, asked.jobs) for twin in Twin]
    return 0 if is_sound and all(are_caught) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many seeds (default {SEEDS})")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--peers", default="3,5,7", help="numbers of peers; each seed is played with each (3,5,7)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once (default: one a core)")
    parser.add_argument("--twin", type=Twin, choices=list(Twin), help="play only this broken twin")
    parser.add_argument("--seed", type=int, help="replay this one, with the first number of peers, and tell all of it")
    return parser


def _replay(seed: int, size: int, twin: Twin | None) -> int:
    outcome = run(seed, size, twin, trace=print)
    print(outcome.violation or "no rule was broken")
    return 1 if outcome.violation else 0


def _play(jobs: list[Job], processes: int) -> bool:
    """Whether no rule was broken."""
    began, cpu = time.monotonic(), _cpu_s()
    outcomes = list(_said(_outcomes(jobs, None, processes), len(jobs)))
    took_s, cpu_s = time.monotonic() - began, _cpu_s() - cpu
    broken = [outcome for outcome in outcomes if outcome.violation]
    print(
        f"{len(outcomes)} runs, {sum(o.virtual_s for o in outcomes) / 3600:.1f} virtual hours, "
        f"{sum(o.deaths for o in outcomes)} deaths, {sum(o.terms for o in outcomes)} terms, "
        f"in {took_s:.0f} s ({len(outcomes) / took_s:.0f} runs/s; {len(outcomes) / max(cpu_s, 0.01):.0f} a core)"
    )
    print(
        f"one group after healing: {_figures([o.healed_in_s for o in outcomes])}; "
        f"another acts after a coordinator's death: {_figures([o.taken_over_in_s for o in outcomes])}"
    )
    print(f"{len(broken)} runs broke a rule")
    return not broken


def _catch(twin: Twin, jobs: list[Job], processes: int) -> bool:
    """Whether the checks have caught a broken twin."""
    caught = [outcome for outcome in _outcomes(jobs, twin, processes) if outcome.violation]
    print(f"twin {twin}: caught in {len(caught)} of {len(jobs)} runs" + ("" if caught else ", so the checks are blind"))
    if caught:
        first = min(caught, key=lambda outcome: (outcome.seed, outcome.size))
        print(f"  --twin {twin} --seed {first.seed} --peers {first.size}: {first.violation}")
    return bool(caught)


def _outcomes(jobs: list[Job], twin: Twin | None, processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from (_run(job, twin) for job in jobs)
        return
    with Pool(processes) as pool:
        yield from pool.imap_unordered(partial(_run, twin=twin), jobs, CHUNK)


def _run(job: Job, twin: Twin | None) -> Outcome:
    return run(*job, twin)


def _said(outcomes: Iterator[Outcome], total: int) -> Iterator[Outcome]:
    """The same, with a line now and then, and for each violation at once."""
    said_at = time.monotonic()
    for done, outcome in enumerate(outcomes, 1):
        yield outcome
        if outcome.violation:
            print(f"  --seed {outcome.seed} --peers {outcome.size}: {outcome.violation}", flush=True)
        if time.monotonic() - said_at > SAY_EVERY_S:
            said_at = time.monotonic()
            print(f"  {done} of {total} runs", flush=True)


def _figures(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"median {ordered[len(ordered) // 2]:.1f} s, longest {ordered[-1]:.1f} s"


def _cpu_s() -> float:
    """Of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    sys.exit(main())
