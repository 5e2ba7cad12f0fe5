"""`make verify`: the proof, in named parts. What was interrupted goes on where it stopped.

    python -m tests.verify [--part NAME] [--quick] [--seed N] [--state DIRECTORY] [--list] [-- arguments for pytest]

Results belong to the code as it is: after a change everything runs anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from tests.verify.parts import NAMES, PARTS, find
from tests.verify.report import Summary, show, tail
from tests.verify.run import PartRun

ROOT = Path(__file__).parents[2]
STATE = ROOT / ".cache" / "verify"


def main() -> int:
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception: servers and processes are ended with it
    console = Console(highlight=False, soft_wrap=True)
    if asked.list:
        for part in PARTS:
            console.print(f"{part.name:10} {part.about}")
        return 0
    state: Path = asked.state / _code() / _selection(asked.quick, asked.pytest)
    state.mkdir(parents=True, exist_ok=True)
    seed = _seed(state, asked.seed)
    console.print(f"seed {seed}, results in {state}")
    summary = Summary(seed, is_quick=asked.quick)
    for name in [asked.part] if asked.part else NAMES:
        run = PartRun(find(name), state / name, seed, is_quick=asked.quick, arguments=asked.pytest)
        result = run.go(console)
        summary.add(result)
        (state / f"{name}.json").write_text(json.dumps(result.as_json(), indent=2))
        tail(result, console)
    show(summary, console)
    (state / "summary.json").write_text(json.dumps(summary.as_json(), indent=2))
    console.print(f"for programs: {state / 'summary.json'}")
    return 0 if summary.is_good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.verify", description=__doc__.partition("\n")[0])
    parser.add_argument("--part", choices=NAMES, help="only this part")
    parser.add_argument("--quick", action="store_true", help="a sample of every part, in an hour")
    parser.add_argument("--seed", type=int, help="decides the order, and what is in a sample; printed")
    parser.add_argument("--state", type=Path, default=STATE, help="where results are kept (.cache/verify)")
    parser.add_argument("--list", action="store_true", help="say what the parts are")
    parser.add_argument("pytest", nargs="*", help="after --: for pytest, such as -k chain")
    return parser.parse_args()


def _code() -> str:
    """The commit, and what differs from it."""

    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout

    commit = git("rev-parse", "--short=12", "HEAD").decode().strip()
    others = git("ls-files", "--others", "--exclude-standard", "-z").split(b"\0")
    changed = git("diff", "HEAD") + b"".join((ROOT / each.decode()).read_bytes() for each in others if each)
    return f"{commit}-{hashlib.sha256(changed).hexdigest()[:8]}" if changed else commit


def _selection(is_quick: bool, arguments: list[str]) -> str:
    chosen = "quick" if is_quick else "whole"
    return f"{chosen}-{hashlib.sha256(repr(arguments).encode()).hexdigest()[:8]}" if arguments else chosen


def _seed(state: Path, asked: int | None) -> int:
    """The one of the run that is gone on with, whose order of cases this is."""
    kept = state / "seed"
    if asked is not None and kept.exists() and int(kept.read_text()) != asked:
        raise SystemExit(f"{state} holds a run with seed {kept.read_text()}: delete it, or give another --state")
    if not kept.exists():
        kept.write_text(str(random.randrange(1_000_000) if asked is None else asked))
    return int(kept.read_text())


if __name__ == "__main__":
    started = time.monotonic()
    code = main()
    sys.stdout.write(f"{'✓' if code == 0 else '✗'} {(time.monotonic() - started) / 60:.1f} minutes\n")
    raise SystemExit(code)
