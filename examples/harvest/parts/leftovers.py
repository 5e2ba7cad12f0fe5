"""What is left of runs that were given up, and how what data sets leave behind is removed."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from towpath.catalog import DataSet, DataSetState
from towpath.errors import UnknownMessage
from towpath.queue.states import TERMINAL
from towpath.runtime import Runtime

WHO = "harvest"
MOST = 1_000


def give_up_leftovers(runtime: Runtime) -> list[str]:
    """Delete the data sets whose order has come to its end without them; returns their ids."""
    runtime.data_sets.sweep()
    found = runtime.data_sets.list(state=DataSetState.MAKING, limit=MOST)
    given_up = [each.id for each in found if not _is_under_way(runtime, each)]
    for id in given_up:
        runtime.data_sets.delete(id, who=WHO, why="its order has come to an end without it")
    return given_up


def _is_under_way(runtime: Runtime, found: DataSet) -> bool:
    """Whether somebody may still finish it: the last word of its origin is the id of its order."""
    order_id = found.origin.rpartition(" ")[2]
    with runtime.database.glance() as tx:
        try:
            return runtime.queue.parts.messages.read(tx, order_id).state not in TERMINAL
        except UnknownMessage:
            return False


def know_removals(runtime: Runtime) -> None:
    """Crawls are directories, which Towpath can remove. Records and rows are this example's own."""

    def nothing(place: str, id: str) -> None:
        """Records of a topic go by its retention. Deleted, nobody counts on them any more."""

    def empty(place: str, id: str) -> None:
        """Unless another index is ready in the same table: then the rows are that one's."""
        ready = runtime.data_sets.list(kind="index", state=DataSetState.READY, limit=MOST)
        if not any(each.place == place for each in ready):
            file = place.removeprefix("table:").rpartition("#")[0]
            with closing(sqlite3.connect(file, timeout=30)) as connection, connection:
                if connection.execute("select 1 from sqlite_schema where name = 'documents'").fetchone():
                    connection.execute("delete from documents")

    runtime.data_sets.removes("topic", nothing)
    runtime.data_sets.removes("table", empty)
