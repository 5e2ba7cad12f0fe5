"""What the ledger and the log say at one moment, read in the order that lets a running flow be audited.

The end of the error topic is taken first: whatever lies before it belongs to a batch whose row was written earlier, so
that row is in the view. The ends of the inputs are taken last, so no position of the view is beyond them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.errors import BadValue, UnknownFlow, UnknownTopic
from towpath.flow.audit.batch_row import BatchRow, GapRow, StageRows, UnreadableRow
from towpath.flow.ledger import Ledger
from towpath.flow.ledger_row import BatchState
from towpath.flow.place import Holdings, Places
from towpath.flow.positions import Positions, Range
from towpath.flow.recalled import Recalled
from towpath.flow.reentry_record import Sent
from towpath.flow.units import Units
from towpath.log.log import Log


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as it is now; `id` is empty when there is none of that name."""

    name: str
    id: str = ""
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """What is audited."""

    flow: str
    stages: tuple[StageRows, ...]
    topics: dict[str, TopicState]  # what the stages read
    errors: TopicState
    errors_known: dict[int, int]  # before these offsets, an error record's batch must be in the view
    holdings: Holdings | None = None  # what the desk has, if there is one


def take_view(database: Database, log: Log, flow: str, errors: str, places: Places | None = None) -> View:
    known = topic_state(log, errors).ends
    with database.read() as tx:
        stages = _stages(tx, database, flow)
        holdings = None if places is None else places.holdings(tx, flow)
    names = sorted({name for stage in stages for name in stage.topics})
    topics = {name: topic_state(log, name) for name in names}
    return View(flow, stages, topics, topic_state(log, errors), known, holdings)


def topic_state(log: Log, name: str) -> TopicState:
    try:
        topic = log.topic(name)
        # Starts first: records that expire meanwhile are found missing, not those that arrive.
        return TopicState(name, topic.id, log.starts(name), log.ends(name))
    except UnknownTopic:
        return TopicState(name)


def read_stages(database: Database, flow: str) -> tuple[StageRows, ...]:
    """The whole ledger of a flow, as it was at one moment; `UnknownFlow` when it has never run here."""
    with database.read() as tx:
        return _stages(tx, database, flow)


def _stages(tx: Transaction, database: Database, flow: str) -> tuple[StageRows, ...]:
    sql = Queries("towpath.flow.audit", "audit", database.dialect)
    ledger = Ledger(database)
    rows = tx.rows(sql["audited_stages"], {"flow": flow})
    if not rows:
        raise UnknownFlow(flow, (name for (name,) in tx.rows(sql["flow_names"], {})))
    recalled = Recalled(database).of(tx, flow)
    return tuple(_stage(tx, sql, ledger, flow, row, recalled) for row in rows)


def _stage(tx: Transaction, sql: Queries, ledger: Ledger, flow: str, row: Row, recalled: frozenset[Sent]) -> StageRows:
    name, generation, topics, starting, totals = row
    read = list(_batches(tx.rows(sql["audited_batches"], {"flow": flow, "stage": name})))
    gaps = [
        GapRow(gap.generation, Range(gap.topic, gap.topic_id, gap.partition, gap.start, gap.stop), gap.batch_id)
        for gap in ledger.gaps(tx, flow, name)
    ]
    return StageRows(
        flow,
        name,
        generation,
        json.loads(topics),
        Positions.from_json(starting),
        [each for each in read if isinstance(each, BatchRow)],
        gaps,
        json.loads(totals),
        [each for each in read if isinstance(each, UnreadableRow)],
        recalled,
    )


def _batches(rows: list[Row]) -> Iterator[BatchRow | UnreadableRow]:
    for generation, batch_id, hash, positions, state, counts, digests, units in rows:
        try:
            where = Positions.from_json(positions)
            told = json.loads(counts), json.loads(digests), Units.of_value(json.loads(units or "null")).blocks
            yield BatchRow(generation, batch_id, hash, where, BatchState(state), *told)
        except (BadValue, ValueError, TypeError, KeyError, AttributeError) as error:
            yield UnreadableRow(generation, batch_id, f"{type(error).__name__}: {error}")
