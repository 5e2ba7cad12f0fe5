"""A process dies by SIGKILL at every crash point there is; a fresh one takes over; the complete tables are compared."""

from __future__ import annotations

import pytest
from tests.recovery.delivery.points import ELSEWHERE
from tests.recovery.delivery.points import POINTS as FLOW_POINTS
from tests.recovery.scenario import Scenario
from tests.recovery.scenarios import SCENARIOS
from tests.recovery.stage import Stage
from tests.recovery.test_log_crash_points import LOG_POINTS

from towpath.crash import CrashPoint

CASES = [
    (point, scenario)
    for point in CrashPoint
    if point not in {*LOG_POINTS, *FLOW_POINTS, *ELSEWHERE}
    for scenario in SCENARIOS.get(point, (None,))
]


def name(case: CrashPoint | Scenario | None) -> str:
    return case.value if isinstance(case, CrashPoint) else str(case)


@pytest.mark.parametrize(("point", "scenario"), CASES, ids=name)
def test_queue_survives_kill_at(point: CrashPoint, scenario: Scenario | None, stage: Stage) -> None:
    """Without recovery a message would be lost, stay claimed for ever, or be answered twice."""
    assert scenario is not None, f"{point} has no scenario: give it one in scenarios.py"
    scenario.crash(stage, point)
    scenario.recover(stage)
    scenario.check(stage, point)
