"""A pytest plugin: several processes collect the same cases, and each case is run by the first process to claim it.

A claim is a file that only one process can make. The result of a case is a line in the file of the process that ran
it. So a run that was interrupted goes on: what has a result is done, and an open claim is taken back.
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
    group = parser.getgroup("verify")
    group.addoption("--share-home", type=Path, help="directory that all processes share")
    group.addoption("--share-name", default="", help="name of this process")
    group.addoption("--share-seed", type=int, default=0, help="decides the order")
    group.addoption("--share-percent", type=int, default=100, help="run only so many of a hundred cases, by chance")
    group.addoption("--share-most", type=int, default=0, help="end after so many cases: another process goes on")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Sharing(config), "sharing")


class Sharing:
    """What one of the processes does."""

    def __init__(self, config: pytest.Config) -> None:
        self._home: Path = config.getoption("--share-home")
        self._name: str = config.getoption("--share-name")
        self._seed: int = config.getoption("--share-seed")
        self._percent: int = config.getoption("--share-percent")
        self._most: int = config.getoption("--share-most")
        self._numbers: dict[pytest.Item, int] = {}  # not by name: generated cases may have the same
        self._number = 0  # of the case that runs
        self._reports: list[pytest.TestReport] = []
        self._done = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Numbers are the same for all. Each process begins with another file, and stays in it for its fixtures."""
        chance = random.Random(self._seed)
        items.sort(key=lambda item: item.nodeid)
        chance.shuffle(items)
        if self._percent < 100:
            del items[max(1, len(items) * self._percent // 100) :]
        self._numbers = {item: number for number, item in enumerate(items)}
        aside = self._home / f"{ITEMS}.{self._name}"
        aside.write_text(json.dumps([item.nodeid for item in items]))
        aside.rename(self._home / ITEMS)
        files = sorted({_file(item) for item in items})
        random.Random(f"{self._seed} {self._name}").shuffle(files)
        place = {file: number for number, file in enumerate(files)}
        items.sort(key=lambda item: place[_file(item)])

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """True: not ours."""
        self._number = self._numbers[item]
        try:
            claim = os.open(self._home / CLAIMS / str(self._number), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return True
        with os.fdopen(claim, "w") as file:
            json.dump({"by": self._name, "at": time.time()}, file)
        self._reports = []
        # The case before was torn down for its successor in the list, which another process may have run.
        item.session._setupstate.teardown_exact(item)
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        failed = [each for each in self._reports if each.failed]
        result = {
            "number": self._number,
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


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
