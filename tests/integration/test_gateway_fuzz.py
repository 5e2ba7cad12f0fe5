"""Whatever is asked of the gateway, by its own description and beside it: never a 500, and nothing lost or doubled."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.described import HEALTH, checks
from tests.support.gateway_server import TIMEOUT_S, Client, Gateway, Lab, expected, gateway, readings

from towpath.web.app import Surface, bare_app

DESCRIBED = schemathesis.openapi.from_dict(bare_app(Surface.GATEWAY).openapi())
SHARED = settings(max_examples=60, suppress_health_check=HEALTH)
DATA = readings(30)
CHECKS = checks("ignored_auth")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("fuzz")) as found:
        yield found


@pytest.fixture(scope="module")
def lab(server: Gateway) -> Lab:
    """An upload that is there, so that what is asked is not always about nothing."""
    return Lab(server.client())


@pytest.mark.part("matrix")
@DESCRIBED.parametrize()
@SHARED
def test_by_its_description(case: Any, server: Gateway, lab: Lab) -> None:
    """Every other request is about what is there."""
    if zlib.crc32(repr((case.query, case.body)).encode(errors="replace")) % 2:
        about(case, lab)
    case.call_and_validate(
        base_url=server.address, headers={"Authorization": f"Bearer {server.key}"}, checks=CHECKS, timeout=TIMEOUT_S
    )


def about(case: Any, lab: Lab) -> None:
    parameters = case.path_parameters or {}
    parameters.update({name: value for name, value in (("upload", lab.id), ("sender", "lab")) if name in parameters})
    if isinstance(case.body, dict) and "stream" in case.body:
        case.body["stream"] = "readings"
    if isinstance(case.body, dict) and "session" in case.body:
        case.body["session"] = lab.session
    if isinstance(case.query, dict) and "session" in case.query:
        case.query["session"] = lab.session


CUTS = st.lists(
    st.tuples(
        st.integers(-60, 20),  # where it begins, from where the client should be
        st.integers(0, 200),  # how long it is
        st.booleans(),  # packed
        st.sampled_from(["new", "old", "wild"]),  # the number of the chunk
        st.booleans(),  # whether a new session is opened first
    ),
    max_size=12,
)


@given(cuts=CUTS)
@SHARED
def test_any_cut_of_a_file_gives_the_same_records(
    server: Gateway, cuts: list[tuple[int, int, bool, str, bool]]
) -> None:
    """Overlapping, repeated, with gaps, numbered at random: what is acknowledged is what was sent, once."""
    sender = Lab(server.client())
    known = 0
    for shift, length, is_packed, number, is_new in cuts:
        if is_new:
            sender.open_session()
        offset = min(max(0, known + shift), len(DATA))
        part = DATA[offset : offset + length]
        sequence = {"new": None, "old": sender.sequence, "wild": sender.sequence + 7}[number]
        headers = {"Content_Encoding": "gzip"} if is_packed else {}
        answer = sender.send(gzip.compress(part) if is_packed else part, offset, sequence=sequence, headers=headers)
        if answer.status == 409:
            assert (answer.code, answer.json["error"]["details"]) == ("chunk_gap", {"position": known})
            continue
        assert answer.status == 200, answer
        taken = answer.json
        assert known <= taken["position"] <= max(known, offset + length)
        known = taken["position"]
        assert taken["crc32"] == zlib.crc32(DATA[:known])
        assert DATA[:known].count(b"\n") == taken["line"]
    sender.sequence += 100
    assert sender.send(DATA[known:], known).json["position"] == len(DATA)
    assert sender.finish(DATA).status == 200
    assert server.lines(sender.id) == expected(sender.id, DATA)


@given(body=st.binary(max_size=300), format=st.sampled_from(["csv", "jsonl"]), last=st.booleans())
@SHARED
def test_any_bytes_are_taken_or_refused_by_line(server: Gateway, body: bytes, format: str, last: bool) -> None:
    """Each line is a record or a case; the position is where the last one ends."""
    sender = Lab(server.client(), format=format)
    answer = sender.send(body, 0, last=last)
    assert answer.status == 200, answer
    taken = answer.json
    if last:
        assert taken["position"] == len(body)
    assert taken["crc32"] == zlib.crc32(body[: taken["position"]])
    found = server.lines(sender.id)
    assert [line for line, _ in found] == sorted({line for line, _ in found})
    assert sum(isinstance(value, list) for _, value in found) == taken["refused"]


@given(request=st.binary(max_size=400))
@SHARED
def test_what_is_no_http_at_all(server: Gateway, request: bytes) -> None:
    """The server answers, or hangs up, and goes on."""
    server.client().send_and_leave(request)
    assert Client(server.address, server.key).ask("GET", "/streams").status == 200
