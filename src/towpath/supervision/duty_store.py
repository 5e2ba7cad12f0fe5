"""The table `duty`: what has to run, and the launch of each that may."""

from __future__ import annotations

import json
from typing import Any

from towpath.db import Database, Queries, Transaction
from towpath.db.text import storable
from towpath.errors import IllegalDutyMove, UnknownDuty
from towpath.supervision.duty import Duty, Wanted
from towpath.supervision.duty_state import MOVES, DutyMove, DutyState

LONGEST_TROUBLE = 2_000
LAUNCHES_KEPT = 5  # of each duty, with their logs


class DutyStore:
    """Reads and moves duties inside a transaction that the caller opens.

    What changes a launch names its id: one that is not the current one any more is refused.
    """

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.supervision", "duties", database.dialect)

    def all(self, tx: Transaction) -> list[Duty]:
        return [Duty.from_row(row) for row in tx.rows(self._sql["all_duties"], {})]

    def version(self, tx: Transaction) -> tuple[int, ...]:
        """Another one whenever something about a duty has changed."""
        return tuple(int(each) for each in tx.rows(self._sql["duties_version"], {})[0])

    def read(self, tx: Transaction, name: str) -> Duty:
        """One of them; raises `UnknownDuty`."""
        rows = tx.rows(self._sql["read_duty"], {"name": name})
        if not rows:
            raise UnknownDuty(name, (each.name for each in self.all(tx)))
        return Duty.from_row(rows[0])

    # What people and settings wish

    def want(self, tx: Transaction, wanted: Wanted, who: str, why: str) -> Duty:
        """It is to run in this way; what runs in another way makes way for a new start."""
        by = {"who": storable(who), "why": storable(why)}
        spec = wanted.spec.to_json()
        params = {"name": wanted.name, "kind": wanted.kind, "host": wanted.host, "spec": spec, **by}
        made = tx.rows(self._sql["insert_duty"], params)
        if made:
            return Duty.from_row(made[0])
        [row] = tx.rows(self._sql["lock_duty"], {"name": wanted.name})
        before = Duty.from_row(row)
        is_other = before.is_running and (before.spec, before.host) != (wanted.spec, wanted.host)
        [row] = tx.rows(self._sql["change_duty"], {**params, "is_other": int(is_other)})
        if before.state in (DutyState.STOPPED, DutyState.FAILED):
            return self._move(tx, DutyMove.WANT, "want_duty", name=wanted.name, **by)
        return Duty.from_row(row)

    def restart(self, tx: Transaction, name: str, who: str, why: str) -> Duty:
        """What runs of it makes way for a new start; what does not run is started without further wait."""
        by = {"name": name, "who": storable(who), "why": storable(why)}
        for query in ("replace_launch", "want_duty"):
            if rows := tx.rows(self._sql[query], by):
                return Duty.from_row(rows[0])
        return self.read(tx, name)  # it waits for its start already

    def stop(self, tx: Transaction, name: str, who: str, why: str) -> Duty:
        """It is not to run; what runs of it is told so by the coordinator."""
        rows = tx.rows(self._sql["wish_stop"], {"name": name, "who": storable(who), "why": storable(why)})
        if not rows:
            return self.read(tx, name)  # which says that there is none
        cancelled = tx.rows(self._sql["cancel_duty"], {"name": name})
        return Duty.from_row((cancelled or rows)[0])

    def forget(self, tx: Transaction, name: str) -> bool:
        """Whether it is gone; one of which something may run stays."""
        return bool(tx.run(self._sql["forget_duty"], {"name": name}))

    # What the coordinator does, under its term

    def launch(self, tx: Transaction, name: str, launch_id: str) -> Duty:
        """Take a start, before anything is started."""
        return self._move(tx, DutyMove.LAUNCH, "launch_duty", name=name, launch_id=launch_id)

    def cancel(self, tx: Transaction, name: str) -> Duty:
        """Nothing of it runs, and nothing of it is to run."""
        return self._move(tx, DutyMove.CANCEL, "cancel_duty", name=name)

    def tell_to_stop(self, tx: Transaction, duty: Duty) -> Duty:
        return self._move(tx, DutyMove.STOP, "stop_duty", name=duty.name, launch_id=duty.launch_id)

    def die(self, tx: Transaction, duty: Duty, next_try_us: int, early_deaths: int, trouble: str) -> Duty:
        """The process of its launch is gone for certain."""
        after = {"next_try_us": next_try_us, "early_deaths": early_deaths, "trouble": _short(trouble)}
        return self._move(tx, DutyMove.DIE, "duty_died", name=duty.name, launch_id=duty.launch_id, **after)

    def give_up(self, tx: Transaction, name: str) -> Duty:
        return self._move(tx, DutyMove.GIVE_UP, "give_up_duty", name=name)

    def end(self, tx: Transaction, duty: Duty, trouble: str = "") -> Duty:
        """The process that was told to stop has ended: stopped, or the next start may come."""
        told = {"launch_id": duty.launch_id, "trouble": _short(trouble)}
        if rows := tx.rows(self._sql["duty_made_way"], dict(told)):
            return Duty.from_row(rows[0])
        return self._move(tx, DutyMove.END, "duty_ended", name=duty.name, **told)

    def settle(self, tx: Transaction, launch_id: str) -> Duty | None:
        """The process of a launch is at work; none when it is not starting any more."""
        rows = tx.rows(self._sql["duty_ready"], {"launch_id": launch_id})
        return Duty.from_row(rows[0]) if rows else None

    # Facts about a launch; they count while it is the current one

    def note_handle(self, tx: Transaction, launch_id: str, handle: str) -> list[str]:
        """Returns those of earlier launches of which nothing need be kept any more."""
        rows = tx.rows(self._sql["handles_of_launch"], {"launch_id": launch_id})
        if not rows:
            return []
        handles = [*(each for each in json.loads(rows[0][0]) if each != handle), handle]
        kept = json.dumps(handles[-LAUNCHES_KEPT:])
        tx.run(self._sql["note_handle"], {"launch_id": launch_id, "handle": handle, "handles": kept})
        return handles[:-LAUNCHES_KEPT]

    def note_exit(
        self, tx: Transaction, launch_id: str, exit_code: int | None, signal: int | None, last_line: str = ""
    ) -> bool:
        """Whether that is news."""
        how = {"exit_code": exit_code, "exit_signal": signal, "trouble": _short(last_line)}
        return bool(tx.rows(self._sql["note_exit"], {"launch_id": launch_id, **how}))

    def note_trouble(self, tx: Transaction, launch_id: str, trouble: str) -> bool:
        return bool(tx.rows(self._sql["note_trouble"], {"launch_id": launch_id, "trouble": _short(trouble)}))

    def adopt(self, tx: Transaction, name: str, launch: int, launch_id: str, process_id: str) -> bool:
        """Whether a process may do its duty: its launch is the current one, and nobody else has shown it."""
        shown = {"name": name, "launch": launch, "launch_id": launch_id, "process_id": process_id}
        return bool(tx.rows(self._sql["adopt_launch"], shown))

    def give_back(self, tx: Transaction, launch_id: str, process_id: str) -> None:
        """A process that was never ready has ended in order."""
        tx.run(self._sql["give_back_launch"], {"launch_id": launch_id, "process_id": process_id})

    def is_current(self, tx: Transaction, launch_id: str, process_id: str) -> bool:
        return bool(tx.rows(self._sql["is_current"], {"launch_id": launch_id, "process_id": process_id}))

    def _move(self, tx: Transaction, move: DutyMove, query: str, *, name: str, **params: Any) -> Duty:
        # A launch id says more than the name, where there is one.
        given = params if "launch_id" in params and move is not DutyMove.LAUNCH else {"name": name, **params}
        rows = tx.rows(self._sql[query], given)
        if not rows:
            raise IllegalDutyMove(name, self.read(tx, name).state, f"being {move.value}", MOVES[move].sources)
        return Duty.from_row(rows[0])


def _short(text: str) -> str:
    return storable(text)[:LONGEST_TROUBLE]
