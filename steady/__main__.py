"""`make steady N=20`: exits 1 when a test has failed, or a round was void.

python -m steady [--rounds 20] [--home DIRECTORY] [-- arguments for pytest, in place of the set]
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from steady.book import ROUND_S, Book, Outcome, commit, home_of, table
from steady.preload import NoCompiler
from steady.round import ROOT, Load, Round

INTERRUPTED = 130


def main() -> None:
    given = _arguments()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so would pytest
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception: all processes are ended with it
    try:
        holds = _repeat(given, console) if given.repeat is not None else _rounds(given, console)
    except (NoCompiler, ValueError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        console.print("interrupted; the same command goes on with this round")
        sys.exit(INTERRUPTED)
    sys.exit(0 if holds else 1)


def _arguments() -> argparse.Namespace:
    load = Load()
    parser = argparse.ArgumentParser(
        prog="python -m steady", description="The tests of real time and of processes, on a machine in trouble."
    )
    parser.add_argument(
        "--rounds", type=int, default=20, help="how many in all, with those of earlier sittings (%(default)s)"
    )
    parser.add_argument("--seed", type=int, help="of all rounds; printed, to be given again")
    parser.add_argument("--repeat", type=int, metavar="SEED", help="only the round with this seed")
    parser.add_argument("--home", type=Path, help="where results are kept (.cache/steady/COMMIT)")
    parser.add_argument("--busy", type=int, default=load.busy, help="processes that keep cores busy (%(default)s)")
    parser.add_argument("--delay-ms", type=int, default=load.delay_ms, help="by which fsync is delayed (%(default)s)")
    parser.add_argument("--pause", type=float, default=load.pause_s, help="seconds between two stops (%(default)s)")
    parser.add_argument("pytest", nargs="*", help="after --: for pytest, in place of the set")
    return parser.parse_args()


def _rounds(given: argparse.Namespace, console: Console) -> bool:
    now = commit(ROOT)
    book = Book(given.home or home_of(ROOT, now, given.pytest), given.pytest, now, given.seed)
    load = _load(given)
    done = len(book.rounds)
    console.print(f"seed {book.seed}, commit {now}" + (f", {done} rounds were run before" if done else ""))
    while len(book.rounds) < given.rounds:
        number, seed = book.next()
        outcome = Round(seed, book.home, f"round-{number:02}", given.pytest, load).run(number)
        book.add(outcome)
        _say(outcome, given, console)
    holds, path = book.close(given.rounds)
    console.print(table(book.rounds))
    console.print(f"{'✓' if holds else '✗'} {len(book.rounds)} rounds; all figures: {path}")
    return holds


def _repeat(given: argparse.Namespace, console: Console) -> bool:
    home = given.home or Path(tempfile.mkdtemp(prefix="steady-round-"))
    home.mkdir(parents=True, exist_ok=True)
    outcome = Round(given.repeat, home, "round", given.pytest, _load(given)).run(1)
    _say(outcome, given, console)
    if outcome.holds and given.home is None:
        shutil.rmtree(home, ignore_errors=True)
    return outcome.holds


def _load(given: argparse.Namespace) -> Load:
    return Load(given.busy, given.delay_ms, given.pause)


def _say(outcome: Outcome, given: argparse.Namespace, console: Console) -> None:
    console.print(f"{'✓' if outcome.holds else '✗'} {outcome.line}")
    if outcome.took_s > ROUND_S:
        console.print(f"  longer than {ROUND_S // 60} minutes: the set has grown too large, or other things run here")
    for problem in outcome.problems:
        console.print(f"  {problem}", style="red")
    if not outcome.holds:
        words = [".venv/bin/python", "-m", "steady", "--repeat", str(outcome.seed)]
        words += [f"--busy={given.busy}", f"--delay-ms={given.delay_ms}", f"--pause={given.pause:g}"]
        console.print(f"  output: {outcome.output}")
        console.print(f"  again:  {shlex.join([*words, '--', *given.pytest] if given.pytest else words)}")


if __name__ == "__main__":
    main()
