"""A flow compared with what the database has of its last run: announced, and refused where a promise would break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from towpath.db import Database, Transaction
from towpath.errors import UnknownTopic
from towpath.flow.flow import Flow
from towpath.flow.graph import Stage
from towpath.flow.ledger import Ledger
from towpath.flow.left_behind import Left, left_text, taken_over
from towpath.flow.stage_store import Stage as StageRow
from towpath.flow.stage_store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.flow.topology import OpenBatch, changes, refusal
from towpath.log.log import Log

Stops = dict[tuple[str, str, int], int]  # by topic, its id and partition


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is new about one stage. `refused`: why it cannot go on like that, and what to do."""

    stage: str
    shape: dict[str, Any]
    changes: Sequence[str]
    refused: str | None
    has_run: bool


class Comparing:
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

    def _left(self, tx: Transaction) -> list[tuple[Left, Stops]]:
        """Stages that have run and are not in the flow any more, and where they stand."""
        names = {stage.name for stage in self._today}
        rows = self._stages.list(tx, self._flow.name)
        return [self._left_of(tx, row) for row in rows if row.name not in names and row.generation > 0]

    def _left_of(self, tx: Transaction, row: StageRow) -> tuple[Left, Stops]:
        last = self._ledger.last_committed(tx, row.flow, row.name, row.generation)
        positions = row.starting if last is None else last.positions
        batch = self._ledger.open_batch(tx, row.flow, row.name)
        topics = frozenset(row.topics) - {self._reentry}
        stops = {(each.topic, each.topic_id, each.partition): each.stop for each in positions if each.topic in topics}
        return Left(row.name, topics, open_batch=None if batch is None else batch.batch_id), stops

    def _with_unread(self, left: Left, stops: Stops) -> Left:
        unread = []
        for (topic, id, number), stop in stops.items():
            try:
                end = self._log.ends(topic)[number] if self._log.topic(topic).id == id else stop
            except (UnknownTopic, KeyError):
                continue  # nothing of it is there any more
            if stop < end:
                unread.append(f"{topic}/{number} from {stop} to before {end}")
        return left._replace(unread=unread)
