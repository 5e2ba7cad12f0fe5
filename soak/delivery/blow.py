"""Who was hit, and what was going on at that moment. Written down just before, by looking from outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from soak.delivery.books import Open
from soak.delivery.plan import Target

IN_BATCH, IN_TASK = 0.5, 0.25  # the least shares of strikes, for a run that counts


@dataclass(frozen=True)
class Blow:
    """One strike. For a worker the task is its own, for all others what the workers of the driver had in hand."""

    target: Target
    batches: tuple[Open, ...]  # open ones
    tasks: tuple[str, ...]
    driver: int | None  # who had the flow; while the one before is missed, nobody

    @property
    def is_in_batch(self) -> bool:
        return bool(self.batches)

    @property
    def is_in_task(self) -> bool:
        return bool(self.tasks)


HEADINGS = ("victim", "hit", "batch open", "of which stages", "how far", "task in hand", "in a recovery")


def victims(blows: Sequence[Blow]) -> list[tuple[str, ...]]:
    """A row for each kind of victim that was hit."""
    return [_row(target, hit) for target in Target if (hit := [blow for blow in blows if blow.target is target])]


def idle(blows: Sequence[Blow]) -> list[str]:
    """What is wrong with a run whose strikes found nobody at work: it proves nothing."""
    in_batch, in_task = sum(blow.is_in_batch for blow in blows), sum(blow.is_in_task for blow in blows)
    if in_batch >= len(blows) * IN_BATCH and in_task >= len(blows) * IN_TASK:
        return []
    return [f"of {len(blows)} strikes only {in_batch} came in a batch, {in_task} in a task: too few to prove anything"]


def _row(target: Target, blows: Sequence[Blow]) -> tuple[str, ...]:
    batches = [batch for blow in blows for batch in blow.batches]
    return (
        target.value,
        str(len(blows)),
        str(sum(blow.is_in_batch for blow in blows)),
        _counted(Counter(batch.stage for batch in batches)),
        _counted(Counter(batch.state for batch in batches)),
        f"{sum(blow.is_in_task for blow in blows)}: {_counted(Counter(map(_kind, _tasks(blows)))) or 'none'}",
        str(sum(blow.driver is None or any(batch.attempt > 1 for batch in blow.batches) for blow in blows)),
    )


def _tasks(blows: Sequence[Blow]) -> list[str]:
    return [task for blow in blows for task in blow.tasks]


def _kind(task: str) -> str:
    """The name of the work: files are called `name-task-process.at`."""
    return Path(task).name.rsplit("-", 2)[0]


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
