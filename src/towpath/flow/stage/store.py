"""The `flow_stage` table: where each stage is, who runs it, what is wanted of it, and how far it has come.

One process runs a stage. It takes the row, and each of its writes asks in the same statement whether the row is still
its own: one that was declared dead and replaced changes nothing any more (`NotTheOnlyOne`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath.core.clock import to_datetime, to_micros
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable, to_stored
from towpath.db.processes import ProcessStore
from towpath.errors import BadName, BadValue, FlowHalted, NotTheOnlyOne, UnknownFlow
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.delivery.positions import Positions, Spot
from towpath.flow.stage.machine import StageMachine
from towpath.flow.stage.states import POSSIBLE, StageCommand, StageCommandKind, refusal

Topics = Mapping[str, Sequence[str]]  # by name: the ids under which a topic has been seen, oldest first

# Of the steps of a stage, in its topology: what makes it keep something of the records that it reads.
_KEEPING = ("dedupe", "stateful", "join")


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage as its row has it. `generation` is 0 until it has its first checkpoint."""

    flow: str
    name: str
    generation: int
    topology: Any
    version: str
    checkpoint: str
    topics: Topics
    starting: Positions
    owner: str | None
    launch: int  # how often it was taken: who has a lower one was replaced
    machine: StageMachine
    judge: dict[str, Any]
    sample: dict[str, Any]
    wish: StageCommand | None
    created_at: datetime
    updated_at: datetime


class StageStore:
    """Reads and changes stages inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.flow.stage", "stages", database.dialect)

    def ensure(self, tx: Transaction, flow: str, stage: str, topology: Any, version: str = "") -> StageRow:
        """The stage as its row has it; a new row if there is none. An old one keeps its topology: compare them."""
        machine = StageMachine.new(self._database.now())
        values = {
            "topology": to_stored(topology),
            "version": version,
            "state": machine.state,
            "pilot": to_stored(machine.to_value()),
        }
        tx.run(self._sql["insert_stage"], {"flow": flow, "stage": stage, **values})
        return self.read(tx, flow, stage)

    def read(self, tx: Transaction, flow: str, stage: str) -> StageRow:
        found = tx.rows(self._sql["read_stage"], {"flow": flow, "stage": stage})
        if not found:
            known = tx.rows(self._sql["list_names"], {})
            raise UnknownFlow(f"{flow}/{stage}", (f"{each}/{name}" for each, name in known))
        return _stage(found[0])

    def list(self, tx: Transaction, flow: str | None = None) -> list[StageRow]:
        """All stages of a flow, or of all flows, by name."""
        return [_stage(row) for row in tx.rows(self._sql["list_stages"], {"flow": flow})]

    # Running it

    def take(self, tx: Transaction, flow: str, stage: str, owner: str, dead: str | None = None) -> StageRow:
        """Begin to run the stage. Nobody may be running it but `dead`, whom the caller has found to be that."""
        values = {"flow": flow, "stage": stage, "owner": owner, "dead": dead}
        found = tx.rows(self._sql["take_stage"], values)
        if not found:
            other = self.read(tx, flow, stage).owner
            raise NotTheOnlyOne(
                f"process {other} runs stage {stage} of {flow}; stop it, or wait until its lease is over"
            )
        return _stage(found[0])

    def release(self, tx: Transaction, flow: str, stage: str, owner: str, machine: StageMachine) -> None:
        """End the work on a stage that has come to rest."""
        if not machine.is_resting:
            raise BadValue(f"stage {stage} of {flow} is {machine.state}; it can be left only paused, stopped or halted")
        self._save(tx, "release_stage", flow, stage, owner, state=machine.state, pilot=to_stored(machine.to_value()))

    def save_machine(self, tx: Transaction, flow: str, stage: str, owner: str, machine: StageMachine) -> None:
        self._save(tx, "save_machine", flow, stage, owner, state=machine.state, pilot=to_stored(machine.to_value()))

    def save_sample(self, tx: Transaction, flow: str, stage: str, owner: str, sample: Mapping[str, Any]) -> None:
        self._save(tx, "save_sample", flow, stage, owner, sample=to_stored(sample))

    def save_judge(self, tx: Transaction, flow: str, stage: str, owner: str, judge: Mapping[str, Any]) -> None:
        self._save(tx, "save_judge", flow, stage, owner, judge=to_stored(judge))

    def save_topology(self, tx: Transaction, flow: str, stage: str, owner: str, topology: Any, version: str) -> None:
        self._save(tx, "save_topology", flow, stage, owner, topology=to_stored(topology), version=version)

    def new_generation(
        self,
        tx: Transaction,
        before: StageRow,
        owner: str,
        *,
        checkpoint: str,
        starting: Positions,
        topics: Topics,
    ) -> StageRow:
        """A new checkpoint that starts at these positions. Batches that are open are closed first, in the ledger."""
        values = {"checkpoint": checkpoint, "starting": starting.to_json(), "topics": to_stored(topics)}
        which = {"flow": before.flow, "stage": before.name, "owner": owner, "generation": before.generation + 1}
        found = tx.rows(self._sql["begin_generation"], {**which, **values})
        if not found:
            self._check_owner(tx, before.flow, before.name, owner)
            raise FlowHalted(
                f"stage {before.name} of {before.flow} cannot begin generation {before.generation + 1}: "
                "it has begun already, or a batch of the one before is open"
            )
        return _stage(found[0])

    def _save(self, tx: Transaction, query: str, flow: str, stage: str, owner: str, **values: Any) -> None:
        if not tx.run(self._sql[query], {"flow": flow, "stage": stage, "owner": owner, **values}):
            self._check_owner(tx, flow, stage, owner)

    def _check_owner(self, tx: Transaction, flow: str, stage: str, owner: str) -> None:
        other = self.read(tx, flow, stage).owner
        if other != owner:
            raise NotTheOnlyOne(f"stage {stage} of {flow} is run by {other or 'nobody'} now, not by {owner}")

    # What people want of it

    def ask(
        self,
        tx: Transaction,
        flow: str,
        stage: str,
        kind: StageCommandKind,
        who: str,
        why: str,
        arguments: Mapping[str, Any] | None = None,
    ) -> StageRow:
        """Want something of a stage; returns the stage as it was. A newer wish takes the place of an older one.

        `IllegalWish` when its state does not allow it.
        """
        if not who.strip() or not why.strip():
            raise BadName("who asks something of a stage gives a name and a reason")
        before = self.read(tx, flow, stage)
        values = {"wish": kind, "who": storable(who), "why": storable(why), "args": to_stored(arguments or {})}
        which = {"flow": flow, "stage": stage, "states": json.dumps(sorted(POSSIBLE[kind]))}
        if not tx.rows(self._sql["ask"], {**which, **values}):
            raise refusal(flow, stage, kind, self.read(tx, flow, stage).machine.state)
        return before

    def wish(self, tx: Transaction, flow: str, stage: str, owner: str) -> StageCommand | None:
        """What is wanted, if anything, until it is settled. Whoever does not run the stage gets nothing."""
        found = tx.rows(self._sql["read_wish"], {"flow": flow, "stage": stage, "owner": owner})
        return _wish(found[0]) if found else None

    def settle_wish(self, tx: Transaction, flow: str, stage: str, owner: str, wish: StageCommand) -> bool:
        """Called in the transaction that does what was wanted: a wish must not be lost with its process.

        False when something else is wanted by now, which is left as it is.
        """
        which = {"flow": flow, "stage": stage, "owner": owner}
        return bool(tx.rows(self._sql["settle_wish"], {**which, "wish": wish.kind, "at": to_micros(wish.at)}))


def _stage(row: Row) -> StageRow:
    flow, name, generation, topology, version, checkpoint, topics, starting, owner, *state = row
    launch, machine, judge, sample, *wish, created_at, updated_at = state
    return StageRow(
        flow,
        name,
        generation,
        json.loads(topology),
        version,
        checkpoint,
        json.loads(topics),
        Positions.from_json(starting),
        owner,
        launch,
        StageMachine.from_value(json.loads(machine)),
        json.loads(judge),
        json.loads(sample),
        _wish(wish),
        to_datetime(created_at),
        to_datetime(updated_at),
    )


def _wish(columns: Sequence[Any]) -> StageCommand | None:
    kind, who, why, at, arguments = columns
    if kind is None:
        return None
    return StageCommand(StageCommandKind(kind), who, why, to_datetime(at), json.loads(arguments))


def claim_stage(database: Database, stages: StageStore, flow: str, stage: str, owner: str) -> StageRow:
    """Begin to run a stage, also one whose last owner is dead. A living one refuses: `NotTheOnlyOne`.

    Process rows live in another file on SQLite, so who is dead is asked first; that it is still the same one who has
    the stage is asked again by the statement that takes it.
    """
    with database.read() as tx:
        other = stages.read(tx, flow, stage).owner
    dead = None
    if other is not None and other != owner:
        with database.beats.glance() as beats:
            dead = None if ProcessStore(database).living(beats, [other]) else other
    with database.transaction() as tx:
        return stages.take(tx, flow, stage, owner, dead)


class ReadProgress:
    """How far the batches of a stage have come, whatever became of them. Asked inside the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._stages = StageStore(database)
        self._sql = Queries("towpath.flow.stage", "read_progress", database.dialect)

    def stops(self, tx: Transaction, flow: str, stage: str) -> dict[Spot, int]:
        """Before these offsets a batch of it has read, or may have. None is begun until the transaction ends."""
        tx.rows(self._sql["hold_stage"], {"flow": flow, "stage": stage})
        return self.stops_now(tx, flow, stage)

    def stops_now(self, tx: Transaction, flow: str, stage: str) -> dict[Spot, int]:
        """The same, and it may go on meanwhile."""
        found: dict[Spot, int] = {}
        for (positions,) in tx.rows(self._sql["covering"], {"flow": flow, "stage": stage}):
            for spot, stop in Positions.from_json(positions).stops.items():
                found[spot] = max(stop, found.get(spot, 0))
        return found

    def keeps_state(self, tx: Transaction, flow: str, stage: str) -> bool:
        """Whether the stage gives records to functions with state, before anybody can pass over them."""
        try:
            topology = self._stages.read(tx, flow, stage).topology
        except UnknownFlow:
            return False
        steps: Collection[dict[str, object]] = topology.get("steps", ()) if isinstance(topology, dict) else ()
        return any(step.get(name) for step in steps for name in _KEEPING)


def read_stops(database: Database, row: StageRow) -> dict[Spot, int]:
    """Where a stage has come to: the end of its last committed batch, or where its generation began."""
    with database.read() as tx:
        last = Ledger(database).last_committed(tx, row.flow, row.name, row.generation)
    return last.positions.stops if last is not None else row.starting.stops
