"""Whatever is sent to whatever route: an answer in the right shape, never a trace, and nothing breaks inside."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.desk_world import World
from tests.support.http import Client, error_of, make_key

import towpath
from towpath.runtime import Runtime
from towpath.web.app import ROUTERS

ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
CHANGES = [route for route in ROUTES if route.methods != {"GET"}]
NAMES = sorted(
    {name for route in CHANGES if route.body_field for name in route.body_field.field_info.annotation.model_fields}  # type: ignore[union-attr]
)
_HOLE = re.compile(r"{\w+(:path)?}")

# What is likely to be taken for something else.
TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["", "0", "-1", "1", "9" * 30, "null", "%", "'", '"', "\x00", "\ud800", "../..", "shop", "open", "x" * 400]
    ),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
BODIES = st.one_of(
    st.dictionaries(st.one_of(st.sampled_from(NAMES), TEXTS), VALUES, max_size=8).map(json.dumps).map(str.encode),
    VALUES.map(json.dumps).map(str.encode),
    st.binary(max_size=200),
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        b"Idempotency-Key": st.binary(max_size=40).map(lambda raw: re.sub(rb"[\x00-\x1f\x7f]", b"", raw).strip()),
        b"X-Request-ID": st.sampled_from([b"", b"r-1", b"\xff", b"x" * 300]),
        b"Content-Type": st.sampled_from([b"application/json", b"text/plain", b"", b"multipart/form-data"]),
    },
)
LEFT_OUT = settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One for all examples: they may find what others have made."""
    home = tmp_path_factory.mktemp("fuzz")
    url = f"sqlite:///{home}/towpath.db"
    database: dict[str, Any] = {"url": url, "synchronous": "normal"}
    if request.param == "postgres":
        database = {"url": request.getfixturevalue("postgres").url, "schema": f"fuzz_{uuid4().hex}"}
    with towpath.connect(database=database, log={"url": f"sqlite:///{home}/topics.db"}) as runtime:
        World(runtime).cases(3)
        yield Client(runtime, _every_scope(runtime))


def _every_scope(runtime: Runtime) -> str:
    return make_key(runtime, "admin")


def check(answer: Any) -> None:
    assert answer.status_code < 500, answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    if answer.status_code >= 400:
        error_of(answer)


@given(route=st.sampled_from(CHANGES), holes=st.lists(TEXTS, min_size=2, max_size=2), body=BODIES, headers=HEADERS)
@LEFT_OUT
def test_changes(client: Client, route: APIRoute, holes: list[str], body: bytes, headers: dict[bytes, bytes]) -> None:
    check(
        client.post(filled(route.path, holes), content=body, headers={b"Content-Type": b"application/json", **headers})
    )


QUERIES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "flow",
                "stage",
                "step",
                "code",
                "group",
                "states",
                "text",
                "body",
                "since",
                "until",
                "limit",
                "before",
                "after",
                "who",
                "form",
                "state",
                *("actor", "phase", "instance", "last", "kind", "subject"),
                *("topic", "partition", "offset", "key", "id", "case", "minutes", "width_s", "within_s"),
            ]
        ),
        TEXTS,
    ),
    max_size=4,
)


@pytest.mark.part("matrix")
@given(
    route=st.sampled_from([route for route in ROUTES if route.methods == {"GET"}]),
    holes=st.lists(TEXTS, min_size=2, max_size=2),
    query=QUERIES,
)
@LEFT_OUT
def test_looking(client: Client, route: APIRoute, holes: list[str], query: list[tuple[str, str]]) -> None:
    text = "&".join(f"{name}={quoted(value)}" for name, value in query)
    check(client.get(f"{filled(route.path, holes)}?{text}"))


@pytest.mark.part("matrix")
@given(path=st.binary(max_size=60), method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "TRACE", "BREW"]))
@LEFT_OUT
def test_nowhere(client: Client, path: bytes, method: str) -> None:
    check(client.request(method, "/" + quote(path)))


def filled(path: str, holes: list[str]) -> str:
    given = iter(holes)
    return _HOLE.sub(lambda _: quoted(next(given)) or "-", path)


def quoted(text: str) -> str:
    return quote(text.encode(errors="surrogatepass"), safe="")
