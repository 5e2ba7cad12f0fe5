"""The desk as persons and programs use it. The command line and the API call only this.

Reading: `cases`, `groups` and `jobs`. Changing, each by name and with a reason, in one transaction with
history and event: `operate`, `edits`, `groups` and `jobs`. Nothing here loads Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from towpath.actors.actors import Actors
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.desk.desk_parts import DeskParts, Maker
from towpath.desk.editing import Editing
from towpath.desk.job_state import JobKind
from towpath.desk.jobs import Jobs
from towpath.desk.looking import Looking
from towpath.desk.masking import NO_MASKS, Masks, sees_all
from towpath.desk.operating import Operating
from towpath.desk.operating_groups import OperatingGroups
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
        parts = DeskParts.of(settings, database, event_log, actors, log, makers or {})
        self._settings = settings.desk
        self.cases = Looking(parts)
        self.operate = Operating(parts)
        self.edits = Editing(parts)
        self.jobs = Jobs(parts)
        self.groups = OperatingGroups(parts, self.jobs)

    def masks_for(self, role: str) -> Masks:
        """What a role may not see."""
        return NO_MASKS if sees_all(role, self._settings.sees_masked) else Masks(self._settings.masked)
