"""A pytest plugin: several processes collect the same tests, and each test is run by whoever claims it first.

A claim is a file that only one can make. What became of a test is a line in the file of the process that ran it.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

ITEMS, CLAIMS, RESULTS = "items.json", "claims", "results"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("recover")
    group.addoption("--share-home", type=Path, help="directory that all processes share")
    group.addoption("--share-name", default="", help="name of this process")
    group.addoption("--share-seed", type=int, default=0, help="decides the order, and what is in a sample")
    group.addoption("--share-sample", type=int, default=0, help="run only so many, by chance")
    group.addoption("--share-most", type=int, default=0, help="end after so many: another process goes on")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Sharing(config), "sharing")


class Sharing:
    """What one of the processes does."""

    def __init__(self, config: pytest.Config) -> None:
        self._home: Path = config.getoption("--share-home")
        self._name: str = config.getoption("--share-name")
        self._seed: int = config.getoption("--share-seed")
        self._sample: int = config.getoption("--share-sample")
        self._most: int = config.getoption("--share-most")
        self._numbers: dict[str, int] = {}
        self._reports: list[pytest.TestReport] = []
        self._done = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """In an order by chance, the same for all: so that what takes long is not left to the end."""
        items.sort(key=lambda item: item.nodeid)
        random.Random(self._seed).shuffle(items)
        if self._sample:
            del items[self._sample :]
        self._numbers = {item.nodeid: number for number, item in enumerate(items)}
        aside = self._home / f"{ITEMS}.{self._name}"
        aside.write_text(json.dumps([_told(item) for item in items]))
        aside.rename(self._home / ITEMS)

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """True: it is somebody else's."""
        number = self._numbers[item.nodeid]
        try:
            claim = os.open(self._home / CLAIMS / str(number), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return True
        with os.fdopen(claim, "w") as file:
            json.dump({"by": self._name, "at": time.time()}, file)
        self._reports = []
        # The test before was torn down for its successor in the list, which may have been somebody else's.
        item.session._setupstate.teardown_exact(item)
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        failed = [each for each in self._reports if each.failed]
        result = {
            "number": self._numbers[nodeid],
            "passed": not failed and any(each.passed and each.when == "call" for each in self._reports),
            "took_s": round(sum(each.duration for each in self._reports), 2),
            "text": "\n".join(each.longreprtext for each in failed),
        }
        with (self._home / RESULTS / f"{self._name}.jsonl").open("a") as file:
            file.write(json.dumps(result) + "\n")
        self._done += 1

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Any:
        self._session = session
        yield

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if self._most and self._done + 1 >= self._most:
            self._session.shouldstop = "another process goes on"


def _told(item: pytest.Item) -> dict[str, str]:
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec is not None else {}
    case = params.get("case", params.get("walk"))
    shape = getattr(getattr(case, "shape", None), "name", "-")
    return {
        "id": item.nodeid,
        "shape": shape,
        "strategy": str(getattr(case, "strategy", "-")),
        "test": item.nodeid.rpartition("::")[2].partition("[")[0],
    }
