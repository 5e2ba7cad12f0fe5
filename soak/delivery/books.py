"""What Towpath has written down, read with plain SQL: how far each stage is, and how often it had to try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg

from soak.delivery.flow import FLOW

CONNECT_S = 3
_OPEN = """select stage, batch_id, state, attempts from towpath.flow_batch
where flow = %s and state in ('snapshot', 'decided') order by stage, batch_id"""
_HALTED = "select count(*) from towpath.flow_stage where flow = %s and pilot ->> 'state' = 'halted'"
_COMMITTED = "select count(*) from towpath.flow_batch where flow = %s and state = 'committed'"
_LAST = """select distinct on (stage) stage, state, positions from towpath.flow_batch where flow = %s
order by stage, generation desc, batch_id desc"""
_TRIES = """select count(*), count(*) filter (where attempts > 1), coalesce(sum(attempts - 1), 0)
from towpath.flow_batch where flow = %s"""
_STAGES = "select stage, pilot, launch from towpath.flow_stage where flow = %s order by stage"

Ends = dict[tuple[str, int], int]  # by topic and partition


class Open(NamedTuple):
    """A batch that is not committed."""

    stage: str
    batch: int
    state: str  # how far it is: `snapshot`, or `decided`
    attempt: int


@dataclass(frozen=True, slots=True)
class Tries:
    """Of all batches."""

    batches: int
    tried_again: int  # how many of them
    more: int  # attempts beside the first


class Books:
    """Opened anew for each look: the database may have been killed in between."""

    def __init__(self, url: str) -> None:
        self._url = url

    def open_batches(self) -> list[Open] | None:
        """The batches at work; None when the database does not say."""
        try:
            return [Open(*row) for row in self._rows(_OPEN)]
        except psycopg.Error:
            return None

    def has_halted(self) -> bool:
        """Whether a stage waits for a person: nothing in a run calls for that."""
        return bool(self._count(_HALTED))

    def committed(self) -> int | None:
        """How many batches are done; None when the database does not say."""
        return self._count(_COMMITTED)

    def is_read(self, ends: Ends) -> bool:
        """Whether every stage has committed up to these ends."""
        reached: Ends = {}
        for _, state, positions in self._rows(_LAST):
            if state != "committed":
                return False
            for topic in positions:
                for partition, (_, stop) in topic["ranges"].items():
                    reached[topic["topic"], int(partition)] = stop
        return all(reached.get(place, 0) == end for place, end in ends.items())

    def tries(self) -> Tries:
        [(batches, again, more)] = self._rows(_TRIES)
        return Tries(int(batches), int(again), int(more))

    def stages(self) -> list[str]:
        """How each stage is, for people."""
        try:
            found = self._rows(_STAGES)
        except psycopg.Error as error:
            return [f"the database does not say how the stages are: {error}"]
        return [
            f"stage {stage} is {machine['state']} (launch {launch}): "
            f"{machine.get('reason') or machine.get('last_error')}"
            for stage, machine, launch in found
        ]

    def _count(self, query: str) -> int | None:
        try:
            [(count,)] = self._rows(query)
        except psycopg.Error:
            return None
        return int(count)

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url, connect_timeout=CONNECT_S) as connection:
            return connection.execute(query, (FLOW,)).fetchall()
