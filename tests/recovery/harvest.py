"""A harvest under fire: the web and the judge in the test's process, all else in processes that may be killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from examples.harvest.crawler.journal import read_visits
from examples.harvest.crawler.visit import Outcome
from examples.harvest.flows import DOCUMENTS, PAGES
from examples.harvest.home import Home
from examples.harvest.oracle import Oracle
from examples.harvest.parts.leftovers import give_up_leftovers
from examples.harvest.rows import documents_in
from examples.harvest.search import check_index
from examples.harvest.station import begin_to_watch
from examples.harvest.web.server import SmallWeb
from examples.harvest.workflow import HARVEST, PARTS, Begin, Harvest, Plan

from towpath.actors.instance import LIVE, Instance
from towpath.actors.spawner.store import Spawned, spawned_of
from towpath.catalog import DataSetState
from towpath.catalog.data_sets.directory import directory_of
from towpath.errors import UnknownActor
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

RUN_S = 900.0  # on a machine with a lot else to do
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Rig:
    """Starts runs of the workflow, kills what they are made of, and compares what came of it."""

    home: Home
    web: SmallWeb
    runtime: Runtime
    chance: random.Random
    oracle: Oracle
    station: subprocess.Popen[bytes] | None = None
    kills: list[str] = field(default_factory=list)
    deadline: float = 0.0

    def start(self, day: int, sites: Sequence[str]) -> str:
        """A whole run; the id of it."""
        self.web.day = day
        self.oracle.crawl(day, sites)
        plan = Plan(str(self.home.path), tuple(sites), dict.fromkeys(self.web.sites, self.web.address))
        self.deadline = time.monotonic() + RUN_S
        return self.runtime.actors.start(Harvest, Begin(plan))

    def look_after(self) -> None:
        """What a supervisor would do: a station runs, and spawners watch that took a kill for a boot loop."""
        if self.station is None or self.station.poll() is not None:
            with (self.home.path / "station.log").open("ab") as log:
                self.station = subprocess.Popen(
                    [sys.executable, "-m", "examples.harvest.station", str(self.home.path)],
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
        begin_to_watch(self.runtime)

    def run(self, run_id: str) -> Instance | None:
        """The run if it has come to its end."""
        assert time.monotonic() < self.deadline, f"not at its end in time: {self.where()}"
        self.look_after()
        with contextlib.suppress(UnknownActor):  # nobody has looked at its start yet
            found = self.runtime.actors.instance(HARVEST)
            if found.run_id == run_id and found.phase not in LIVE:
                return found
        return None

    def wait(self, run_id: str) -> None:
        """Until it has ended, and well."""
        while (ended := self.run(run_id)) is None:
            time.sleep(0.1)
        assert ended.phase == "ended", f"{ended.reason}; {self.where()}"

    def at_work(self, part: str) -> Spawned | None:
        """The process of a part, while it has an order in its hands."""
        found = spawned_of(self.runtime.database, PARTS[part].name)
        return found if found is not None and found.message_id is not None and found.pid is not None else None

    def kill_part(self, part: str, run_id: str, after_s: float) -> None:
        """Kill the process of a part some time after it has begun."""

        def is_there() -> Spawned | None:
            self.run(run_id)
            return self.at_work(part)

        wait_until(is_there, RUN_S, f"the process of {part}")
        time.sleep(after_s)
        found = self.at_work(part)
        if found is not None and found.pid is not None:
            self._kill(found.pid, part)

    def kill_java(self, part: str, run_id: str, after_s: float) -> None:
        """Kill the Java process of a part, and nothing else of it, some time after it has begun."""

        def java() -> list[int]:
            self.run(run_id)
            found = self.at_work(part)
            return [] if found is None or found.pid is None else [each for each in _group(found.pid) if _is_java(each)]

        [pid, *_] = wait_until(java, RUN_S, f"the Java process of {part}")
        time.sleep(after_s)
        self._kill(pid, f"{part}'s Java")

    def kill_station(self) -> None:
        if self.station is not None and self.station.poll() is None:
            self._kill(self.station.pid, "station")
            self.station.wait()

    def kill_anything(self) -> None:
        """The station, or one of the processes of a part: its Python, Spark's Java, or a worker."""
        victims = [(self.station.pid, "station")] if self.station is not None and self.station.poll() is None else []
        for part in PARTS:
            found = spawned_of(self.runtime.database, PARTS[part].name)
            if found is not None and found.is_running and found.pid is not None:
                victims += [(pid, part) for pid in _group(found.pid)]
        if victims:
            pid, name = self.chance.choice(victims)
            self._kill(pid, name)

    def _kill(self, pid: int, name: str) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.kills.append(name)

    def where(self) -> str:
        """For a person who reads of a failure."""
        rows = [spawned_of(self.runtime.database, spawner.name) for spawner in PARTS.values()]
        return f"kills: {self.kills}; {[(row.spawner, row.attempt, row.stage, row.ended) for row in rows if row]}"

    def check(self) -> None:
        """Every document, every record and every data set, not only their numbers."""
        assert documents_in(self.home.search_file) == self.oracle.documents
        check_index(self.home.search_file)
        wait_until(lambda: give_up_leftovers(self.runtime) == [], 30)
        sets = self.runtime.data_sets.list(limit=1000)
        assert {each.state for each in sets} <= {DataSetState.READY, DataSetState.DELETED}, self.where()
        expected = Counter(
            (each.id, visit.url)
            for each in sets
            if each.kind == "crawl" and each.is_ready
            for visit in read_visits(directory_of(each.place))
            if visit.has_body or visit.outcome is Outcome.GONE
        )
        assert max(expected.values()) == 1, "every address is in a crawl once"
        assert self._records(PAGES) == expected, "and on its way to Spark once"
        made = self._records(DOCUMENTS)
        assert set(made.values()) == {1}
        assert set(expected) - set(made) == {key for key in expected if key[1].endswith("/kein-html")}

    def _records(self, topic: str) -> Counter[tuple[str, str]]:
        log, found = self.runtime.log, Counter[tuple[str, str]]()
        for partition, start in log.starts(topic).items():
            for record in log.read(topic, partition, start):
                value = json.loads(record.value or b"")
                found[value["crawl"], value["url"]] += 1
        return found

    def close(self) -> None:
        """Nothing is left running."""
        if self.station is not None:
            self.station.kill()
            self.station.wait()
        for spawner in PARTS.values():
            found = spawned_of(self.runtime.database, spawner.name)
            for pid in [] if found is None or found.pid is None else _group(found.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _is_java(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "comm").read_text().strip() == "java"
    return False


def _group(leader: int) -> list[int]:
    """All processes of a spawned one: it leads their group."""
    found = []
    for home in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int((home / "stat").read_text().rpartition(")")[2].split()[2]) == leader:
                found.append(int(home.name))
    return sorted(found)
