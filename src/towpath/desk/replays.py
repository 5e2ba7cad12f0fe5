"""Whether records of an upload are on their way back into their flow, for whoever wants to wait for them."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from towpath.db import Database, Queries
from towpath.desk.policy_store import Origin, PolicyStore
from towpath.desk.position_store import PositionStore, Reading
from towpath.errors import UnknownTopic
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log

UPLOAD = "upload"  # the header that has the id of a record's upload


class UploadReplays:
    """Asks the cases of a flow. What the desk has not read yet may become one."""

    def __init__(self, database: Database, log: Callable[[], Log]) -> None:
        self._database = database
        self._log = log
        self._sql = Queries("towpath.desk", "replays", database.dialect)
        self._positions = PositionStore(database)
        self._policies = PolicyStore(database)

    def are_under_way(self, flow: str, upload: str) -> bool:
        """Whether a lane has some, or they are out, or nobody can tell yet."""
        header = orjson.dumps((UPLOAD, upload)).decode()
        with self._database.read() as tx:
            declared = {each.flow: each.error_topic for each in self._policies.latest(tx) if each.origin is Origin.CODE}
            read = {
                each.partition: each.position
                for each in self._positions.of_flow(tx, flow)
                if each.reading is Reading.ERRORS
            }
            if tx.rows(self._sql["under_way"], {"flow": flow, "header": f"%{header}%"}):
                return True
        ends = self._ends(FlowTopics.of(flow, declared.get(flow)).errors)
        return any(read.get(number, 0) < end for number, end in ends.items())

    def _ends(self, topic: str) -> dict[int, int]:
        try:
            return self._log().ends(topic)
        except UnknownTopic:
            return {}
