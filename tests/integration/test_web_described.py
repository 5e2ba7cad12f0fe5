"""Whatever the description of the JSON API allows, and what it does not: answers as described, and never a 500."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from hypothesis import settings
from tests.support.console_server import console_server
from tests.support.console_world import ConsoleWorld, console_runtime
from tests.support.described import HEALTH, checks
from tests.support.http import API, Client, make_key

from towpath.web.app import bare_app


def described() -> Any:
    return schemathesis.openapi.from_dict(bare_app().openapi()).include(path_regex=f"^({API}/|/complaints)")


DESCRIBED = described()
SOME = described()  # the same, without a case for each limit of each parameter
SOME.config.phases.coverage.enabled = False
TIMEOUT_S = 30.0
FEW = settings(max_examples=4, suppress_health_check=HEALTH)
MANY = settings(max_examples=100, suppress_health_check=HEALTH)
CHECKS = checks()


@dataclass(frozen=True)
class Server:
    """What is asked, by whom, and what there is to ask about."""

    address: str
    key: str
    known: dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all examples: they may find what others have made."""
    home = tmp_path_factory.mktemp("described")
    with pytest.MonkeyPatch.context() as patch, console_runtime(home) as runtime:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))  # what is cleaned is nothing of this machine
        patch.setattr("towpath.admin.cleanup.shared_directory", lambda: home / "shared")
        ConsoleWorld(runtime, home).fill()
        key = make_key(runtime)
        known = known_of(Client(runtime, key))
        with console_server(runtime) as console:
            yield Server(console.address, key, known)


def known_of(client: Client) -> dict[str, Any]:
    """By the names of parts of a path: something that is there."""

    def first(path: str, name: str) -> Any:
        return client.get(f"{API}{path}").json()["items"][0][name]

    return {
        "case": first("/desk/cases", "id"),
        "group": first("/desk/groups", "id"),
        "job": first("/desk/jobs", "id"),
        "rehearsal": first("/desk/rehearsals", "id"),
        "rule": first("/desk/rules", "rule"),
        "data_set": first("/data-sets", "id"),
        "message": first("/queue/messages", "id"),
        "process": first("/processes", "id"),
        "number": 1,
        "flow": "shop",
        "lane": 0,
        "actor": "counter",
        "instance": "main",
        "schedule": "hourly",
        "topic": "orders",
        "users": "carol",  # not the one who asks
        "maintenance": "queue",
        "supervision": "nothing",
    }


def about(case: Any, known: dict[str, Any]) -> None:
    """Something that is there, and for every other one of those a reason."""
    parameters = case.path_parameters or {}
    area = case.path.removeprefix(API).split("/")[1]
    for name in parameters:
        parameters[name] = known.get(area if name == "name" else name, parameters[name])
    if isinstance(case.body, dict) and "why" in case.body:
        case.body["why"] = "a test"


def ask(case: Any, server: Server) -> None:
    """Every other request is about what is there."""
    if zlib.crc32(repr((case.query, case.body)).encode(errors="replace")) % 2:
        about(case, server.known)
    headers = {"Authorization": f"Bearer {server.key}"}
    case.call_and_validate(base_url=server.address, headers=headers, checks=CHECKS, timeout=TIMEOUT_S)


@pytest.mark.part("matrix")
@SOME.parametrize()
@FEW
def test_few(case: Any, server: Server) -> None:
    ask(case, server)


@pytest.mark.part("matrix")
@DESCRIBED.parametrize()
@MANY
def test_many(case: Any, server: Server) -> None:
    ask(case, server)
