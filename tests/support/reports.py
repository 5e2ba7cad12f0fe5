"""Reports that can go from one process of a test run to another.

Some tests give the product text that is none (lone surrogates), and that is printed; between processes it cannot go.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    report.sections = [(name, _sendable(text)) for name, text in report.sections]
    if report.failed and (told := report.longreprtext) != _sendable(told):
        report.longrepr = _sendable(told)
    return report


def _sendable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
