"""A running flow on a terminal: a line for each stage, what troubles it, and how far its partitions are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from towpath.cli.flow_words import time_in_state, trouble_of
from towpath.cli.output import STYLES, plain
from towpath.flow.look import state_word
from towpath.flow.pilot import Pilot

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

FEWEST_PARTITIONS = 3
OTHER_LINES = 6  # title, heads, empty lines and the last one
HEALTHY = "green"


@dataclass(frozen=True, slots=True)
class Shown:
    """One stage as it is shown. `counts` are read, loaded, filtered and failed."""

    name: str
    pilot: Pilot
    sample: Mapping[str, Any]
    counts: Mapping[str, int]
    is_run: bool = True


def picture(stages: Sequence[Shown], now: int, height: int) -> RenderableType:
    """All stages, in no more lines than there are."""
    from rich.console import Group

    lines: list[RenderableType] = [_stages(stages, now), *_troubles(stages, now)]
    room = height - 2 * len(stages) - OTHER_LINES
    partitions = [each for stage in stages for each in partitions_of(stage.sample)]
    if partitions:
        lines += ["", _partitions(partitions, max(FEWEST_PARTITIONS, room))]
    return Group(*lines)


def partitions_of(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where a stage is in each partition; those of the re-entry topic only when something has come back."""
    found: list[dict[str, Any]] = sample.get("partitions", [])
    return [each for each in found if each["end"] or not each["topic"].endswith(".reentry")]


def _stages(stages: Sequence[Shown], now: int) -> Table:
    from rich.text import Text

    table = _table(("stage", "state"), ("for", "rate/s", "lag", "loaded", "filtered", "failed"))
    for stage in stages:
        word = state_word(stage.pilot, stage.sample)
        counts = [f"{stage.counts.get(name, 0):,}" for name in ("loaded", "filtered", "failed")]
        table.add_row(
            Text(plain(stage.name)),
            Text(word, style=STYLES.get(word, HEALTHY) if stage.is_run else "dim"),
            time_in_state(stage.pilot, now),
            f"{stage.sample.get('rate', 0.0) if stage.is_run else 0.0:,.1f}",
            number(stage.sample.get("lag")),
            *counts[:-1],
            Text(counts[-1], style="red" if counts[-1] != "0" else ""),
        )
    return table


def _troubles(stages: Sequence[Shown], now: int) -> Iterable[RenderableType]:
    from rich.text import Text

    for stage in stages:
        if trouble := trouble_of(stage.pilot, now):
            style = STYLES.get(stage.pilot.state, "yellow")
            yield Text(f"{stage.name}: {plain(trouble)}", style=style, no_wrap=True, overflow="ellipsis")


def _partitions(partitions: list[dict[str, Any]], most: int) -> Table:
    """Those that are furthest behind, when there are too many."""
    kept = partitions
    if len(partitions) > most:
        far = sorted(partitions, key=lambda each: -each["lag"])[: most - 1]
        kept = [each for each in partitions if each in far]
    table = _table(("partition",), ("position", "end", "lag"))
    for each in kept:
        name = f"{each['topic']}/{each['partition']}"
        table.add_row(name, *(f"{each[column]:,}" for column in ("position", "end", "lag")))
    if len(kept) < len(partitions):
        lag = sum(each["lag"] for each in partitions if each not in kept)
        table.add_row(f"and {len(partitions) - len(kept)} more", "", "", f"{lag:,}")
    return table


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in left:
        table.add_column(title, no_wrap=True, overflow="ellipsis")
    for title in right:
        table.add_column(title, no_wrap=True, justify="right")
    return table


def number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
