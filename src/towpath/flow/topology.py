"""What has changed about a stage since its last run, in sentences, each with what it means. Pure.

Shapes are what `shape_of` gives. A part that an older version did not keep is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from towpath.flow.ledger_row import BatchState
from towpath.flow.strategy import Strategy

Shape = Mapping[str, Any]


class Change(NamedTuple):
    """One change. `alters`: a batch that has begun would give something else from here on."""

    text: str
    alters: bool = True


class OpenBatch(NamedTuple):
    """The batch of a stage that is not committed."""

    batch_id: int
    state: BatchState


def changes(before: Shape, after: Shape, version_before: str = "", version: str = "") -> list[Change]:
    """All of them; the same shape has none."""
    return [
        *_name(before, after),
        *_topics(before, after),
        *_delivery(before, after),
        *_steps(_by_name(before, "steps"), _by_name(after, "steps")),
        *_outputs(_by_name(before, "outputs"), _by_name(after, "outputs")),
        *_version(version_before, version),
    ]


def refusal(flow: str, stage: str, found: Sequence[Change], before: Shape, batch: OpenBatch | None) -> str | None:
    """Why the stage cannot go on with its new shape, and what to do; None: it can.

    A batch that is decided, or of which exactly-once outputs may have a part, has to be finished as it was begun:
    otherwise a record would be in two outputs, or in none.
    """
    altering = [change.text for change in found if change.alters]
    if batch is None or not altering or not _has_begun(before, batch):
        return None
    return (
        f"batch {batch.batch_id} is not committed ({batch.state}), outputs may have a part of it, and the stage is "
        f"another one now: {'; '.join(altering)}. Run the flow as it was until the batch is committed "
        f"(towpath flow resume {flow} {stage}), or begin anew: towpath flow reset {flow} {stage}"
    )


def _has_begun(before: Shape, batch: OpenBatch) -> bool:
    return batch.state in (BatchState.DECIDED, BatchState.AHEAD) or before.get("delivery") == Strategy.EXACTLY_ONCE


def _by_name(shape: Shape, part: str) -> dict[str, Shape]:
    return {each["name"]: each for each in shape.get(part, ())}


def _said(before: Shape, after: Shape, field: str) -> tuple[Any, Any] | None:
    """What was and is, where both know of it and it differs."""
    if field not in before or field not in after or before[field] == after[field]:
        return None
    return before[field], after[field]


def _name(before: Shape, after: Shape) -> Iterator[Change]:
    if pair := _said(before, after, "called"):
        yield Change(f"it was called {pair[0]} and is called {pair[1]} now; it goes on at its position", alters=False)


def _topics(before: Shape, after: Shape) -> Iterator[Change]:
    was, now = before.get("topics", ()), after.get("topics", ())
    for topic in sorted({*now} - {*was}):
        yield Change(
            f"it reads the topic {topic} as well, from where the flow is configured to start; its other topics go on "
            "where they were, in a new generation"
        )
    for topic in sorted({*was} - {*now}):
        yield Change(
            f"it reads the topic {topic} no more; what lies there beyond its position is not read, and the position "
            "is not kept"
        )


def _delivery(before: Shape, after: Shape) -> Iterator[Change]:
    if not (pair := _said(before, after, "delivery")):
        return
    now = Strategy(pair[1])
    means = {
        Strategy.EXACTLY_ONCE: "what was delivered until now, of an open batch too, may be there twice",
        Strategy.AT_LEAST_ONCE: "after a crash, sinks without ids may have some deliveries twice",
        Strategy.AT_MOST_ONCE: "after a crash, what it has cut off is lost",
    }[now]
    yield Change(f"delivery was {pair[0]} and is {now} now: {means}")


# Steps


def _steps(before: Mapping[str, Shape], after: Mapping[str, Shape]) -> Iterator[Change]:
    for name in (name for name in after if name not in before):
        yield Change(f"the {_kind(after[name])} {name} is new; records from the present position on go through it")
    for name in (name for name in before if name not in after):
        yield Change(f"the {_kind(before[name])} {name} is gone; what it counted stays under its name")
    for name, step in after.items():
        if name in before:
            yield from _step(f"{_kind(step)} {name}", before[name], step)


def _kind(step: Shape) -> str:
    return "each step" if step["kind"] == "each" else str(step["kind"])


def _step(name: str, before: Shape, after: Shape) -> Iterator[Change]:
    if pair := _said(before, after, "kind"):
        yield Change(f"{name} was of the kind {pair[0]}")
    if pair := _said(before, after, "inputs"):
        yield Change(f"{name} stands on {_list(pair[1])} and stood on {_list(pair[0])}")
    if pair := _said(before, after, "takes"):
        yield Change(f"{name} takes {pair[1] or 'everything'} and took {pair[0] or 'everything'}; the rest is filtered")
    if pair := _said(before, after, "deterministic"):
        yield from _deterministic(name, *pair)
    if pair := _said(before, after, "expectations"):
        yield Change(f"{name} expects {_rules(pair[1])} and expected {_rules(pair[0])}")
    yield from _schema(name, before, after)


def _deterministic(name: str, was: bool | None, now: bool | None) -> Iterator[Change]:
    if was and not now:
        yield Change(f"{name} is not said to be deterministic any more: what it gives is kept for each batch")
    elif now:
        yield Change(f"{name} is said to be deterministic now: nothing is kept of what it gives", alters=False)
    else:
        yield Change(f"{name} is {'said' if now is False else 'not said'} to give something else each time")


def _schema(name: str, before: Shape, after: Shape) -> Iterator[Change]:
    if pair := _said(before, after, "columns"):
        yield Change(f"{name} has another schema: {_columns(*pair)}; records that do not fit fail with code 8")
    if _said(before, after, "rules"):
        yield Change(f"{name} has another JSON Schema; records that do not meet it fail with code 8")
    for field in ("extra", "duplicates", "dedupe", "stateful", "join"):
        if pair := _said(before, after, field):
            yield Change(f"{name} has {field}={pair[1]!r} and had {pair[0]!r}")


def _columns(was: Mapping[str, str] | None, now: Mapping[str, str] | None) -> str:
    if was is None or now is None:
        return "it had one, and has none" if now is None else "it had none, and has one"
    told = [f"{name} {now[name]} is new" for name in now if name not in was]
    told += [f"{name} is gone" for name in was if name not in now]
    told += [f"{name} is {now[name]} and was {was[name]}" for name in now if name in was and was[name] != now[name]]
    return ", ".join(told) or "its columns stand in another order"


def _rules(rules: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({rule})" for name, rule in rules.items()) or "nothing"


def _list(names: Sequence[str]) -> str:
    return " and ".join(names) or "nothing"


# Outputs


def _outputs(before: Mapping[str, Shape], after: Mapping[str, Shape]) -> Iterator[Change]:
    gone = {name: each for name, each in before.items() if name not in after}
    for name, output in after.items():
        if name in before:
            yield from _output(name, before[name], output)
            continue
        old = next((other for other, each in gone.items() if each["sink"] == output["sink"]), None)
        if old is not None:
            del gone[old]
            yield Change(
                f"the output {old} seems to be called {name} now, which is not declared: its delivery ids change, so "
                f"what is replayed or read again looks new; load(…, name_before={old!r}) keeps them"
            )
        else:
            yield Change(
                f"the output {name} is new; it gets records from the present position on, not the past", alters=False
            )
    for name in gone:
        yield Change(f"the output {name} is gone; what is there stays, nothing more comes")


def _output(name: str, before: Shape, after: Shape) -> Iterator[Change]:
    if pair := _said(before, after, "called"):
        yield Change(
            f"the output {pair[0]} is called {pair[1]} now; its delivery ids keep the name {name}", alters=False
        )
    if pair := _said(before, after, "sink"):
        yield Change(f"the output {name} goes to {pair[1]} and went to {pair[0]}; what is there is not moved")
    if pair := _said(before, after, "id"):
        yield Change(
            f"the output {name} makes its ids of {_id(pair[1])} and made them of {_id(pair[0])}; what is replayed or "
            "read again is not known again"
        )
    if pair := _said(before, after, "input"):
        yield Change(f"the output {name} loads what {pair[1]} gives, and loaded what {pair[0]} gave")


def _id(template: str | None) -> str:
    return "the record's coordinates" if template is None else template


def _version(was: str, now: str) -> Iterator[Change]:
    if was != now:
        yield Change(f"its version is {now or 'not said'} and was {was or 'not said'}", alters=False)
