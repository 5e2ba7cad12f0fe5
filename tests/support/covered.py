"""Which lines and branches of the source the tests run, in the processes of pytest themselves.

    pytest -p tests.support.covered      measures
    python -m tests.support.covered      adds up and shows what all processes have measured since the last time

What runs in children only, such as a worker of Spark or a process that is going to be killed, does not count.
"""

from __future__ import annotations

import json
from pathlib import Path

import coverage
import pytest

HOME = Path(__file__).parents[2] / ".cache" / "coverage"
PARTS, ALL = HOME / "part", HOME / "all"
_measured = coverage.Coverage(data_file=str(PARTS), data_suffix=True)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before a test file or its fixtures import the source."""
    HOME.mkdir(parents=True, exist_ok=True)
    _measured.start()


def pytest_unconfigure() -> None:
    _measured.stop()
    _measured.save()


def main() -> None:
    together = coverage.Coverage(data_file=str(ALL))
    together.combine([str(path) for path in HOME.glob(f"{PARTS.name}.*")])
    together.save()
    report = ALL.with_suffix(".json")
    together.json_report(outfile=str(report))
    totals = json.loads(report.read_text())["totals"]
    lines, branches = (
        totals[f"covered_{what}"] / totals[of]
        for what, of in (("lines", "num_statements"), ("branches", "num_branches"))
    )
    print(f"lines {lines:.1%}, branches {branches:.1%}; by file: {report}")  # noqa: T201


if __name__ == "__main__":
    main()
