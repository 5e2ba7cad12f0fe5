"""A plugin for pytest: notes how each test has ended, and when it ran, in the file that STEADY_RESULTS names.

What a test that failed has said is in STEADY_FAILURES at once: pytest itself shows it when all tests have ended, which
a round that is interrupted never sees.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

RESULTS = "STEADY_RESULTS"
FAILURES = "STEADY_FAILURES"

_began: dict[str, float] = {}
_outcomes: dict[str, str] = {}


def pytest_runtest_logstart(nodeid: str) -> None:
    _began[nodeid] = time.time()
    _outcomes[nodeid] = "passed"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Three for each test: what it needs, itself, and the cleaning up. The worst one counts."""
    if report.failed or (report.skipped and _outcomes[report.nodeid] == "passed"):
        _outcomes[report.nodeid] = str(report.outcome)
    if report.failed:
        with Path(os.environ[FAILURES]).open("a") as failures:
            said = "".join(f"---- {name} ----\n{text}\n" for name, text in report.sections)
            failures.write(f"==== {report.nodeid} ({report.when}) ====\n{report.longreprtext}\n{said}\n")


def pytest_runtest_logfinish(nodeid: str) -> None:
    _write({"id": nodeid, "outcome": _outcomes.pop(nodeid), "began": _began.pop(nodeid), "ended": time.time()})


def _write(result: dict[str, Any]) -> None:
    with Path(os.environ[RESULTS]).open("a") as results:
        results.write(json.dumps(result) + "\n")
