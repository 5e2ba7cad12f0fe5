"""The `upload_pass` table: where the data of an upload ends for each stage of its flow, and when the stage came there.

A row is made once and passed once. The input `>topic` stands for what other stages have written to that topic; the
stage `""` for all stages that read an input, and with the input `*` for everything.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import NamedTuple

from towpath.db import Database, Queries, Transaction

EVERYTHING = "*"
ALL_STAGES = ""
WRITTEN = ">"


class Ends(NamedTuple):
    """Where data ends in a topic, by partition. A topic that was made again has another id."""

    topic_id: str
    stops: Mapping[int, int]

    def to_json(self) -> str:
        return json.dumps({"id": self.topic_id, "stops": {str(number): stop for number, stop in self.stops.items()}})

    @classmethod
    def from_json(cls, text: str) -> Ends:
        value = json.loads(text)
        return cls(value["id"], {int(number): stop for number, stop in value["stops"].items()})


NO_ENDS = Ends("", {})


class Pass(NamedTuple):
    """The end of an input at a stage."""

    upload: str
    input: str
    stage: str
    ends: Ends
    passed_us: int | None

    @property
    def is_passed(self) -> bool:
        return self.passed_us is not None


class PassStore:
    """Reads and moves rows inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.boundary", "passes", database.dialect)

    def add(self, tx: Transaction, upload: str, input: str, stage: str, ends: Ends = NO_ENDS) -> bool:
        """Fix the end of an input at a stage; False when that was done before, which stays as it is."""
        values = {"upload": upload, "input": input, "stage": stage, "positions": ends.to_json()}
        return tx.run(self._sql["add_pass"], values) > 0

    def mark(self, tx: Transaction, upload: str, input: str, stage: str) -> bool:
        """The stage has come there; False when that was known."""
        return bool(tx.rows(self._sql["mark_passed"], {"upload": upload, "input": input, "stage": stage}))

    def of_upload(self, tx: Transaction, upload: str) -> list[Pass]:
        rows = tx.rows(self._sql["passes_of_upload"], {"upload": upload})
        return [Pass(upload, input, stage, Ends.from_json(positions), at) for input, stage, positions, at in rows]

    def has_passed(self, tx: Transaction, upload: str, input: str) -> bool:
        """Whether all stages that read the input have come to its end."""
        return bool(tx.rows(self._sql["has_passed"], {"upload": upload, "input": input}))

    def under_way(self, tx: Transaction, streams: Collection[str]) -> list[str]:
        """The uploads of these streams that have an end which some stage may not have come to."""
        return [id for (id,) in tx.rows(self._sql["under_way"], {"streams": json.dumps(sorted(streams))})]

    def ready(self, tx: Transaction, streams: Collection[str]) -> list[tuple[str, int]]:
        """The uploads of these streams that are closing and that all stages have come to the end of, and since when."""
        return [(id, at) for id, at in tx.rows(self._sql["ready"], {"streams": json.dumps(sorted(streams))})]
