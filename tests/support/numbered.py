"""Records that senders have numbered, and a flow that drops what was sent before."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.flows import World

from towpath import Flow, table, topic
from towpath.flow.stateful import Dedupe, header
from towpath.log import NewRecord

BY_HEADERS = Dedupe(sender=header("sender"), sequence=header("n"))


class Sent(NamedTuple):
    """One record of a sender. `name` tells two with the same number apart."""

    sender: str | None
    number: int | str | None
    name: str = ""
    epoch: int | None = None
    partition: int | None = None

    @property
    def document(self) -> dict[str, Any]:
        return {"sender": self.sender, "n": self.number, "name": self.name}

    def record(self) -> NewRecord:
        said = {"sender": self.sender, "n": self.number, "epoch": self.epoch}
        headers = tuple((name, str(value).encode()) for name, value in said.items() if value is not None)
        return NewRecord(json.dumps(self.document).encode(), b"k", headers, partition=self.partition)


def send(world: World, records: Sequence[Sent], topic: str = "orders", partitions: int = 2) -> None:
    log = world.runtime.log
    if topic not in {each.name for each in log.topics()}:
        log.create_topic(topic, partitions)
    log.append(topic, [record.record() for record in records])


def orders(home: Path, dedupe: Dedupe | None = BY_HEADERS, name: str = "numbered", source: str = "orders") -> Flow:
    made = Flow(name)
    made.load(made.source(topic(source, dedupe=dedupe)), table("orders", url=f"sqlite:///{home}/out.db"), name="out")
    return made


def loaded(home: Path) -> list[str]:
    """The names of what is in the table."""
    with sqlite3.connect(home / "out.db") as connection:
        return sorted(json.loads(text)["name"] for (text,) in connection.execute("select document from orders"))
