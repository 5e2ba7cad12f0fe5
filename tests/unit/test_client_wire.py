"""What a client makes of each answer: go on, wait, or say clearly that it cannot."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from tests.support.receivers import certificates
from tests.support.scripted_gateway import Says, refusal, scripted_gateway

from towpath.client import Client, FileSource
from towpath.client.protocol import MOST_FAULTS, Stopped
from towpath.errors import BadValue, ClientError, GatewayAway, GatewayRefused, SenderReplaced, SourceChanged

KEY = "tp_secret"
QUICK_S = 0.01
PLACE = {"position": 0, "line": 0, "sequence": 0, "refused": 0, "crc32": 0}
SESSION = {**PLACE, "session": 1, "state": "receiving", "chunk_bytes": 64, "line_bytes": 32}
SENDER = {**PLACE, "sender": "s", "input": "i", "state": "receiving"}
UPLOAD = {"id": "u", "stream": "x", "state": "receiving", "label": "", "reason": None, "senders": [SENDER]}


def client(url: str, **options: object) -> Client:
    return Client(url, KEY, first_wait_s=QUICK_S, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "trouble",
    [
        Says(cut=True),
        refusal(503, "log_unavailable"),
        refusal(429, "not_yet", Retry_After="0"),
        refusal(500, "unexpected"),
        refusal(409, "request_running"),
        refusal(408, "request_timeout"),
        refusal(400, "cut_off"),
        Says(502, b"<html>bad gateway</html>"),
        Says(503, b"", {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    ],
    ids=lambda says: "cut" if says.cut else str(says.status),
)
def test_it_asks_again(trouble: Says) -> None:
    waits: list[str] = []
    with scripted_gateway(trouble, trouble, Says(body=UPLOAD)) as server:
        found = client(server.url, on_wait=lambda why, wait_s: waits.append(why)).status("u")
    assert found.id == "u"
    assert len(server.asked) == 3
    assert len(waits) == 2


@pytest.mark.parametrize("half", ["counted", "chunked", "open"])
def test_half_an_answer_is_none(half: str) -> None:
    """Taken for all of it, rows would be lost: the cursor behind them stands in the headers, which had come."""
    rows, headers = b'{"n": 1}\n{"n": 2}\n', {"Towpath-Cursor": "c", "Towpath-End": "true", "Towpath-Rows": "2"}
    with scripted_gateway(Says(body=rows, headers=headers, half=half), Says(body=rows, headers=headers)) as server:
        [page] = client(server.url).pages("u", "q")
    assert (page.lines, page.rows, page.cursor) == (rows, 2, "c")
    assert len(server.asked) == 2


def test_it_waits_as_long_as_the_server_asks() -> None:
    waits: list[float] = []
    with scripted_gateway(refusal(429, "too_fast", Retry_After="1"), Says(body=UPLOAD)) as server:
        client(server.url, on_wait=lambda why, wait_s: waits.append(wait_s)).status("u")
    assert [1.0 <= wait_s <= 1.25 for wait_s in waits] == [True]


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (refusal(401, "not_logged_in"), ["it is not_logged_in"]),
        (refusal(404, "unknown_upload"), ["it is unknown_upload"]),
        (refusal(409, "illegal_upload_move"), ["it is illegal_upload_move"]),
        (Says(404, b"<html>nothing</html>"), ["404", "right address"]),
        (Says(301, b"", {"Location": "https://elsewhere/"}), ["https://elsewhere/"]),
        (Says(200, b"<html>welcome</html>"), ["right address"]),
    ],
    ids=["401", "404", "409", "404 of another server", "301", "200 of another server"],
)
def test_what_it_cannot_mend_is_an_error_at_once(answer: Says, parts: list[str]) -> None:
    with scripted_gateway(answer) as server, pytest.raises(GatewayRefused) as refused:
        client(server.url).status("u")
    assert len(server.asked) == 1
    assert [part for part in parts if part not in str(refused.value)] == []
    assert KEY not in str(refused.value)


def test_a_fault_that_stays_is_told() -> None:
    """Without the limit a client would ask a broken server for ever, and nobody would know."""
    with scripted_gateway(refusal(500, "unexpected")) as server, pytest.raises(GatewayRefused, match="unexpected"):
        Client(server.url, KEY, first_wait_s=0.0001).status("u")
    assert len(server.asked) == MOST_FAULTS


def test_it_gives_up_when_it_is_told_to() -> None:
    with (
        scripted_gateway(refusal(503, "log_unavailable")) as server,
        pytest.raises(GatewayAway, match="log_unavailable"),
    ):
        client(server.url, give_up_after_s=0.2).status("u")
    assert len(server.asked) > 1


def test_it_ends_in_the_middle_of_a_wait_when_it_is_stopped() -> None:
    stop = threading.Event()
    with scripted_gateway(refusal(503, "log_unavailable", Retry_After="600")) as server, pytest.raises(Stopped):
        client(server.url, stop=stop, on_wait=lambda why, wait_s: stop.set()).status("u")


def test_the_key_and_the_id_of_the_upload_are_sent() -> None:
    with scripted_gateway(Says(201, UPLOAD)) as server:
        client(server.url).open("x", [], "a label", "an-id")
    [asked] = server.asked
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["idempotency-key"] == "an-id"
    assert json.loads(asked.body) == {"stream": "x", "label": "a label", "senders": [], "id": "an-id"}
    assert KEY not in repr(vars(client(server.url)))


def test_a_key_is_not_sent_in_the_clear_to_another_machine() -> None:
    with pytest.raises(BadValue, match="--plain-http"):
        Client("http://towpath.example.org", KEY)
    Client("http://towpath.example.org", KEY, plain_http=True)
    Client("http://localhost:1", KEY)
    Client("http://[::1]:1", KEY)


def test_a_server_is_recognised_by_its_certificate(tmp_path: Path) -> None:
    shown = certificates(tmp_path)
    with scripted_gateway(Says(body=UPLOAD), tls=shown.server) as server:
        assert client(server.url, ca_file=Path(shown.ca_file)).status("u").id == "u"
        with pytest.raises(BadValue, match="--ca-file"):  # and is not asked again and again
            client(server.url).status("u")
    assert len(server.asked) == 1
    with pytest.raises(BadValue, match="missing"):
        client("https://127.0.0.1", ca_file=tmp_path / "missing")


# Sending


@pytest.fixture
def source(tmp_path: Path) -> FileSource:
    (tmp_path / "data.jsonl").write_bytes(b'{"n": 1}\n{"n": 2}\n')
    return FileSource(tmp_path / "data.jsonl")


def test_another_sender_took_over(source: FileSource) -> None:
    with (
        scripted_gateway(Says(body=SESSION), refusal(409, "session_replaced")) as server,
        source,
        pytest.raises(SenderReplaced),
    ):
        client(server.url).send("u", "s", source)
    assert len(server.asked) == 2


def test_a_file_that_is_not_what_was_sent_before_is_refused(source: FileSource) -> None:
    begun = {**SESSION, "position": 9, "crc32": 1}
    with (
        scripted_gateway(Says(body=begun)) as server,
        source,
        pytest.raises(SourceChanged),
    ):
        client(server.url).send("u", "s", source)
    assert len(server.asked) == 1


def test_a_server_that_has_more_than_the_file(source: FileSource) -> None:
    begun = {**SESSION, "position": 1000, "crc32": 1}
    with scripted_gateway(Says(body=begun)) as server, source, pytest.raises(SourceChanged):
        client(server.url).send("u", "s", source)


def test_a_server_that_took_something_else_than_was_sent(source: FileSource) -> None:
    """Also a file that changes while it is read, and a way that turns bits."""
    taken = {**PLACE, "position": 18, "line": 2, "sequence": 1, "crc32": 7}
    with (
        scripted_gateway(Says(body=SESSION), Says(body=taken)) as server,
        source,
        pytest.raises(SourceChanged),
    ):
        client(server.url).send("u", "s", source)


def test_a_server_that_takes_nothing_and_does_not_say_why(source: FileSource) -> None:
    """Without an end of this the client would send the same chunk for ever, as fast as it can."""
    answers = Says(body=SESSION), Says(body=PLACE)
    with scripted_gateway(*answers) as server, source, pytest.raises(GatewayRefused, match="nothing"):
        client(server.url).send("u", "s", source)


def test_nothing_ends_in_an_exception_that_is_not_ours(source: FileSource) -> None:
    """Answers of all kinds, at every request of a sender."""
    odd = [
        Says(200, b"[]"),
        Says(200, {"position": "x"}),
        Says(204, b""),
        Says(418, b"\xff"),
        refusal(422, "bad_chunk", details=[1, 2]),
    ]
    for answer in odd:
        for before in ([], [Says(body=SESSION)]):
            with scripted_gateway(*before, answer) as server, pytest.raises(ClientError):
                client(server.url).send("u", "s", source)
    source.close()
