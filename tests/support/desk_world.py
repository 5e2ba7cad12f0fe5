"""A flow as the desk sees it, and cases of it, without Spark: rows as intake writes them."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from towpath.desk.actions.job_store import BulkJob
from towpath.desk.cases.model import ERROR, GAP, Case, CaseSelection, CaseState, NewCase
from towpath.desk.context import DeskContext
from towpath.desk.desk import Desk
from towpath.desk.groups.model import Fingerprint
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.stage.store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.log.record import Headers, encode_headers
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

FLOW, STAGE, SOURCE = "shop", "main", "orders"
COLUMNS = {"id": "bigint not null", "city": "string", "email": "string"}
HEADERS: Headers = (("towpath.stage", STAGE.encode()),)
FAILURE = RecordFailure(ErrorCode.TRANSFORM_FAILED, "price", "KeyError", "no price for 17")


def topology(columns: dict[str, str] | None = COLUMNS, **said: Any) -> dict[str, Any]:
    """As the row of a stage has it."""
    source = {"name": SOURCE, "kind": "source", "topics": [SOURCE], "duplicates": "refuse", "extra": "keep"}
    return {"topics": [SOURCE], "steps": [{**source, "columns": columns, "rules": None, "join": None, **said}]}


class World:
    """One flow with a source topic, whose cases are made by hand."""

    def __init__(self, runtime: Runtime, *, log: bool = True, shape: dict[str, Any] | None = None) -> None:
        self.runtime = runtime
        self.database = runtime.database
        self.desk: Desk = runtime.desk
        self.parts = DeskContext(
            runtime.settings, runtime.database, runtime.event_log, runtime.actors, log=lambda: runtime.log
        )
        self.offset = 0
        with self.database.transaction() as tx:
            StageStore(self.database).ensure(tx, FLOW, STAGE, topology() if shape is None else shape)
        if log:
            FlowTopics.of(FLOW).ensure(runtime.log, 1)
            runtime.log.create_topic(SOURCE, 1)

    def case(self, value: bytes | None = None, **said: Any) -> Case:
        """One more."""
        values = None if value is None else [value]
        return self.cases(1, values=values, **said)[0]

    def cases(
        self,
        count: int,
        *,
        state: CaseState = CaseState.OPEN,
        failure: RecordFailure = FAILURE,
        values: list[bytes] | None = None,
        headers: Headers = HEADERS,
        kind: str = ERROR,
        flow: str = FLOW,
        **said: Any,
    ) -> list[Case]:
        """Some more, as intake would have made them."""
        fingerprint = Fingerprint.of(failure)
        now = self.database.now()
        with self.database.transaction() as tx:
            groups, _ = self.parts.groups.of_fingerprints(tx, flow, [fingerprint], now)
            new = [
                self._new(
                    number, groups[fingerprint.text], fingerprint.text, state, failure, values, headers, kind, flow
                )
                for number in range(count)
            ]
            new = [each._replace(**said) for each in new]
            self.parts.cases.insert(tx, new)
            found = self.parts.cases.some(tx, [each.id for each in new])
        return [found[each.id] for each in new]

    def _new(
        self,
        number: int,
        group: int,
        fingerprint: str,
        state: CaseState,
        failure: RecordFailure,
        values: list[bytes] | None,
        headers: Headers,
        kind: str,
        flow: str,
    ) -> NewCase:
        self.offset += 1
        value = values[number] if values else f'{{"id":{self.offset},"city":"Bonn"}}'.encode()
        is_gap = kind == GAP
        digest = hashlib.sha256(f"{flow}/{self.offset}".encode()).digest()
        return NewCase(
            id=str(uuid.UUID(bytes=digest[:16])),
            flow=flow,
            stage=STAGE,
            kind=kind,
            group_id=group,
            fingerprint=fingerprint,
            state=state,
            code=int(failure.code),
            step=failure.step,
            exception=failure.exception,
            message=failure.message,
            output=None,
            topic=SOURCE,
            topic_id="t1",
            partition=0,
            offset=self.offset,
            stop=self.offset + 10 if is_gap else None,
            key=f"k{self.offset}".encode(),
            hash="h1",
            error_topic=f"{flow}.errors",
            error_partition=0,
            error_offset=self.offset,
            failed_at=self.database.now(),
            body_bytes=0 if is_gap else len(value),
            value=None if is_gap else value,
            headers=None if is_gap else encode_headers(headers),
            settled_by="rule:1" if state is CaseState.IGNORED else None,
            settled_why="approved" if state is CaseState.IGNORED else None,
        )

    def read(self, case: Case | str) -> Case:
        with self.database.read() as tx:
            return self.parts.cases.read(tx, case if isinstance(case, str) else case.id)

    def states(self) -> dict[str, int]:
        """How many cases are in each state."""
        with self.database.read() as tx:
            counts = {state: self.parts.cases.count(tx, CaseSelection(states=(state,))) for state in CaseState}
        return {state: count for state, count in counts.items() if count}

    @contextmanager
    def hosted(self) -> Iterator[None]:
        """Bulk jobs are carried out in this process meanwhile."""
        self.runtime.actors.register(self.desk.jobs.actor())
        host = self.runtime.actors.host()
        host.start()
        try:
            yield
        finally:
            host.stop()

    def ended(self, job: BulkJob, timeout_s: float = 60) -> BulkJob:
        """The job, when it has come to its end."""
        return self.until(job, lambda now: now.ended_at is not None, timeout_s)

    def until(self, job: BulkJob, holds: Callable[[BulkJob], bool], timeout_s: float = 60) -> BulkJob:
        def look() -> BulkJob | None:
            now = self.desk.jobs.show(job.id).job
            return now if holds(now) else None

        found = wait_until(look, timeout_s=timeout_s, what=f"job {job.name}")
        assert found is not None
        return found


@pytest.fixture
def desk_log(database_settings: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """A log beside either database, without a broker."""
    is_sqlite = str(database_settings["url"]).startswith("sqlite")
    return {"url": "embedded" if is_sqlite else f"sqlite:///{tmp_path}/log.db"}


@pytest.fixture
def make_desk(make_runtime: Callable[..., Runtime], desk_log: dict[str, Any], tmp_path: Path) -> Callable[..., Runtime]:
    """Runtimes on one database and one log."""

    def make(**sections: dict[str, Any]) -> Runtime:
        desk = {"directory": str(tmp_path / "desk"), **sections.pop("desk", {})}
        return make_runtime(log=desk_log, desk=desk, **sections)

    return make


@pytest.fixture
def desk_runtime(make_desk: Callable[..., Runtime]) -> Runtime:
    return make_desk()


@pytest.fixture
def desk_variables(
    variables: dict[str, str], desk_log: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for commands."""
    monkeypatch.setenv("TOWPATH_LOG__URL", desk_log["url"])
    monkeypatch.setenv("TOWPATH_DESK__DIRECTORY", str(tmp_path / "desk"))
