"""A flow compared with what the database has of its last run: announced, and refused where a promise would break.

`changes` says what has changed about a stage since its last run, in sentences, each with what it means. Shapes are what
`Stage.topology` gives. A part that an older version did not keep is not compared.

A stage is named by its topics, so one that reads a topic more is another stage. It must not begin to read what a former
one has read already, nor pass over what that has left, without anybody having said so (`taken_over`). All but
`FlowComparer` is pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from towpath.db import Database, Transaction
from towpath.errors import UnknownTopic
from towpath.flow.delivery.ids import Strategy
from towpath.flow.delivery.ledger import BatchState, Ledger
from towpath.flow.flow import Flow
from towpath.flow.graph.stages import Stage
from towpath.flow.stage.store import StageRow, StageStore
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log

Shape = Mapping[str, Any]
Stops = dict[tuple[str, str, int], int]  # by topic, its id and partition


class FlowComparer:
    """Compares the stages of a flow with their rows. It changes nothing."""

    def __init__(self, database: Database, log: Log, flow: Flow) -> None:
        self._database = database
        self._stages = StageStore(database)
        self._ledger = Ledger(database)
        self._log = log
        self._flow = flow
        self._today = flow.stages()
        self._reentry = FlowTopics.of(flow.name).reentry

    def all(self) -> list[Comparison]:
        """Of each stage, whether it has run before or not."""
        with self._database.read() as tx:
            rows = {row.name: row for row in self._stages.list(tx, self._flow.name)}
        return [self.one(stage, rows.get(stage.name)) for stage in self._today]

    def one(self, stage: Stage, row: StageRow | None) -> Comparison:
        """The first stage of a flow answers for those that are not in it any more."""
        with self._database.read() as tx:
            rows = self._left(tx)
            batch = self._ledger.open_batch(tx, self._flow.name, stage.name)
        shape = stage.topology()
        found = [] if row is None else changes(row.topology, shape, row.version, self._flow.version)
        told = [change.text for change in found]
        if stage.name == self._today[0].name:
            shape["left"] = [left.name for left, _ in rows]
            known = () if row is None else row.topology.get("left", ())
            told += [left_text(self._with_unread(left, stops)) for left, stops in rows if left.name not in known]
        topics = [*stage.topics, self._reentry]
        begun = {} if row is None else row.topics
        others = [left for left, _ in rows]
        refused = taken_over(self._flow.name, stage.name, stage.called, topics, begun, others)
        if refused is None and row is not None and batch is not None:
            open_batch = OpenBatch(batch.batch_id, batch.state)
            refused = refusal(self._flow.name, stage.name, found, row.topology, open_batch)
        return Comparison(stage.name, shape, told, refused, row is not None)

    def _left(self, tx: Transaction) -> list[tuple[RemovedStage, Stops]]:
        """Stages that have run and are not in the flow any more, and where they stand."""
        names = {stage.name for stage in self._today}
        rows = self._stages.list(tx, self._flow.name)
        return [self._left_of(tx, row) for row in rows if row.name not in names and row.generation > 0]

    def _left_of(self, tx: Transaction, row: StageRow) -> tuple[RemovedStage, Stops]:
        last = self._ledger.last_committed(tx, row.flow, row.name, row.generation)
        positions = row.starting if last is None else last.positions
        batch = self._ledger.open_batch(tx, row.flow, row.name)
        topics = frozenset(row.topics) - {self._reentry}
        stops = {(each.topic, each.topic_id, each.partition): each.stop for each in positions if each.topic in topics}
        return RemovedStage(row.name, topics, open_batch=None if batch is None else batch.batch_id), stops

    def _with_unread(self, left: RemovedStage, stops: Stops) -> RemovedStage:
        unread = []
        for (topic, id, number), stop in stops.items():
            try:
                end = self._log.ends(topic)[number] if self._log.topic(topic).id == id else stop
            except (UnknownTopic, KeyError):
                continue  # nothing of it is there any more
            if stop < end:
                unread.append(f"{topic}/{number} from {stop} to before {end}")
        return left._replace(unread=unread)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is new about one stage. `refused`: why it cannot go on like that, and what to do."""

    stage: str
    shape: dict[str, Any]
    changes: Sequence[str]
    refused: str | None
    has_run: bool


class TopologyChange(NamedTuple):
    """One change. `alters`: a batch that has begun would give something else from here on."""

    text: str
    alters: bool = True


def changes(before: Shape, after: Shape, version_before: str = "", version: str = "") -> list[TopologyChange]:
    """All of them; the same shape has none."""
    return [
        *_name(before, after),
        *_topics(before, after),
        *_delivery(before, after),
        *_steps(_by_name(before, "steps"), _by_name(after, "steps")),
        *_outputs(_by_name(before, "outputs"), _by_name(after, "outputs")),
        *_version(version_before, version),
    ]


def refusal(
    flow: str, stage: str, found: Sequence[TopologyChange], before: Shape, batch: OpenBatch | None
) -> str | None:
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


class OpenBatch(NamedTuple):
    """The batch of a stage that is not committed."""

    batch_id: int
    state: BatchState


def _has_begun(before: Shape, batch: OpenBatch) -> bool:
    return batch.state in (BatchState.DECIDED, BatchState.AHEAD) or before.get("delivery") == Strategy.EXACTLY_ONCE


class RemovedStage(NamedTuple):
    """A stage of an earlier run. `unread` says where in its topics something lies that it has not read."""

    name: str
    topics: frozenset[str]
    unread: Sequence[str] = ()
    open_batch: int | None = None


def left_text(left: RemovedStage) -> str:
    """What it means that a stage is not in the flow any more."""
    text = f"the stage {left.name} has run before and is not in the flow any more"
    if left.open_batch is not None:
        text += f"; its batch {left.open_batch} is not committed, and outputs may have a part of it"
    if not left.unread:
        return f"{text}; it had read everything"
    return f"{text}; it will not read {', '.join(left.unread)}"


def taken_over(
    flow: str,
    stage: str,
    called: str,
    topics: Collection[str],
    begun: Mapping[str, object],
    left: Sequence[RemovedStage],
) -> str | None:
    """Why a stage cannot begin to read its new topics, and what to do; None: it can.

    `begun` are the topics for which it has positions. Somebody who resets it has said from where it reads all of them.
    """
    new = frozenset(topics) - begun.keys()
    for other in left:
        is_twin = other.name == called and not begun.keys() <= set(topics)
        shared = sorted(other.topics & (frozenset(topics) if is_twin else new))
        if not shared:
            continue
        what = f"the stage {other.name}, which is not in the flow any more, has read {' and '.join(shared)}"
        anew = f"towpath flow reset {flow} {stage} --to earliest (or latest) begins anew"
        if stage != called or begun:
            return f"{what}, and {called} would read it again from its start, or pass over what is left; {anew}"
        return (
            f"{what}, and {called} is a stage of its own: it would read it again from its start, or pass over what is "
            f"left. If it is the same stage, say flow.renamed({other.name!r}, {called!r}); otherwise {anew}"
        )
    return None


def _by_name(shape: Shape, part: str) -> dict[str, Shape]:
    return {each["name"]: each for each in shape.get(part, ())}


def _said(before: Shape, after: Shape, field: str) -> tuple[Any, Any] | None:
    """What was and is, where both know of it and it differs."""
    if field not in before or field not in after or before[field] == after[field]:
        return None
    return before[field], after[field]


def _name(before: Shape, after: Shape) -> Iterator[TopologyChange]:
    if pair := _said(before, after, "called"):
        yield TopologyChange(
            f"it was called {pair[0]} and is called {pair[1]} now; it goes on at its position", alters=False
        )


def _topics(before: Shape, after: Shape) -> Iterator[TopologyChange]:
    was, now = before.get("topics", ()), after.get("topics", ())
    for topic in sorted({*now} - {*was}):
        yield TopologyChange(
            f"it reads the topic {topic} as well, from where the flow is configured to start; its other topics go on "
            "where they were, in a new generation"
        )
    for topic in sorted({*was} - {*now}):
        yield TopologyChange(
            f"it reads the topic {topic} no more; what lies there beyond its position is not read, and the position "
            "is not kept"
        )


def _delivery(before: Shape, after: Shape) -> Iterator[TopologyChange]:
    if not (pair := _said(before, after, "delivery")):
        return
    now = Strategy(pair[1])
    means = {
        Strategy.EXACTLY_ONCE: "what was delivered until now, of an open batch too, may be there twice",
        Strategy.AT_LEAST_ONCE: "after a crash, sinks without ids may have some deliveries twice",
        Strategy.AT_MOST_ONCE: "after a crash, what it has cut off is lost",
    }[now]
    yield TopologyChange(f"delivery was {pair[0]} and is {now} now: {means}")


# Steps
def _steps(before: Mapping[str, Shape], after: Mapping[str, Shape]) -> Iterator[TopologyChange]:
    for name in (name for name in after if name not in before):
        yield TopologyChange(
            f"the {_kind(after[name])} {name} is new; records from the present position on go through it"
        )
    for name in (name for name in before if name not in after):
        yield TopologyChange(f"the {_kind(before[name])} {name} is gone; what it counted stays under its name")
    for name, step in after.items():
        if name in before:
            yield from _step(f"{_kind(step)} {name}", before[name], step)


def _kind(step: Shape) -> str:
    return "each step" if step["kind"] == "each" else str(step["kind"])


def _step(name: str, before: Shape, after: Shape) -> Iterator[TopologyChange]:
    if pair := _said(before, after, "kind"):
        yield TopologyChange(f"{name} was of the kind {pair[0]}")
    if pair := _said(before, after, "inputs"):
        yield TopologyChange(f"{name} stands on {_list(pair[1])} and stood on {_list(pair[0])}")
    if pair := _said(before, after, "takes"):
        yield TopologyChange(
            f"{name} takes {pair[1] or 'everything'} and took {pair[0] or 'everything'}; the rest is filtered"
        )
    if pair := _said(before, after, "deterministic"):
        yield from _deterministic(name, *pair)
    if pair := _said(before, after, "expectations"):
        yield TopologyChange(f"{name} expects {_rules(pair[1])} and expected {_rules(pair[0])}")
    yield from _schema(name, before, after)


def _deterministic(name: str, was: bool | None, now: bool | None) -> Iterator[TopologyChange]:
    if was and not now:
        yield TopologyChange(f"{name} is not said to be deterministic any more: what it gives is kept for each batch")
    elif now:
        yield TopologyChange(f"{name} is said to be deterministic now: nothing is kept of what it gives", alters=False)
    else:
        yield TopologyChange(f"{name} is {'said' if now is False else 'not said'} to give something else each time")


def _schema(name: str, before: Shape, after: Shape) -> Iterator[TopologyChange]:
    if pair := _said(before, after, "columns"):
        yield TopologyChange(f"{name} has another schema: {_columns(*pair)}; records that do not fit fail with code 8")
    if _said(before, after, "rules"):
        yield TopologyChange(f"{name} has another JSON Schema; records that do not meet it fail with code 8")
    for field in ("extra", "duplicates", "dedupe", "stateful", "join"):
        if pair := _said(before, after, field):
            yield TopologyChange(f"{name} has {field}={pair[1]!r} and had {pair[0]!r}")


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
def _outputs(before: Mapping[str, Shape], after: Mapping[str, Shape]) -> Iterator[TopologyChange]:
    gone = {name: each for name, each in before.items() if name not in after}
    for name, output in after.items():
        if name in before:
            yield from _output(name, before[name], output)
            continue
        old = next((other for other, each in gone.items() if each["sink"] == output["sink"]), None)
        if old is not None:
            del gone[old]
            yield TopologyChange(
                f"the output {old} seems to be called {name} now, which is not declared: its delivery ids change, so "
                f"what is replayed or read again looks new; load(…, name_before={old!r}) keeps them"
            )
        else:
            yield TopologyChange(
                f"the output {name} is new; it gets records from the present position on, not the past", alters=False
            )
    for name in gone:
        yield TopologyChange(f"the output {name} is gone; what is there stays, nothing more comes")


def _output(name: str, before: Shape, after: Shape) -> Iterator[TopologyChange]:
    if pair := _said(before, after, "called"):
        yield TopologyChange(
            f"the output {pair[0]} is called {pair[1]} now; its delivery ids keep the name {name}", alters=False
        )
    if pair := _said(before, after, "sink"):
        yield TopologyChange(f"the output {name} goes to {pair[1]} and went to {pair[0]}; what is there is not moved")
    if pair := _said(before, after, "id"):
        yield TopologyChange(
            f"the output {name} makes its ids of {_id(pair[1])} and made them of {_id(pair[0])}; what is replayed or "
            "read again is not known again"
        )
    if pair := _said(before, after, "input"):
        yield TopologyChange(f"the output {name} loads what {pair[1]} gives, and loaded what {pair[0]} gave")


def _id(template: str | None) -> str:
    return "the record's coordinates" if template is None else template


def _version(was: str, now: str) -> Iterator[TopologyChange]:
    if was != now:
        yield TopologyChange(f"its version is {now or 'not said'} and was {was or 'not said'}", alters=False)
