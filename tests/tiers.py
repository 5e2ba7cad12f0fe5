"""Two tiers: the gate, which `make test` runs on every change, and the parts of `make verify`.

A case is in the gate because a likely mistake is caught by nothing cheaper. Each other case belongs to one part:

1. by a marker at the test or at one of its parameters, `@pytest.mark.part("kills")`;
2. by the folder or file it is in (`FILES`); or
3. because it repeats on a server what the gate tries without one (`ON_SERVERS`).

The gate has a case for every crash point; pytest refuses to start where one lacks it.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tests.verify.parts import NAMES

from towpath.core.crash import CrashPoint

GATE, ANY = "gate", "any"
POINTS = frozenset(CrashPoint)
NARROW = {"realtime", "processes"}  # markers that few files have
SERVERS = frozenset({"postgres", "kafka", "opensearch"})
USUAL = {("sqlite", "sqlite"), ("postgres", "kafka")}  # as people run it: embedded, or with servers
FILES = {
    "tests/browser/*": "guides",
    "tests/integration/test_write_times.py": "matrix",
    "tests/integration/test_desk_write_times.py": "matrix",
    "tests/integration/test_postgres_server.py": "kills",
}
# Files that take seconds to make their hundreds of cases, all of one part.
SLOW_TO_COLLECT = {
    "tests/integration/test_web_described.py": "matrix",
}
# What is tried on a server in `make verify` only, and in which part. The gate tries the SQL and the log below it there.
ON_SERVERS = {
    "tests/integration/test_web_idempotency.py": GATE,
    "tests/integration/test_flow_ledger.py": GATE,
    "tests/integration/test_flow_stage_store.py": GATE,
    "tests/integration/test_cli_*": "matrix",
    "tests/integration/test_web_*": "matrix",
    "tests/integration/test_console_*": "matrix",
    "tests/integration/test_gateway_http.py": "matrix",
    "tests/integration/test_outlet_http.py": "matrix",
    "tests/integration/test_gateway_costs.py": "matrix",
    "tests/integration/test_gateway.py": "matrix",
    "tests/integration/test_desk_jobs.py": "matrix",
    "tests/integration/test_desk_lanes.py": "matrix",
    "tests/integration/test_desk_recalling.py": "matrix",
    "tests/integration/test_desk_relay.py": "matrix",
    "tests/integration/test_sending.py": "matrix",
    "tests/integration/test_correct*": "matrix",
    "tests/integration/test_message_pages.py": "matrix",
    "tests/integration/test_model.py": "matrix",
    "tests/integration/test_schema.py": "matrix",
    "tests/integration/test_spark_source.py": "flows",
    "tests/acceptance/test_harvest_workflow.py": "guides",
    "tests/integration/test_flow_*": "flows",
    "tests/integration/test_column_join*": "flows",
    "tests/integration/test_rehearsal.py": "flows",
    "tests/integration/test_upload_flow.py": "flows",
    "tests/integration/test_spawner*": "kills",
    "tests/integration/test_coordinator.py": "kills",
    "tests/integration/test_peer_nodes.py": "kills",
    "tests/recovery/delivery/*": GATE,
    "tests/recovery/*": "kills",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        default=GATE,
        choices=(*NAMES, ANY),
        help="run the cases of this part of `make verify`; any: all cases",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "part(name): belongs to this part of `make verify`; gate: to `make test` all the same"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that hold none of the cases that are wanted are not even read, where that is easy to see."""
    if collection_path.suffix != ".py":
        return None
    part = SLOW_TO_COLLECT.get(collection_path.relative_to(config.rootpath).as_posix())
    if part is not None and config.getoption("--part") not in (part, ANY):
        return True
    if (markers := _narrow_markers(config)) and not any(each in collection_path.read_text() for each in markers):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--part")
    if wanted == ANY:
        return
    left_out = [item for item in items if part_of(item) != wanted]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if part_of(item) == wanted]
    if wanted == GATE and _is_whole(config):
        _require_every_crash_point(items)


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def sort_items(items: list[pytest.Item]) -> None:
    """Spark first: of several processes, each of which begins elsewhere in the list, one has all of these. Each other
    one would have to start a Spark of its own, and to warm it up."""
    items.sort(key=lambda item: "spark" not in item.fixturenames if isinstance(item, pytest.Function) else True)


def _is_whole(config: pytest.Config) -> bool:
    """Nothing was chosen by a path, a word or the marker of a few."""
    chosen = config.getoption("-k") or _narrow_markers(config)
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not chosen


def _narrow_markers(config: pytest.Config) -> set[str]:
    """Those of `-m realtime` or `-m "realtime or processes"`; none where the option says anything else."""
    markers = set(config.getoption("-m").split(" or "))
    return markers if markers <= NARROW else set()


def _require_every_crash_point(items: list[pytest.Item]) -> None:
    missing = set(CrashPoint) - {point for item in items for point in _points_of(item)}
    if missing:
        raise pytest.UsageError(f"the gate has no case that dies at: {', '.join(sorted(missing))}")


def _points_of(item: pytest.Item) -> Iterator[CrashPoint]:
    """Those that a case on real processes names, in its parameters or in its code."""
    if isinstance(item, pytest.Function) and not item.nodeid.startswith("tests/unit/"):
        yield from _points(_params(item))
        for name in inspect.unwrap(item.function).__code__.co_names:
            if name in CrashPoint.__members__:
                yield CrashPoint[name]


def _points(value: object) -> Iterator[CrashPoint]:
    """Those that are in a parameter, as `point`, as `point:pass` or inside of something."""
    if isinstance(value, str):
        name = value.partition(":")[0]
        if name in POINTS:
            yield CrashPoint(name)
    elif isinstance(value, dict):
        yield from _points(tuple(value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _points(each)
    elif dataclasses.is_dataclass(value):
        yield from _points([getattr(value, each.name) for each in dataclasses.fields(value)])


def part_of(item: pytest.Item) -> str:
    marker = item.get_closest_marker("part")
    if marker is not None:
        (part,) = marker.args
        if part not in NAMES:
            raise pytest.UsageError(f"{item.nodeid}: there is no part {part!r}; there are {', '.join(NAMES)}")
        return str(part)
    params = _params(item)
    if (part := _part_of_path(item.nodeid, FILES)) != GATE:
        return part
    if _is_unusual(params):
        return "matrix"
    return _part_of_path(item.nodeid, ON_SERVERS) if _names_server(params) else GATE


def _params(item: pytest.Item) -> dict[str, object]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params


def _names_server(params: dict[str, object]) -> bool:
    return any(isinstance(each, str) and each in SERVERS for each in params.values())


def _is_unusual(params: dict[str, object]) -> bool:
    """PostgreSQL beside a log in SQLite, or the other way round."""
    pair = params.get("database_settings"), params.get("log_settings")
    return None not in pair and pair not in USUAL


def _part_of_path(nodeid: str, parts: dict[str, str]) -> str:
    path = nodeid.partition("::")[0]
    return next((part for pattern, part in parts.items() if fnmatch(path, pattern)), GATE)
