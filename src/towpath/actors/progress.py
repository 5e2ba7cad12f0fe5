"""How far spawned processes are with what actors have ordered of them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from towpath.clock import to_datetime
from towpath.db import Database, Queries

MOST = 500


class Progress(NamedTuple):
    """A message that a spawned process works on."""

    spawner: str  # the inbox of the instance that has spawned it
    message_id: str
    percent: float
    stage: str
    told_at: datetime | None
    waiting: str | None  # the inbox of the instance that waits for it


def progress(database: Database, limit: int = MOST) -> list[Progress]:
    """Of all that work on something now."""
    sql = Queries("towpath.actors", "progress", database.dialect)
    with database.glance() as tx:
        rows = tx.rows(sql["progress"], {"limit": limit})
    return [
        Progress(spawner, str(message_id), percent or 0.0, stage or "", told and to_datetime(told), waiting)
        for spawner, message_id, percent, stage, told, waiting in rows
    ]
