"""A process dies by SIGKILL between any two acts at the end of an upload; another goes on; results are there once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.integration.test_upload_flow import CITIES, run, trip, trips_flow
from tests.integration.test_upload_flow import sections as trips_sections
from tests.recovery.stage import ROOT
from tests.support.flows import World
from tests.support.logs import Place
from tests.support.tables import events
from tests.support.upload_scene import FIRST, SECOND, Scene, connected, sections
from tests.support.uploads import open_upload, received, send_input, state_of

from towpath.core.crash import CrashPoint as P
from towpath.errors import NotTheOnlyOne
from towpath.runtime import Runtime
from towpath.stack.postgres import PostgresServer
from towpath.testing.clock import wait_until
from towpath.testing.processes import ChildProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSING = (P.UPLOAD_PASS_BEFORE_COMMIT, P.UPLOAD_PASS_AFTER_COMMIT)
CLOSING = (P.CLOSING_WRITTEN, P.CLOSING_RENAMED, P.UPLOAD_CLOSE_BEFORE_COMMIT, P.UPLOAD_CLOSE_AFTER_COMMIT)
RECEIVING = (P.RESULT_ACKNOWLEDGE_BEFORE_COMMIT, P.RESULT_ACKNOWLEDGE_AFTER_COMMIT, P.UPLOAD_FILES_REMOVED)
CLOSING_POINTS = frozenset((*PASSING, *CLOSING, *RECEIVING))
# The first one fixes ends, the second the end of the topic between the stages, the third says that all is passed.
CLOSE_AT = [
    *(f"{P.UPLOAD_PASS_BEFORE_COMMIT}:{number}" for number in (2, 3)),
    *(f"{P.UPLOAD_PASS_AFTER_COMMIT}:{number}" for number in (1, 3)),
    *CLOSING,
]
# Two pages of one query and one of the other: the third acknowledgement is the last.
RECEIVE_AT = [*(f"{point}:{number}" for point in RECEIVING[:2] for number in (1, 3)), RECEIVING[2]]
PATIENCE_S = 240.0  # a child may have to start Spark on a machine that has much to do
RUNS_AFTER = {P.CLOSING_RENAMED: 0, P.UPLOAD_CLOSE_BEFORE_COMMIT: 0, P.UPLOAD_CLOSE_AFTER_COMMIT: 0}


@pytest.fixture
def embedded(tmp_path: Path) -> dict[str, Any]:
    return {**sections(tmp_path), "database": {"url": f"sqlite:///{tmp_path}/towpath.db", "synchronous": "normal"}}


@pytest.fixture
def server(tmp_path: Path, postgres: PostgresServer) -> dict[str, Any]:
    return {**sections(tmp_path), "database": {"url": postgres.url, "schema": f"t{uuid4().hex[:12]}"}}


def killed_at(point: str, told: dict[str, Any], home: Path, act: str, upload: str = "") -> None:
    order = {"sections": told, "act": act, "upload": upload}
    log = home / "children.log"
    with ChildProcess("tests.recovery.closing_acts", order, log=log, crash_at=point, cwd=ROOT) as child:
        child.wait_killed(PATIENCE_S)


def sent(told: dict[str, Any]) -> str:
    """An upload that both stages have committed, and that nobody has looked at."""
    with connected(told) as runtime:
        scene = Scene.begun(runtime)
        upload = scene.upload({"n": 1}, {"n": 2})
        scene.collected(upload, 0, '{"n":2}\n{"n":1}\n')
        scene.result(upload, FIRST, 0, '{"n":1}\n{"n":2}\n')
        scene.result(upload, SECOND, 0, '{"n":3}\n')
        scene.batch(FIRST, 0, 2)
        scene.batch(SECOND, 0, 0)
        return upload


def check_closed(told: dict[str, Any], upload: str, runs: int | None = None) -> None:
    with connected(told) as runtime:
        scene = Scene.begun(runtime)
        scene.settle()
        assert runs is None or scene.job.runs == runs, "a step whose rows count runs no second time"
        assert state_of(runtime, upload) == "sending"
        pages = {query: runtime.outlet.page(upload, query) for query in ("seen", "all")}
        assert {query: (page.lines, page.is_end) for query, page in pages.items()} == {
            "seen": (b'{"n":1}\n{"n":2}\n{"n":3}\n', True),
            "all": (b'{"n":1}\n{"n":2}\n', True),
        }
        kinds = Counter(row["kind"] for row in events(runtime.database, "upload_passed", "upload_closed"))
        assert kinds == {"upload_passed": 3, "upload_closed": 1}
        left = [path.name for path in (scene.root / upload / "results" / "all").iterdir()]
        assert left == ["closing"]


@pytest.mark.parametrize("point", CLOSE_AT)
def test_an_upload_is_closed_once_in_spite_of_a_kill_at(point: str, embedded: dict[str, Any], tmp_path: Path) -> None:
    upload = sent(embedded)
    killed_at(point, embedded, tmp_path, "close")
    check_closed(embedded, upload, RUNS_AFTER.get(P(point.partition(":")[0]), 1))


def test_who_recovers_may_die_at_it(embedded: dict[str, Any], tmp_path: Path) -> None:
    upload = sent(embedded)
    for point in (P.CLOSING_WRITTEN, P.CLOSING_WRITTEN, P.CLOSING_RENAMED, P.UPLOAD_CLOSE_BEFORE_COMMIT):
        killed_at(point, embedded, tmp_path, "close")
    check_closed(embedded, upload, 0)


def check_received(told: dict[str, Any], upload: str) -> None:
    """The client reads on; of an upload that has ended nothing is left."""
    with connected(told) as runtime:
        scene = Scene.begun(runtime)
        if state_of(runtime, upload) != "finished":
            expected = [{"n": 1}, {"n": 2}, {"n": 3}]
            assert received(runtime, upload, "seen") == expected, "nothing is gone before all is acknowledged"
            assert received(runtime, upload, "all") == expected[:2]
        scene.janitor.run_once()
        assert state_of(runtime, upload) == "finished"
        assert list(scene.root.iterdir()) == []
        assert [row["subject"] for row in events(runtime.database, "upload_finished")] == [upload]


@pytest.mark.parametrize("point", RECEIVE_AT)
def test_results_are_kept_until_all_is_acknowledged_in_spite_of_a_kill_at(
    point: str, embedded: dict[str, Any], tmp_path: Path
) -> None:
    upload = sent(embedded)
    check_closed(embedded, upload)
    killed_at(point, embedded, tmp_path, "receive", upload)
    check_received(embedded, upload)


@pytest.mark.part("kills")
@pytest.mark.parametrize("point", CLOSE_AT)
def test_closing_on_postgresql(point: str, server: dict[str, Any], tmp_path: Path) -> None:
    upload = sent(server)
    killed_at(point, server, tmp_path, "close")
    check_closed(server, upload, RUNS_AFTER.get(P(point.partition(":")[0]), 1))


@pytest.mark.part("kills")
@pytest.mark.parametrize("point", RECEIVE_AT)
def test_receiving_on_postgresql(point: str, server: dict[str, Any], tmp_path: Path) -> None:
    upload = sent(server)
    check_closed(server, upload)
    killed_at(point, server, tmp_path, "receive", upload)
    check_received(server, upload)


@pytest.mark.part("kills")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", [P.FILE_PUBLISHED, P.CLOSING_WRITTEN, P.CLOSING_RENAMED])
def test_a_flow_on_spark_that_is_killed_closes_its_upload_once(point: P, spark: SparkSession, tmp_path: Path) -> None:
    database = {"url": f"sqlite:///{tmp_path}/towpath.db", "synchronous": "normal"}
    world = World(spark, Place("sqlite", {"url": "embedded"}, database), tmp_path)
    told = {**world.settings(), "gateway": trips_sections(tmp_path)}
    with connected(told) as runtime:
        upload = open_upload(runtime, "trips", "cities", "trips")
        send_input(runtime, upload, "cities", CITIES)
        run(runtime, trips_flow())
        send_input(runtime, upload, "trips", [trip(n, "Turin" if n % 2 else "Ulm", n) for n in range(10)])
    killed_at(point, told, tmp_path, "run")
    with connected(told) as runtime:
        wait_until(lambda: tried(runtime), 60, "the stages of the dead to be free")
        rows = {query: received(runtime, upload, query) for query in ("known", "abroad", "dearest")}
        assert sorted(row["id"] for row in rows["known"]) == list(range(10))
        assert sorted(row["id"] for row in rows["abroad"]) == [1, 3, 5, 7, 9]
        assert [(row["city"], row["fare"]) for row in rows["dearest"]] == [("Turin", 9), ("Ulm", 8)]
        assert state_of(runtime, upload) == "finished"


def tried(runtime: Runtime) -> bool:
    try:
        run(runtime, trips_flow())
    except NotTheOnlyOne:
        return False
    return True
