"""A process dies by SIGKILL at every crash point there is; a fresh one takes over; the complete tables are compared."""

from __future__ import annotations

from typing import Any

import pytest
from tests.recovery.actors.test_kills import ACTOR_POINTS
from tests.recovery.delivery.points import ELSEWHERE
from tests.recovery.delivery.points import POINTS as FLOW_POINTS
from tests.recovery.desk_intake.test_kills import INTAKE_POINTS
from tests.recovery.scenario import Scenario
from tests.recovery.scenarios import SCENARIOS
from tests.recovery.stage import Stage
from tests.recovery.test_access_kills import ACCESS_POINTS
from tests.recovery.test_client_kills import CLIENT_POINTS
from tests.recovery.test_closing_kills import CLOSING_POINTS
from tests.recovery.test_correction_kills import CORRECTION_POINTS
from tests.recovery.test_desk_job_kills import JOB_POINTS
from tests.recovery.test_desk_sending_kills import SENDING_POINTS
from tests.recovery.test_gateway_kills import GATEWAY_POINTS
from tests.recovery.test_launcher_kills import LAUNCHER_POINTS
from tests.recovery.test_log_crash_points import LOG_POINTS
from tests.recovery.test_schedule_kills import SCHEDULE_POINTS
from tests.recovery.test_supervision_kills import SUPERVISION_POINTS
from tests.support.databases import without_tables

from towpath.core.crash import CrashPoint

# tests/integration/test_data_sets.py
DATA_SET_POINTS = {point for point in CrashPoint if point.name.startswith("DATA_SET_")}
CASES = [
    (point, scenario)
    for point in CrashPoint
    if point
    not in {
        *ACCESS_POINTS,
        *ACTOR_POINTS,
        *CLIENT_POINTS,
        *CLOSING_POINTS,
        *CORRECTION_POINTS,
        *SCHEDULE_POINTS,
        *LOG_POINTS,
        *FLOW_POINTS,
        *GATEWAY_POINTS,
        *INTAKE_POINTS,
        *JOB_POINTS,
        *LAUNCHER_POINTS,
        *SENDING_POINTS,
        *SUPERVISION_POINTS,
        *ELSEWHERE,
        *DATA_SET_POINTS,
    }
    for scenario in SCENARIOS.get(point, (None,))
]


@pytest.fixture
def database_settings(database_settings: dict[str, Any]) -> dict[str, Any]:
    return without_tables(database_settings)


def name(case: CrashPoint | Scenario | None) -> str:
    return case.value if isinstance(case, CrashPoint) else str(case)


@pytest.mark.parametrize(("point", "scenario"), CASES, ids=name)
def test_queue_survives_kill_at(point: CrashPoint, scenario: Scenario | None, stage: Stage) -> None:
    """Without recovery a message would be lost, stay claimed for ever, or be answered twice."""
    assert scenario is not None, f"{point} has no scenario: give it one in scenarios.py"
    scenario.crash(stage, point)
    scenario.recover(stage)
    scenario.check(stage, point)
