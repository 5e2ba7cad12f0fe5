"""`make recover`: every recovery case, in several processes side by side; one table at the end.

python -m tests.recovery.delivery [--processes 4] [--sample 100] [--seed 7] [--home DIRECTORY] [-- arguments for pytest]
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path

from tests.recovery.delivery.pairs import pairwise, table
from tests.recovery.delivery.points import impossible, product_of
from tests.recovery.delivery.recovering import Order, Recovering
from tests.support.spark import PYTHON

from towpath.testing import servers
from towpath.testing.quick_python import quick_python

LIMIT_S = 600  # of one case: a walk of thirty crashes, or a child with a Spark of its own, on a busy machine
EVERY_S = 15  # seconds between two lines of progress


def main() -> int:
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception: the processes are ended with it
    _say(f"The cases with a real SIGKILL hold every pair:\n{table(pairwise(product_of()))}\n")
    _say("Combinations that cannot occur:")
    for why, count in sorted(impossible().items(), key=lambda each: -each[1]):
        _say(f"  {count:5}  {why}")
    home = _home(asked.home)
    order = Order(asked.processes, _seed(home, asked.seed), asked.limit, asked.sample, asked.pytest)
    began = time.monotonic()
    with ExitStack() as stack:
        given = {
            "kafka": stack.enter_context(servers.kafka_server()).url,
            "postgres": stack.enter_context(servers.postgres_server()).url,
            "elasticsearch": stack.enter_context(servers.elasticsearch_server()).url,
        }
        program = stack.enter_context(quick_python(["tests.recovery.delivery.shapes"]))
        recovering = Recovering(home, order, given, {PYTHON: str(program)})
        _say(f"\n{order.processes} processes, seed {order.seed}, logs in {home}")
        _watch(recovering, began)
    is_good = _report(recovering, time.monotonic() - began)
    if is_good and asked.home is None:
        shutil.rmtree(home, ignore_errors=True)
    return 0 if is_good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.recovery.delivery", description=__doc__)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--sample", type=int, default=0, help="only so many cases, by chance")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--home", type=Path, help="keep everything there; after an interruption, go on where it was")
    parser.add_argument("--limit", type=int, default=LIMIT_S, help="seconds that one case may take")
    parser.add_argument("pytest", nargs="*", help="after --: for pytest, such as -k chain")
    return parser.parse_args()


def _home(asked: Path | None) -> Path:
    home = asked or Path(tempfile.mkdtemp(prefix="towpath-recover-"))
    home.mkdir(exist_ok=True)
    home.chmod(0o711)
    return home


def _seed(home: Path, asked: int) -> int:
    """The order of the cases is their number: who goes on needs that of the one before."""
    kept = home / "seed"
    if not kept.exists():
        kept.write_text(str(asked))
    return int(kept.read_text())


def _watch(recovering: Recovering, began: float) -> None:
    told_at = began
    told: set[int] = set()
    before: int | None = None  # that an interrupted run had done
    for _ in recovering.run():
        before = len(recovering.done) if before is None else before
        for number in sorted(recovering.done.keys() - told):
            told.add(number)
            if not recovering.done[number].passed:
                _say(f"FAILED {recovering.items[number]['id']}")
        if time.monotonic() - told_at > EVERY_S:
            told_at = time.monotonic()
            _say(_progress(recovering, told_at - began, before))


def _progress(recovering: Recovering, spent_s: float, before: int) -> str:
    done, of = len(recovering.done), len(recovering.items)
    failed = sum(not result.passed for result in recovering.done.values())
    left = f"{_clock(spent_s / (done - before) * (of - done))} left" if done > before else "…"
    return f"{_clock(spent_s)}  {done} of {of}, {failed} failed, {left}"


def _report(recovering: Recovering, spent_s: float) -> bool:
    items, done = recovering.items, recovering.done
    passed: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    took: dict[str, float] = defaultdict(float)
    for number, result in done.items():
        item = items[number]
        (passed if result.passed else failed)[item["shape"], item["strategy"]] += 1
        took[item["shape"]] += result.took_s
    strategies = sorted({each["strategy"] for each in items})
    _say(f"\n{'passed/failed':<14}" + "".join(f"{name:>16}" for name in strategies) + f"{'time':>10}")
    for shape in sorted(took):
        cells = [f"{passed[shape, name]}/{failed[shape, name]}" for name in strategies]
        _say(f"{shape:<14}" + "".join(f"{cell:>16}" for cell in cells) + f"{_clock(took[shape]):>10}")
    bad = [done[number] for number in sorted(done) if not done[number].passed]
    _say(f"\n{len(done) - len(bad)} passed, {len(bad)} failed, {len(items) - len(done)} not run, in {_clock(spent_s)}")
    for death in recovering.deaths:
        _say(f"A process died: {death}")
    for result in bad:
        _say(f"\nFAILED {items[result.number]['id']}\n{result.text[-3000:]}")
    if bad:
        _say("\nOne of them again:")
        _say(f"  .venv/bin/python -m pytest -m recover '{items[bad[0].number]['id']}'")
    return bool(items) and not bad and recovering.is_complete


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
