"""How far the batches of a stage have come, whatever became of them."""

from __future__ import annotations

from collections.abc import Collection

from towpath.db import Database, Queries, Transaction
from towpath.errors import UnknownFlow
from towpath.flow.positions import Positions, Spot
from towpath.flow.stage_store import StageStore

# Of the steps of a stage, in its topology: what makes it keep something of the records that it reads.
_KEEPING = ("dedupe", "stateful", "join")


class Covered:
    """Asked inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._stages = StageStore(database)
        self._sql = Queries("towpath.flow", "covered", database.dialect)

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
