"""The `desk_lane` table: which partition waits for how long, who has it, and how far it has come."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from towpath.db import Database, Queries, Transaction
from towpath.desk.lane import Beyond, Lane, nearest
from towpath.errors import DatabaseUnavailable, LaneLost, UnknownLane

MOST_LANES = 100  # of a flow: what waits for yet another time waits in the nearest of them
TRIES = 20


@dataclass(frozen=True, slots=True)
class Crowd:
    """What waits in a lane."""

    cases: int = 0
    first_due: int | None = None
    last_due: int | None = None


class LaneStore:
    """Reads and changes lanes inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk", "lanes", database.dialect)

    def ensure(self, tx: Transaction, flow: str, delay_ms: int, jitter_ms: int | None = None) -> Lane:
        """The lane of that delay, made when it is new."""
        for _ in range(TRIES):
            found = self._of_delay(tx, flow, delay_ms)
            if found is None and len(lanes := self.of_flow(tx, flow)) >= MOST_LANES:
                found = nearest(lanes, delay_ms)
            if found is not None:
                return self._with_jitter(tx, found, jitter_ms)
            tx.run(self._sql["add_lane"], {"flow": flow, "delay_ms": delay_ms})
        raise DatabaseUnavailable(f"no lane of {delay_ms} ms could be made for {flow}: others make lanes all the time")

    def _of_delay(self, tx: Transaction, flow: str, delay_ms: int) -> Lane | None:
        rows = tx.rows(self._sql["lane_of_delay"], {"flow": flow, "delay_ms": delay_ms})
        return Lane.from_row(rows[0]) if rows else None

    def _with_jitter(self, tx: Transaction, lane: Lane, jitter_ms: int | None) -> Lane:
        if jitter_ms is not None and jitter_ms != lane.jitter_ms:
            which = {"flow": lane.flow, "partition": lane.partition}
            tx.run(self._sql["set_jitter"], {**which, "jitter_ms": jitter_ms})
        return lane

    def read(self, tx: Transaction, flow: str, partition: int) -> Lane:
        """One of them; raises `UnknownLane`."""
        rows = tx.rows(self._sql["read_lane"], {"flow": flow, "partition": partition})
        if not rows:
            raise UnknownLane(flow, partition)
        return Lane.from_row(rows[0])

    def of_flow(self, tx: Transaction, flow: str | None = None) -> list[Lane]:
        """The lanes of one flow, or of all."""
        return [Lane.from_row(row) for row in tx.rows(self._sql["list_lanes"], {"flow": flow})]

    def crowds(self, tx: Transaction, flow: str) -> dict[int, Crowd]:
        """What waits in the lanes of a flow."""
        return {row[0]: Crowd(*row[1:]) for row in tx.rows(self._sql["waiting_in"], {"flow": flow})}

    def waiting_in(self, tx: Transaction, lane: Lane, limit: int) -> list[str]:
        """Some of the cases that wait in a lane."""
        params = {"flow": lane.flow, "lane": lane.partition, "limit": limit}
        return [str(id) for (id,) in tx.rows(self._sql["ids_waiting_in"], params)]

    # Who has them

    def owners(self, tx: Transaction) -> set[str]:
        return {owner for (owner,) in tx.rows(self._sql["owners"], {})}

    def claim(self, tx: Transaction, lane: Lane, owner: str) -> Lane | None:
        """The lane as it is now, this process's; None when another was faster."""
        rows = tx.rows(self._sql["claim_lane"], {**_which(lane), "owner": owner})
        return Lane.from_row(rows[0]) if rows else None

    def free(self, tx: Transaction, owners: Collection[str]) -> int:
        """Lanes of these are nobody's from now on; returns how many."""
        return sum(tx.run(self._sql["free_lanes_of"], {"owner": owner}) for owner in owners)

    def want(self, tx: Transaction, lane: Lane, me: str) -> bool:
        """Ask the owner of a lane for it; false when another has asked."""
        return bool(tx.rows(self._sql["want_lane"], {**_which(lane), "owner": lane.owner, "wanted_by": me}))

    def hand_over(self, tx: Transaction, lane: Lane, owner: str) -> bool:
        """Give a lane to whoever asked for it; false when nobody did, or it is not this process's."""
        return bool(tx.rows(self._sql["hand_over"], {**_which(lane), "owner": owner}))

    # What it has released

    def plan(self, tx: Transaction, lane: Lane, owner: str, position: int, beyond: Beyond) -> int:
        """Write down what the next release takes, and return its number; `LaneLost` when it is not this process's."""
        return self._write(tx, "plan_release", lane, owner, lane.release + 1, position, beyond)

    def mend(self, tx: Transaction, lane: Lane, owner: str, release: int, position: int, beyond: Beyond) -> int:
        """Write down where it is by what the log says; `LaneLost` when it is not this process's."""
        return self._write(tx, "mend_plan", lane, owner, release, position, beyond)

    def _write(
        self, tx: Transaction, query: str, lane: Lane, owner: str, release: int, position: int, beyond: Beyond
    ) -> int:
        values = {"release": release, "position": position, "beyond": beyond.to_json()}
        if not tx.rows(self._sql[query], {**_which(lane), "owner": owner, **values}):
            raise LaneLost(lane.name, owner)
        return release

    # What people want of it

    def pause(self, tx: Transaction, lane: Lane, *, is_paused: bool) -> bool:
        """Whether that changed anything."""
        return bool(tx.rows(self._sql["pause_lane"], {**_which(lane), "is_paused": int(is_paused)}))

    def hurry(self, tx: Transaction, lane: Lane, to: int) -> Lane:
        """What is due before that time counts as due now."""
        rows = tx.rows(self._sql["hurry_lane"], {**_which(lane), "hurried_to": to})
        return Lane.from_row(rows[0])


def _which(lane: Lane) -> dict[str, object]:
    return {"flow": lane.flow, "partition": lane.partition}
