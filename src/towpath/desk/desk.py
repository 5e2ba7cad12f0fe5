"""The desk as people and programs use it; the command line and the API call only this.

`cases`, `groups` and `jobs` read. `operate`, `edits`, `groups` and `jobs` change: each call names who and why, and is
one transaction with a history row and an event. Nothing here loads Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from towpath.actors.service import Actors
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.jobs import JobService
from towpath.desk.actions.service import CaseActions
from towpath.desk.case_queries import CaseQueries
from towpath.desk.context import DeskContext, Maker
from towpath.desk.edits import CaseEdits
from towpath.desk.groups.service import GroupActions
from towpath.desk.masks import NO_MASKS, Masks, sees_all
from towpath.log.log import Log
from towpath.settings import Settings


class Desk:
    """Cases, groups and bulk jobs of one database."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        event_log: EventLog,
        actors: Actors,
        log: Callable[[], Log],
        makers: Mapping[JobKind, Maker] | None = None,
    ) -> None:
        parts = DeskContext(settings, database, event_log, actors, log=log, makers=makers)
        self._settings = settings.desk
        self.cases = CaseQueries(parts)
        self.operate = CaseActions(parts)
        self.edits = CaseEdits(parts)
        self.jobs = JobService(parts)
        self.groups = GroupActions(parts, self.jobs)

    def masks_for(self, role: str) -> Masks:
        """What a role may not see."""
        return NO_MASKS if sees_all(role, self._settings.sees_masked) else Masks(self._settings.masked)
