"""Clients that break, lie or mean harm, against a real server: an answer that helps, nothing lost, nothing doubled."""

from __future__ import annotations

import gzip
import http.client
import json
import signal
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway_server import (
    CHUNK_BYTES,
    LINE_BYTES,
    Client,
    Gateway,
    Lab,
    expected,
    gateway,
    read_all,
    readings,
    serving,
)

from towpath.testing.clock import wait_until
from towpath.web.visitors import MOST_CHUNKS_OF_ONE

DATA = readings(40)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("gateway")) as found:
        yield found


@pytest.fixture
def client(server: Gateway) -> Client:
    return server.client()


@pytest.fixture
def lab(client: Client) -> Lab:
    return Lab(client)


def ends_well(server: Gateway, lab: Lab, data: bytes = DATA) -> None:
    """Whatever has happened: the client goes on where the server is, and each line is there once."""
    found = lab.open_session()
    position = found["position"]
    assert found["crc32"] == zlib.crc32(data[:position])
    lab.sequence = found["sequence"]
    assert lab.send(data[position:], position, last=True).json["position"] == len(data)
    assert lab.finish(data).status == 200
    assert server.lines(lab.id) == expected(lab.id, data)


# Cut off


@pytest.mark.parametrize("cut", ["in the first line", "in the headers", "before the end of the headers"])
def test_cut_in_a_header(server: Gateway, lab: Lab, cut: str) -> None:
    request = lab.client.head("POST", lab.path(0), Content_Length=len(DATA))
    length = {"in the first line": 20, "in the headers": len(request) // 2, "before the end of the headers": 2}[cut]
    lab.client.send_and_leave(request[:-2] if cut == "before the end of the headers" else request[:length])
    assert lab.position == 0
    ends_well(server, lab)


@pytest.mark.parametrize("last", [False, True], ids=["more comes", "last"])
@pytest.mark.parametrize("come", [0, 1, 25, len(DATA) - 1])
def test_cut_in_a_body(server: Gateway, lab: Lab, come: int, last: bool) -> None:
    """Taken as it is, its last line would be half a line: nobody knows what is missing."""
    request = lab.client.head("POST", lab.path(0, last=last), Content_Length=len(DATA))
    lab.client.send_and_leave(request + DATA[:come])
    assert lab.position == 0
    ends_well(server, lab)


@pytest.mark.parametrize("rest", [b"", b"1", b"20\r\ns-1,1,1.5\n", b"zz\r\n", b"-1\r\n"])
def test_cut_in_a_body_of_parts(server: Gateway, lab: Lab, rest: bytes) -> None:
    request = lab.client.head("POST", lab.path(0, last=True), Transfer_Encoding="chunked")
    lab.client.send_and_leave(request + b"%x\r\n%s\r\n" % (12, DATA[:12]) + rest)
    assert lab.position == 0
    ends_well(server, lab)


def test_a_body_of_parts_that_comes_whole_is_taken(server: Gateway, lab: Lab) -> None:
    parts = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (DATA[:7], DATA[7:]))
    request = lab.client.head("POST", lab.path(0), Transfer_Encoding="chunked", Connection="close")
    assert b" 200 " in lab.client.answered(request + parts + b"0\r\n\r\n").splitlines()[0]
    assert lab.position == len(DATA)
    ends_well(server, lab)


def test_cut_in_a_line(server: Gateway, lab: Lab) -> None:
    for cut in (5, 30, 100, len(DATA) - 3):
        position = lab.position
        answer = lab.send(DATA[position:cut], position)
        assert answer.json["position"] == DATA[:cut].rfind(b"\n") + 1
    ends_well(server, lab)


@pytest.mark.part("kills")
def test_killed_while_it_takes(tmp_path: Path) -> None:
    """With SIGKILL, while chunks come one after the other; the next server goes on where the log is."""
    data = readings(3_000)
    with gateway(tmp_path) as server:
        lab = Lab(server.client())

        def send() -> None:
            position = 0
            while position < len(data):
                try:
                    position = lab.send(data[position : position + 500], position).json["position"]
                except (OSError, http.client.HTTPException):  # also cut between the head and the body of an answer
                    return

        sender = threading.Thread(target=send)
        sender.start()
        wait_until(lambda: lab.sequence > 10)
        server.process.send_signal(signal.SIGKILL)
        sender.join(30)
        with serving(tmp_path / "towpath.toml") as (address, _):
            lab.client = Client(address, server.key)
            ends_well(server, lab, data)


# Packed


@pytest.mark.parametrize(
    "body",
    [
        b"this is no gzip",
        b"",
        gzip.compress(DATA)[:-1],
        gzip.compress(DATA)[:15],
        gzip.compress(DATA) + b"more",
        gzip.compress(DATA)[:-8] + bytes(8),
    ],
    ids=["none", "empty", "cut at its end", "cut", "something behind", "wrong sum"],
)
def test_wrong_gzip(server: Gateway, lab: Lab, body: bytes) -> None:
    answer = lab.send(body, 0, headers={"Content_Encoding": "gzip"})
    assert (answer.status, answer.code) == (422, "bad_chunk")
    assert lab.position == 0
    ends_well(server, lab)


def test_packed_chunks_are_taken(server: Gateway, lab: Lab) -> None:
    answer = lab.send(gzip.compress(DATA), 0, headers={"Content_Encoding": "GZIP"})
    assert answer.json["position"] == len(DATA)
    ends_well(server, lab)


def test_other_ways_to_pack_are_refused(lab: Lab) -> None:
    answer = lab.send(DATA, 0, headers={"Content_Encoding": "br"})
    assert (answer.status, answer.code) == (415, "unsupported_media_type")


def test_a_bomb_is_not_unpacked(server: Gateway, lab: Lab) -> None:
    """A quarter of a megabyte that would be more than two hundred: memory must not follow."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    bomb = packer.compress(bytes(200 << 20)) + packer.flush()
    assert len(bomb) < CHUNK_BYTES
    before = memory_kb(server)
    answer = lab.send(bomb, 0, headers={"Content_Encoding": "gzip"})
    assert (answer.status, answer.code) == (413, "chunk_too_large")
    assert answer.json["error"]["details"] == {"chunk_bytes": CHUNK_BYTES}
    assert memory_kb(server) - before < 50 << 10
    ends_well(server, lab)


def memory_kb(server: Gateway) -> int:
    """The most that the server has used."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0])


# Not what was agreed


def test_lines_that_cannot_be_read_are_kept_and_the_rest_goes_on(server: Gateway, lab: Lab) -> None:
    bad = [b"s-1,1,1.5\n", "caf\xe9,2,2.5\n".encode("latin-1"), b"s-3,3\n", b"s-4,x,4.5\n", b"s-5,5,5.5\n"]
    answer = lab.send(b"".join(bad), 0)
    assert (answer.json["line"], answer.json["refused"]) == (5, 3)
    found = dict(server.lines(lab.id))
    assert found[1]["at"] == 1
    assert found[5]["at"] == 5
    for number in (2, 3, 4):
        mark, why, text = found[number]
        assert (mark, why["line"], why["upload"]) == ("towpath-refused", number, lab.id)
        assert text.encode() == bad[number - 1].rstrip().decode("utf-8", "backslashreplace").encode()


@pytest.mark.parametrize("offset", [1, 10**6, 2**61])
def test_a_gap_is_refused_with_the_place_to_go_on(server: Gateway, lab: Lab, offset: int) -> None:
    lab.send(DATA[:50], 0)
    position = lab.position
    answer = lab.send(DATA, position + offset)
    assert (answer.status, answer.code) == (409, "chunk_gap")
    assert answer.json["error"]["details"]["position"] == position
    ends_well(server, lab)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "session=1",
        "session=1&offset=-1&sequence=1",
        f"session=1&offset={2**63}&sequence=1",
        "session=1&offset=0.5&sequence=1",
        "session=1&offset=0&sequence=x",
        "session=1&offset=0&sequence=1&last=perhaps",
    ],
)
def test_numbers_that_are_none(lab: Lab, query: str) -> None:
    answer = lab.client.ask("POST", f"{lab.at}/chunks?{query}", DATA)
    assert (answer.status, answer.code) == (422, "not_valid")
    assert lab.position == 0


def test_overlaps_and_repeats_are_cut(server: Gateway, lab: Lab) -> None:
    lab.send(DATA[:200], 0)
    position = lab.position
    assert lab.send(DATA[:200], 0).json["position"] == position
    assert lab.send(DATA[:300], 0, sequence=1).json["position"] == position  # as an old one
    assert lab.send(DATA[20:400], 20, sequence=9).json["position"] > position
    ends_well(server, lab)


def test_who_lies_about_the_end_is_refused(server: Gateway, lab: Lab) -> None:
    lab.send(DATA, 0)
    for bytes_, crc32 in ((len(DATA) + 1, zlib.crc32(DATA)), (len(DATA), 1), (0, 0)):
        said = {"session": lab.session, "bytes": bytes_, "crc32": crc32}
        answer = lab.client.ask("POST", f"{lab.at}/finish", said)
        assert (answer.status, answer.code) == (409, "sum_differs")
    ends_well(server, lab)


def test_many_tiny_chunks(server: Gateway, lab: Lab) -> None:
    """Each with a part of a line; what is not taken is sent again with more."""
    position, end = 0, 0
    while position < len(DATA):
        end = min(len(DATA), end + 3)
        position = lab.send(DATA[position:end], position).json["position"]
    assert lab.sequence == -(-len(DATA) // 3)
    ends_well(server, lab)


# Too much


def test_one_line_without_an_end(server: Gateway, lab: Lab) -> None:
    """Longer than a line may be: it is left out under its number, and stays a case."""
    long = b"s-1,3," + b"9" * 2 * LINE_BYTES + b"\n"
    data = DATA[:20] + long + readings(3)
    first = DATA[:20].rfind(b"\n") + 1
    assert lab.send(data[: first + LINE_BYTES], 0).json["position"] == first
    answer = lab.send(data[first : first + LINE_BYTES + 1], first)
    assert (answer.status, answer.code) == (413, "line_too_long")
    details = answer.json["error"]["details"]
    assert details == {"position": first, "line": 3, "line_bytes": LINE_BYTES}
    end = data.index(b"\n", first) + 1
    skipped = {
        "session": lab.session,
        "sequence": lab.sequence + 1,
        "offset": first,
        "bytes": end - first,
        "crc32": zlib.crc32(data[:end]),
        "beginning": data[first : first + 1000].decode(),
        "why": "longer than the server takes",
    }
    taken = lab.client.ok("POST", f"{lab.at}/skip", skipped)
    assert (taken["position"], taken["line"], taken["refused"]) == (end, 3, 1)
    lab.sequence += 1
    assert lab.send(data[end:], end).json["position"] == len(data)
    assert lab.finish(data).status == 200
    found = server.lines(lab.id)
    assert [line for line, _ in found] == [1, 2, 3, 4, 5, 6]
    assert found[2][1][0] == "towpath-refused"


def test_a_line_of_a_hundred_megabytes(server: Gateway, lab: Lab) -> None:
    """In one body: refused by its length, or as soon as it is too much; and the client can read why."""
    before, length = memory_kb(server), 100 << 20
    answer = lab.send(b"x" * length, 0)
    assert (answer.status, answer.code) == (413, "chunk_too_large")
    with lab.client.by_hand() as connection:
        connection.sendall(lab.client.head("POST", lab.path(0), Transfer_Encoding="chunked"))
        for _ in range(20):
            connection.sendall(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        said = read_all(connection)
    assert said.startswith(b"HTTP/1.1 413 ")
    assert b"chunk_too_large" in said
    assert memory_kb(server) - before < 50 << 10
    ends_well(server, lab)


def test_what_is_refused_can_be_read_by_a_client_that_still_sends(lab: Lab, server: Gateway) -> None:
    """Without a key, under another's name, with a wrong number: the body is taken from the wire all the same."""
    body = b"x" * (CHUNK_BYTES - 100)
    stranger = Client(server.address, "tp_aaaaaaaa_" + "x" * 43)
    for _ in range(3):
        assert stranger.ask("POST", lab.path(0), body).status == 401
        assert server.other().ask("POST", lab.path(0), body).status == 404
        assert lab.client.ask("POST", f"{lab.at}/chunks?session=x", body).status == 422


# Whose it is


def test_an_upload_of_somebody_else_is_none(server: Gateway, lab: Lab) -> None:
    lab.send(DATA, 0)
    eve, id = server.other(), lab.id
    asked: list[tuple[str, str, Any]] = [
        ("GET", f"/uploads/{id}", None),
        ("POST", f"{lab.at}/session", {}),
        ("POST", lab.path(len(DATA)), b"s-1,1,1\n"),
        ("POST", f"{lab.at}/finish", {"session": lab.session, "bytes": len(DATA), "crc32": zlib.crc32(DATA)}),
        ("POST", f"/uploads/{id}/abort", {"why": "malice"}),
        ("GET", f"/uploads/{id}/results", None),
        ("GET", f"/uploads/{id}/results/any", None),
        ("GET", f"/uploads/{id}/results/any?follow=true", None),
        ("GET", f"/uploads/{id}/results/any/events", None),
        ("POST", f"/uploads/{id}/results/any/acknowledge", {"cursor": "x"}),
    ]
    for method, path, body in asked:
        answer = eve.ask(method, path, body)
        assert (answer.status, answer.code) == (404, "unknown_upload"), (method, path, answer)
    assert id not in {each["id"] for each in eve.ok("GET", "/uploads?limit=1000")["items"]}
    assert id in {each["id"] for each in lab.client.ok("GET", "/uploads?limit=1000")["items"]}
    ends_well(server, lab)


@pytest.mark.parametrize(
    "id", ["x", "0", "00000000-0000-0000-0000-000000000000", "%00", "..", "%F0%9F%9A%A2", "a" * 99]
)
def test_ids_that_are_guessed(client: Client, id: str) -> None:
    answer = client.ask("GET", f"/uploads/{id}")
    assert answer.status in (404, 422), answer
    assert answer.code in ("unknown_upload", "bad_value", "not_found")


def test_the_id_of_another_cannot_be_opened(server: Gateway, lab: Lab) -> None:
    senders = [{"sender": "lab", "input": "readings", "format": "csv", "columns": ["sensor", "at", "value"]}]
    answer = server.other().ask("POST", "/uploads", {"id": lab.id, "stream": "readings", "senders": senders})
    assert (answer.status, answer.code) == (409, "upload_exists")


def test_opened_twice_is_opened_once(server: Gateway, client: Client) -> None:
    sent = {"stream": "readings", "senders": [{"sender": "a", "input": "readings", "format": "jsonl"}]}
    first = client.ask("POST", "/uploads", sent, Idempotency_Key="tuesday")
    again = client.ask("POST", "/uploads", sent, Idempotency_Key="tuesday")
    assert (first.status, again.status) == (201, 201)
    assert first.json["id"] == again.json["id"]
    other = server.other().ask("POST", "/uploads", sent, Idempotency_Key="tuesday")
    assert other.json["id"] != first.json["id"]


def test_of_two_clients_with_one_id_the_newer_wins_and_the_older_is_told(server: Gateway, lab: Lab) -> None:
    lab.send(DATA[:100], 0)
    older, position = lab.session, lab.position
    newer = lab.open_session()
    assert newer["position"] == position
    answer = lab.send(DATA[position:], position, session=older)
    assert (answer.status, answer.code) == (409, "session_replaced")
    assert answer.json["error"]["details"] == {"newest": newer["session"]}
    assert lab.position == position
    late = lab.client.ask(
        "POST", f"{lab.at}/finish", {"session": older, "bytes": position, "crc32": zlib.crc32(DATA[:position])}
    )
    assert (late.status, late.code) == (409, "session_replaced")
    ends_well(server, lab)


def test_two_clients_that_fight_for_one_sender(server: Gateway) -> None:
    """Each takes the sender back whenever it is told; in the end each line is there once."""
    data = readings(400)
    lab = Lab(server.client())

    def fight() -> None:
        mine = Client(server.address, server.key)
        while True:
            found = mine.ok("POST", f"{lab.at}/session", {})
            position, sequence = found["position"], found["sequence"]
            while position < len(data):
                sequence += 1
                query = f"session={found['session']}&offset={position}&sequence={sequence}"
                answer = mine.ask("POST", f"{lab.at}/chunks?{query}", data[position : position + 300])
                if answer.status == 200:
                    position = answer.json["position"]
                    continue
                assert answer.code in ("session_replaced", "not_yet"), answer
                break
            else:
                return

    fighters = [threading.Thread(target=fight) for _ in range(3)]
    for each in fighters:
        each.start()
    for each in fighters:
        each.join(60)
        assert not each.is_alive()
    assert server.lines(lab.id) == expected(lab.id, data)


def test_more_senders_than_there_is_room_for(server: Gateway) -> None:
    """With one key, all at once: who finds no room waits, and nobody is sent away."""
    labs = [Lab(server.client()) for _ in range(2 * MOST_CHUNKS_OF_ONE)]
    together = threading.Barrier(len(labs))

    def send(lab: Lab) -> list[int]:
        together.wait(30)
        return [lab.send(DATA[:end], 0).status for end in (100, 200, len(DATA))]

    with ThreadPoolExecutor(len(labs)) as pool:
        assert list(pool.map(send, labs)) == [[200, 200, 200]] * len(labs)
    assert [lab.position for lab in labs] == [len(DATA)] * len(labs)


def test_aborted_uploads_take_nothing(lab: Lab) -> None:
    lab.send(DATA[:100], 0)
    assert lab.client.ok("POST", f"/uploads/{lab.id}/abort", {"why": "a mistake"})["state"] == "aborted"
    for answer in (
        lab.send(DATA, 0),
        lab.finish(DATA[: lab.position]),
        lab.client.ask("POST", f"{lab.at}/session", {}),
    ):
        assert (answer.status, answer.code) == (409, "illegal_upload_move")


# In time


def test_the_server_ends_in_time_while_clients_hold_connections(tmp_path: Path) -> None:
    with gateway(tmp_path) as server:
        client = server.client()
        sent = {"stream": "asked", "senders": [{"sender": "a", "input": "asked", "format": "jsonl"}]}
        upload = client.ok("POST", "/uploads", sent)["id"]
        with client.by_hand() as following, client.by_hand() as idle:
            following.sendall(client.head("GET", f"/uploads/{upload}/results/answers?follow=true"))
            told = following.recv(4096)
            assert told.startswith(b"HTTP/1.1 200 ")
            idle.sendall(b"GET")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(120) == 0
            while more := following.recv(4096):
                told += more
            assert told.endswith(b"\r\n0\r\n\r\n"), "it ended in order, and was not cut off when the grace was over"


def test_openapi_of_the_gateway_alone(client: Client) -> None:
    found = client.ok("GET", "/openapi.json")
    assert all(path.startswith(("/gateway/v1/", "/healthz", "/readyz", "/metrics")) for path in found["paths"])
    chunks = found["paths"]["/gateway/v1/uploads/{upload}/senders/{sender}/chunks"]["post"]
    assert chunks["x-scope"] == "gateway:send"
    assert "application/octet-stream" in chunks["requestBody"]["content"]
    assert {"200", "400", "401", "404", "409", "413", "415", "422", "429", "503"} <= set(chunks["responses"])
    assert json.dumps(found).count("HTTPValidationError") == 0
