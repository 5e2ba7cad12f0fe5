"""A writer dies by SIGKILL between every two acts of a sink; the next attempt at its unit makes it whole, once."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest
from pyarrow import parquet
from tests.integration.test_sink_index import Stored, write
from tests.recovery.sink_acts import OFFSETS, REFUSED, document, sink_of, write_unit
from tests.support.table_home import Home, home_of
from tests.support.units import delivery_ids, place, unit

from towpath.core.crash import CrashPoint
from towpath.flow.delivery.ids import Strategy
from towpath.stack.search import ElasticsearchServer
from towpath.testing.processes import ChildProcess

ROOT = Path(__file__).parents[2]
TABLES = [
    ("sqlite", CrashPoint.TABLE_BEFORE_COMMIT, 1),
    ("sqlite", CrashPoint.TABLE_BEFORE_COMMIT, 3),
    ("sqlite", CrashPoint.TABLE_AFTER_COMMIT, 1),
    ("sqlite", CrashPoint.TABLE_AFTER_COMMIT, 3),
    ("postgres", CrashPoint.TABLE_STAGED, 1),
    ("postgres", CrashPoint.TABLE_BEFORE_COMMIT, 1),
    ("postgres", CrashPoint.TABLE_AFTER_COMMIT, 1),
]
FILES = [
    ("json", CrashPoint.FILES_COMPLETE, 1),
    ("json", CrashPoint.FILE_PUBLISHED, 1),
    ("json", CrashPoint.FILE_PUBLISHED, 3),
    ("json", CrashPoint.FILES_SYNCED, 1),
    ("parquet", CrashPoint.FILE_PUBLISHED, 1),
]
INDEX = [(CrashPoint.BULK_SENT, 1), (CrashPoint.BULK_SENT, 2), (CrashPoint.INDEX_DONE, 1)]
SINK_POINTS = frozenset(point for case in (TABLES, FILES) for _, point, _ in case) | {point for point, _ in INDEX}
GOOD = [offset for offset in OFFSETS if offset not in REFUSED]


@dataclass
class Unit:
    """A unit of one sink: attempted by a child that dies, then by this process."""

    kind: str
    options: dict[str, Any]
    home: Path
    strategy: Strategy = Strategy.EXACTLY_ONCE

    def child(self, crash_at: str | None = None, *, stops: bool = False) -> ChildProcess:
        told = {"kind": self.kind, "options": self.options, "launch": 1, "strategy": self.strategy, "stops": stops}
        log = self.home / "child.log"
        return ChildProcess("tests.recovery.sink_acts", told, log=log, crash_at=crash_at, cwd=ROOT)

    def kill_at(self, point: CrashPoint, number: int) -> None:
        with self.child(f"{point}:{number}") as child:
            child.wait_killed()

    def try_again(self) -> list[int]:
        return write_unit(self.kind, self.options, place(launch=2, strategy=self.strategy))


@pytest.fixture(autouse=True)
def _parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `write_unit` sets is set back."""
    for name in ("PART_ROWS", "PORTION_ROWS"):
        monkeypatch.setattr(f"towpath.flow.sinks.table.writer.{name}", 4)


def consumed(home: Home, which: str) -> list[tuple[int, bytes]]:
    """Read rows and delete them, as a consumer does that uses the table as a queue."""
    taken = home.sql(f"delete from orders where {which} returning n, delivery_id") if home.has("orders") else []
    return [(n, bytes(id)) for n, id in taken]


def deliveries_seen(unit: Unit, home: Home, point: CrashPoint, number: int) -> Counter[tuple[int, bytes]]:
    """How often a consumer sees each row that comes twice to the table: after the crash, and after the next attempt."""
    unit.kill_at(point, number)
    seen = Counter(consumed(home, "n % 2 = 0"))  # the others it leaves: they must not be there twice either
    assert unit.try_again() == list(REFUSED), "a crash loses no refusal"
    return seen + Counter(consumed(home, "true"))


@pytest.mark.parametrize(("kind", "point", "number"), TABLES)
def test_table_survives_kill_at(
    kind: str, point: CrashPoint, number: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    home = home_of(kind, request, tmp_path)
    seen = deliveries_seen(Unit(kind, home.options, tmp_path), home, point, number)
    assert seen == Counter(zip(GOOD, delivery_ids(GOOD), strict=True))
    assert home.sql("select sum(rows) from towpath_mark") == [(len(GOOD),)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_table_is_not_written_by_a_process_that_was_stopped_and_replaced(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    home = home_of(kind, request, tmp_path)
    unit = Unit(kind, home.options, tmp_path)
    with unit.child(stops=True) as zombie:
        zombie.wait_stopped()
        seen = Counter(consumed(home, "true"))
        assert unit.try_again() == list(REFUSED)
        seen += Counter(consumed(home, "true"))
        zombie.signal(signal.SIGCONT)
        assert zombie.wait() == 1
        assert "start 1 of this stage was replaced by start 2" in zombie.log_tail()
    assert seen + Counter(consumed(home, "true")) == Counter(zip(GOOD, delivery_ids(GOOD), strict=True))


def test_files_are_not_cut_short_by_a_process_that_was_stopped_and_replaced(tmp_path: Path) -> None:
    """Its successor has deleted the half that it had written."""
    out = tmp_path / "out"
    unit = Unit("json", {"directory": str(out)}, tmp_path)
    with unit.child(stops=True) as zombie:
        zombie.wait_stopped()
        assert unit.try_again() == []
        zombie.signal(signal.SIGCONT)
        assert zombie.wait() == 1
        assert "No such file" in zombie.log_tail()
    assert Counter(map(json.dumps, records(out))) == Counter(json.dumps(document(offset)) for offset in OFFSETS)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_without_marks_a_table_shows_deliveries_twice(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The broken twin is caught by the same check."""
    home = home_of(kind, request, tmp_path)
    unit = Unit(kind, home.options, tmp_path, Strategy.AT_LEAST_ONCE)
    seen = deliveries_seen(unit, home, CrashPoint.TABLE_AFTER_COMMIT, 2)
    assert {n for n, _ in seen} == set(GOOD)
    assert max(seen.values()) == 2


def records(directory: Path) -> Iterator[dict[str, Any]]:
    """All records of all files that can be seen."""
    for path in sorted(directory.rglob("*")):
        if path.is_dir() or path.name.startswith("."):
            continue
        if path.suffix == ".parquet":
            yield from map(orjson.loads, parquet.ParquetFile(path).read().column("document").to_pylist())
        else:
            yield from map(orjson.loads, path.read_bytes().splitlines())


@pytest.mark.parametrize(("format", "point", "number"), FILES)
def test_files_survive_kill_at(format: str, point: CrashPoint, number: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    unit = Unit(format, {"directory": str(out)}, tmp_path)
    unit.kill_at(point, number)
    expected = Counter(json.dumps(document(offset)) for offset in OFFSETS)
    early = Counter(map(json.dumps, records(out)))
    assert early <= expected, "what can be seen is whole"
    assert (early == expected) == (point is CrashPoint.FILES_SYNCED or number == 3)
    assert unit.try_again() == []
    assert Counter(map(json.dumps, records(out))) == expected
    assert [path for path in out.rglob(".*") if path.suffix == ".tmp"] == []


@pytest.mark.parametrize(("point", "number"), INDEX)
def test_index_survives_kill_at(
    point: CrashPoint, number: int, elasticsearch: ElasticsearchServer, tmp_path: Path
) -> None:
    name = f"t-{uuid4().hex[:12]}"
    stored = Stored(elasticsearch.url)
    stored.put(f"/{name}", {"mappings": {"properties": {"n": {"type": "long"}}}})
    options = {"target": name, "url": elasticsearch.url}
    killed = Unit("index", options, tmp_path)
    killed.kill_at(point, number)
    newer = unit([100], [{"n": -1}], ids=["id-0"])
    assert write(sink_of("index", options), newer) == []
    assert killed.try_again() == list(REFUSED)
    expected = {f"id-{offset}": document(offset) for offset in GOOD} | {"id-0": {"n": -1}}
    assert stored(name) == expected, "a replay leaves the newer document alone"
