"""Who learns or corrects dies by SIGKILL at every point; a fresh one goes on: nothing counts or is applied twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.recovery import correction_acts
from tests.recovery.correction_acts import ACTS
from tests.support.desk import table
from tests.support.leases import LONG_LEASE

import towpath
from towpath.core.crash import CrashPoint
from towpath.db import Database
from towpath.runtime import Runtime
from towpath.testing.processes import ChildProcess

ROOT = Path(__file__).parents[2]
MODULE = "tests.recovery.correction_acts"
FAST: dict[str, Any] = {"process": LONG_LEASE}
POINTS = {
    CrashPoint.LEARN_BEFORE_COMMIT: ("learn", (1, 3)),
    CrashPoint.LEARN_AFTER_COMMIT: ("learn", (1, 3)),
    CrashPoint.LEARN_EDITS_BEFORE_COMMIT: ("learn_from_edits", (1, 2)),
    CrashPoint.LEARN_EDITS_AFTER_COMMIT: ("learn_from_edits", (1, 2)),
    CrashPoint.JUDGE_BEFORE_COMMIT: ("judge", (1,)),
    CrashPoint.JUDGE_AFTER_COMMIT: ("judge", (1,)),
}
CORRECTION_POINTS = frozenset(POINTS)
# Of intake, within whose transaction corrections are applied.
INTAKE = {
    CrashPoint.DESK_ERRORS_BEFORE_COMMIT: ("take_in", (1,)),
    CrashPoint.DESK_ERRORS_AFTER_COMMIT: ("take_in", (1,)),
}
CASES = [(point, act, n) for point, (act, passes) in {**POINTS, **INTAKE}.items() for n in passes]
TABLES = (
    *("desk_rule", "desk_evidence", "desk_learning", "desk_learned", "desk_touched", "desk_verdict"),
    *("desk_case", "desk_edit", "desk_body", "desk_outbox", "desk_position", "desk_tally"),
)
# Times, and what two databases number or name each in its own way.
LEFT_OUT = frozenset({"at", "seq", "owner", "id", "case_id", "error_topic", "topic_id"})


def everything(database: Database) -> dict[str, Any]:
    """All that was learned, and all cases, but for times and names that nobody can foresee."""
    return {name: [_plain(name, row) for row in table(database, name, without=())] for name in TABLES}


def _plain(name: str, row: dict[str, Any]) -> str:
    kept = {key: value for key, value in row.items() if not key.endswith("_at") and key not in LEFT_OUT}
    kept = {key: value for key, value in kept.items() if not (name == "desk_body" and key == "headers")}
    return repr(sorted(kept.items()))


@pytest.fixture
def sections(database_settings: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    is_sqlite = database_settings["url"].startswith("sqlite")
    log = {"url": "embedded" if is_sqlite else f"sqlite:///{tmp_path}/log.db"}
    desk = {"directory": str(tmp_path / "desk")}
    return {**FAST, "database": database_settings, "log": log, "desk": desk}


@pytest.fixture
def connected(sections: dict[str, Any]) -> Iterator[Callable[[], Runtime]]:
    made: list[Runtime] = []

    def connect() -> Runtime:
        made.append(towpath.connect(**sections))
        return made[-1]

    yield connect
    for runtime in made:
        runtime.close()


@pytest.fixture
def oracle(tmp_path: Path) -> Iterator[Runtime]:
    """The same on a database of its own, where nobody dies."""
    url = f"sqlite:///{tmp_path}/oracle.db"
    with towpath.connect(url, log={"url": "embedded"}, desk={"directory": str(tmp_path / "oracle")}, **FAST) as runtime:
        yield runtime


def sorted_rows(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: sorted(rows) for name, rows in found.items()}


@pytest.mark.parametrize(("point", "act", "n"), CASES, ids=lambda each: str(each))
def test_corrections_survive_kill_at(
    point: CrashPoint,
    act: str,
    n: int,
    connected: Callable[[], Runtime],
    oracle: Runtime,
    sections: dict[str, Any],
    tmp_path: Path,
) -> None:
    """Without the mark in the same transaction a record or an edit would count twice, or never."""
    runtime = connected()
    for each in (runtime, oracle):
        correction_acts.prepare(each)
    before = sorted_rows(everything(runtime.database))
    assert before == sorted_rows(everything(oracle.database))
    for crash_at in (f"{point}:{n}", None):
        told = {"sections": sections, "act": act}
        with ChildProcess(MODULE, told, log=tmp_path / "log", crash_at=crash_at, cwd=ROOT) as child:
            child.wait_done() if crash_at is None else child.wait_killed()
    ACTS[act](oracle)
    after = sorted_rows(everything(runtime.database))
    assert after == sorted_rows(everything(oracle.database))
    assert after != before
