"""Whether there is a way back for a record: the flow and stage that it came from, and the topic that it has to go to.

Asked before anything is moved: a case that is *replaying* into a topic that is gone would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from towpath.db import Database
from towpath.desk.case_state import CaseState
from towpath.errors import UnknownFlow, UnknownTopic
from towpath.flow.stage_store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log


class Subject(Protocol):
    """As much of a case as it takes to do something to it."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> CaseState: ...
    @property
    def flow(self) -> str: ...
    @property
    def stage(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def group_id(self) -> int: ...


class Way(NamedTuple):
    """Where a record is to go: to its stage by way of the re-entry topic, or to a source."""

    flow: str
    stage: str
    source: str | None = None


class Ways:
    """Remembers its answers, which cost a question to the log. Made anew for each piece of work."""

    def __init__(self, database: Database, log: Callable[[], Log]) -> None:
        self._database = database
        self._stages = StageStore(database)
        self._log = log
        self._known: dict[Way, str | None] = {}

    def unknown(self, ways: Iterable[Way]) -> list[Way]:
        """Those that were not asked for yet."""
        return [way for way in dict.fromkeys(ways) if way not in self._known]

    def ask(self, ways: Iterable[Way]) -> None:
        """Find out about them. Outside of a transaction: a log may take its time."""
        for way in self.unknown(ways):
            self._known[way] = self._refusal(way)

    def refusal(self, way: Way) -> str | None:
        """Why nothing can go there; None if it can."""
        return self._known[way]

    def _refusal(self, way: Way) -> str | None:
        try:
            if way.source is not None:
                self._log().topic(way.source)
                return None
            with self._database.read() as tx:
                self._stages.read(tx, way.flow, way.stage)
            self._log().topic(FlowTopics.of(way.flow).reentry)
        except UnknownFlow:
            return f"there is no stage {way.stage} of a flow {way.flow} here any more that could read it"
        except UnknownTopic as error:
            return f"the topic {error.name} is gone, so that it has nowhere to go"
        return None


def way_back(case: Subject) -> Way:
    return Way(case.flow, case.stage)


def way_to_source(case: Subject) -> Way:
    return Way(case.flow, case.stage, case.topic)
