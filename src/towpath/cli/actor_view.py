"""How actors look: classes and instances as rows, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from towpath.actors.actor_json import due_at
from towpath.actors.phase import Phase
from towpath.cli.output import Column, age, console, print_fields, print_table

if TYPE_CHECKING:
    from towpath.actors.instance import Instance
    from towpath.actors.known import Known

RESUME = {
    "retry": "this state runs again",
    "restart": "the run begins anew, with the state that it was started with",
    "fail": "it has failed, and a person decides",
}

_CLASSES = (Column("actor", whole=True), Column("enabled", whole=True), Column("instances"), Column("about"))
_INSTANCES = (
    Column("instance"),
    Column("phase", whole=True),
    Column("state"),
    Column("for", right=True, whole=True),
    Column("due", right=True, whole=True),
    Column("owner", from_width=100),
    Column("reason"),
)
_STATES = (Column("state", whole=True), Column("if its process dies"), Column("about"))


def print_classes(classes: Iterable[Known], counts: Mapping[str, Mapping[Phase, int]]) -> None:
    rows = [
        [each.name, "yes" if each.is_enabled else "no", counted(counts.get(each.name, {})), each.about]
        for each in classes
    ]
    print_table(_CLASSES, rows)


def counted(counts: Mapping[Phase, int]) -> str:
    """Only what there is, the ones that run first."""
    return ", ".join(f"{counts[phase]:,} {phase}" for phase in Phase if counts.get(phase)) or "none"


def print_class(known: Known, counts: Mapping[Phase, int]) -> None:
    print_fields(
        [
            ("actor", known.name),
            ("about", known.about),
            ("enabled", None if known.is_enabled else "no: nothing of it runs until it is enabled again"),
            ("instances", counted(counts)),
        ]
    )
    console().print()
    rows = [
        [_marked(each, known.shape["first"]), RESUME.get(each["resume"], each["resume"]), each["about"]]
        for each in known.shape["states"]
        if not each["is_terminal"]
    ]
    print_table(_STATES, rows)


def _marked(state: Mapping[str, Any], first: str) -> str:
    return f"{state['name']}{' (first)' if state['name'] == first else ''}"


def print_instances(instances: Sequence[Instance], now: datetime, cursor: str | None) -> None:
    rows = [
        [
            each.name,
            each.phase,
            each.step,
            age(each.moved_at, now),
            _until(due_at(each), now),
            each.owner,
            each.reason or each.abort,
        ]
        for each in instances
    ]
    print_table(_INSTANCES, rows)
    if cursor is not None:
        console().print(f"more: the same command with --after {cursor}", style="dim")


def last_words(reason: str | None) -> str:
    """What a trace ends with: the exception. Of any other reason, all of it."""
    lines = (reason or "").rstrip().split("\n")
    code = [number for number, line in enumerate(lines) if line.startswith("  ")]
    return " ".join(lines[code[-1] + 1 :] if code and code[-1] + 1 < len(lines) else lines)


def _until(due: datetime | None, now: datetime) -> str:
    if due is None:
        return ""
    return "now" if due <= now else age(due, now)
