"""The index sink when the server, or what stands before it, does what a test cannot make a real server do.

A small proxy passes requests on to the real server, and answers those that a test has staged by itself.
"""

from __future__ import annotations

import logging
import pickle
import ssl
import subprocess
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.integration.test_sink_index import PLACE, deliveries, name, stored, through_pickle, write
from tests.support.bulk_proxy import BROKEN, BulkProxy, Told, busy, times

from towpath.errors import BadSettings, NeedsPerson, SinkError
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.index import writer as index_writer
from towpath.flow.sinks.index.reader import IndexReader
from towpath.flow.sinks.index.sink import IndexSink, index
from towpath.stack.search import ElasticsearchServer
from towpath.testing.proxy import CuttingProxy

__all__ = ["name", "stored"]


@pytest.fixture
def proxy(elasticsearch: ElasticsearchServer) -> Iterator[BulkProxy]:
    with BulkProxy(elasticsearch.url) as made:
        yield made


@pytest.fixture
def make(proxy: BulkProxy, name: str) -> Callable[..., IndexSink]:
    """A sink that goes through the proxy to an index of this test's own."""
    return lambda target=name, **options: index(target, url=proxy.url, **options)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_writer, "FIRST_WAIT_S", 0.002)


def ids_in(body: bytes) -> list[str]:
    return [orjson.loads(line)["index"]["_id"] for line in body.split(b"\n")[0:-1:2]]


def test_items_that_found_the_server_busy_are_sent_again_alone(proxy, make, name, stored):
    proxy.stage = busy(proxy, name, {"id-3", "id-7"}, rounds=2)
    documents = [{"n": n} for n in range(10)]
    assert write(make(), deliveries(documents)) == []
    assert [ids_in(body) for body in proxy.bodies][1:] == [["id-3", "id-7"], ["id-3", "id-7"]]
    assert stored(name) == {f"id-{n}": documents[n] for n in range(10)}


def test_busy_and_refused_items_of_one_answer_are_told_apart(proxy, make, name, stored):
    stored.put(f"/{name}", {"mappings": {"properties": {"n": {"type": "long"}}}})
    proxy.stage = busy(proxy, name, {"id-0"}, rounds=1, status=503)
    [refusal] = write(make(), deliveries([{"n": 0}, {"n": "bad"}, {"n": 2}]))
    assert (refusal.at, refusal.exception) == (1, "document_parsing_exception")
    assert stored(name) == {"id-0": {"n": 0}, "id-2": {"n": 2}}


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_items_that_always_find_the_server_busy_end_the_attempt(proxy, make, name, status):
    proxy.stage = busy(proxy, name, {"id-1"}, rounds=100, status=status)
    with pytest.raises(SinkError) as caught:
        write(make(), deliveries([{"n": n} for n in range(3)]))
    assert caught.value.code == ErrorCode.SINK_FAILED
    assert len(proxy.bodies) == index_writer.TRIES


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_server_is_waited_for(proxy, make, name, stored, status):
    proxy.stage = times(3, Told(status))
    assert write(make(), deliveries([{"n": 1}])) == []
    assert stored(name) == {"id-0": {"n": 1}}


@pytest.mark.parametrize(
    ("status", "code", "requests"),
    [
        (429, ErrorCode.SINK_REFUSED, index_writer.TRIES),
        (503, ErrorCode.SINK_FAILED, index_writer.TRIES),
        (500, ErrorCode.SINK_FAILED, 1),
        (401, ErrorCode.SINK_REFUSED, 1),
        (403, ErrorCode.SINK_REFUSED, 1),
        (404, ErrorCode.SINK_REFUSED, 1),
        (408, ErrorCode.SINK_REFUSED, 1),
        (302, ErrorCode.SINK_FAILED, 1),
    ],
)
def test_a_refused_request_ends_the_attempt(proxy, make, status, code, requests):
    said = orjson.dumps({"error": {"type": "some_exception", "reason": "some reason"}, "status": status})
    proxy.stage = times(100, Told(status, said))
    with pytest.raises(SinkError, match=f"{status} some_exception: some reason") as caught:
        write(make(), deliveries([{"n": 1}]))
    assert caught.value.code == code
    assert len(proxy.bodies) == requests


@pytest.mark.parametrize(
    "data",
    [
        b"<html>hello</html>",
        b"",
        b"[]",
        b"{}",
        b'{"errors":true,"items":[]}',
        b'{"errors":true,"items":[{"index":{}}]}',
    ],
)
def test_an_answer_that_is_not_one_ends_the_attempt(proxy, make, data):
    proxy.stage = times(100, Told(200, data))
    with pytest.raises(SinkError) as caught:
        write(make(), deliveries([{"n": 1}]))
    assert caught.value.code == ErrorCode.SINK_FAILED


def test_too_large_requests_are_sent_in_smaller_ones(proxy, make, name, stored):
    proxy.stage = lambda body: Told(413) if len(body) > 2_000 else None
    documents = [{"text": "x" * 500, "n": n} for n in range(40)]
    documents[17] = {"text": "y" * 5_000, "n": 17}
    handed = deliveries(documents)
    [refusal] = write(make(max_items=20, in_flight=1), handed)
    assert (refusal.at, refusal.code, refusal.exception) == (17, ErrorCode.SINK_REFUSED, "413")
    assert stored(name) == {f"id-{n}": documents[n] for n in range(40) if n != 17}


def test_what_was_too_large_once_is_not_tried_again(proxy, make):
    proxy.stage = lambda body: Told(413) if len(body) > 5_000 else None
    documents = [{"text": "x" * 500} for _ in range(200)]
    assert write(make(max_items=20, in_flight=1), deliveries(documents)) == []
    # The first and its halves, and the one that was built meanwhile with its; of ten.
    assert sum(len(body) > 5_000 for body in proxy.bodies) <= 6


def test_the_real_server_refuses_a_request_of_a_hundred_megabytes(elasticsearch, name, stored):
    huge = b'{"text": "' + b"x" * (101 << 20) + b'"}'
    [refusal] = write(index(name, url=elasticsearch.url), deliveries([{"n": 1}, huge, {"n": 3}]))
    assert (refusal.at, refusal.code, refusal.exception) == (1, ErrorCode.SINK_REFUSED, "413")
    assert stored(name) == {"id-0": {"n": 1}, "id-2": {"n": 3}}


def test_one_record_that_fails_the_whole_request_is_found(elasticsearch, name, stored):
    """The real server answers 400 for all when one version is below zero."""
    documents = [{"n": n} for n in range(50)]
    versions = [n if n not in (13, 14, 49) else -n for n in range(50)]
    refusals = write(index(name, url=elasticsearch.url, id="{n}"), deliveries(documents, versions=versions))
    assert [each.at for each in refusals] == [13, 14, 49]
    assert {(each.code, each.exception) for each in refusals} == {
        (ErrorCode.SINK_REFUSED, "action_request_validation_exception")
    }
    assert stored(name) == {f"id-{n}": documents[n] for n in range(50) if n not in (13, 14, 49)}


def test_a_server_that_refuses_every_single_record_needs_a_person(elasticsearch, name):
    with pytest.raises(NeedsPerson, match="illegal version value") as caught:
        write(index(name, url=elasticsearch.url, id="{n}"), deliveries([{"n": n} for n in range(9)], versions=[-1] * 9))
    assert caught.value.code == ErrorCode.SINK_REFUSED


def test_items_of_halves_have_outcomes_too(proxy, make, name, stored):
    stored.put(f"/{name}", {"mappings": {"properties": {"n": {"type": "long"}}}})
    late = busy(proxy, name, {"id-6"}, rounds=1)
    proxy.stage = lambda body: Told(400, b"{}") if b"poison" in body else (late(body) if b"id-6" in body else None)
    documents = [{"n": n} for n in range(8)]
    documents[2], documents[5] = {"n": "poison"}, {"n": "bad"}  # type: ignore[dict-item]
    refusals = write(make(), deliveries(documents))
    assert sorted((each.at, each.code) for each in refusals) == [
        (2, ErrorCode.SINK_REFUSED),
        (5, ErrorCode.ITEM_REFUSED),
    ]
    assert sorted(stored(name)) == [f"id-{n}" for n in (0, 1, 3, 4, 6, 7)]


@pytest.mark.parametrize("fault", ["lose_question", "lose_answer"])
def test_a_connection_cut_in_the_middle_is_made_again(elasticsearch, name, stored, fault):
    """The server has or has not done it: a repeat does no harm."""
    with CuttingProxy(elasticsearch.port) as cutting:
        getattr(cutting, fault)(b"cut me here")
        documents = [{"text": "x" * 100_000}, {"text": "cut me here"}, {"text": "y" * 100_000}]
        assert write(index(name, url=f"http://127.0.0.1:{cutting.port}"), deliveries(documents)) == []
        assert cutting.cuts >= 1
    assert stored(name) == {f"id-{n}": documents[n] for n in range(3)}


def test_an_answer_that_ends_in_its_middle_is_asked_for_again(proxy, make, name, stored):
    proxy.stage = times(1, Told(200, b'{"errors":false', length=1_000))
    assert write(make(), deliveries([{"n": 1}])) == []
    assert stored(name) == {"id-0": {"n": 1}}


def test_a_connection_that_always_breaks_ends_the_attempt(proxy, make):
    proxy.stage = times(100, BROKEN)
    with pytest.raises(SinkError) as caught:
        write(make(), deliveries([{"n": 1}]))
    assert caught.value.code == ErrorCode.NETWORK
    assert len(proxy.bodies) == 2


def test_a_slow_server_ends_the_attempt(proxy, make):
    release = threading.Event()
    proxy.stage = lambda body: Told(200) if release.wait(10) else None
    try:
        with pytest.raises(SinkError) as caught:
            write(make(timeout_s=0.2), deliveries([{"n": 1}]))
    finally:
        release.set()
    assert caught.value.code == ErrorCode.NETWORK


def test_a_server_that_is_gone_between_two_requests_ends_the_attempt(elasticsearch, name, stored):
    with CuttingProxy(elasticsearch.port) as cutting:
        writer = index(name, url=f"http://127.0.0.1:{cutting.port}", max_items=1).writer(PLACE)
        writer.write(deliveries([{"n": 1}]))
        assert writer.finish() == []
    writer.write(deliveries([{"n": 2}], ids=["second"]))
    with pytest.raises(SinkError) as caught:
        writer.finish()
    writer.close()
    assert caught.value.code == ErrorCode.SINK_UNAVAILABLE
    assert stored(name) == {"id-0": {"n": 1}}


def test_closing_does_not_sit_out_the_waits(proxy, make, monkeypatch):
    monkeypatch.setattr(index_writer, "FIRST_WAIT_S", 3600)
    asked = threading.Event()

    def stage(body: bytes) -> Told:
        asked.set()
        return Told(429)

    proxy.stage = stage
    writer = make(max_items=1).writer(PLACE)
    writer.write(deliveries([{"n": 1}]))
    assert asked.wait(60)
    writer.close()


def test_two_requests_are_under_way_and_never_three(proxy, make):
    lock, both = threading.Lock(), threading.Event()
    now, most = 0, 0

    def stage(body: bytes) -> Told | None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
            if now == 2:
                both.set()
        assert both.wait(30)
        with lock:
            now -= 1
        return None

    proxy.stage = stage
    assert write(make(max_items=1), deliveries([{"n": n} for n in range(8)])) == []
    assert most == 2


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody has signed but itself, with its key in the same file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=towpath-test -addext subjectAltName=IP:127.0.0.1"
    )
    made = subprocess.run(
        [*command.split(), "-keyout", f"{path}.key", "-out", f"{path}.crt"], capture_output=True, check=True, timeout=30
    )
    assert made.returncode == 0
    path.write_text(Path(f"{path}.key").read_text() + Path(f"{path}.crt").read_text())
    return path


@contextmanager
def guarded(server: ElasticsearchServer, certificate: Path, authorization: str) -> Iterator[BulkProxy]:
    """The real server behind TLS, for whoever has the right header."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with BulkProxy(server.url, context) as proxy:
        refused = Told(401, b'{"error":{"type":"security_exception","reason":"who are you?"},"status":401}')
        proxy.stage = lambda body: None if proxy.headers[-1].get("authorization") == authorization else refused
        yield proxy


BASIC = "Basic " + b64encode("lö:sec:ret".encode("latin-1")).decode()


def test_a_password_over_tls(elasticsearch, certificate, name, stored, monkeypatch):
    monkeypatch.setenv("INDEX_PASSWORD", "sec:ret")
    with guarded(elasticsearch, certificate, BASIC) as proxy:
        options: dict[str, Any] = {"url": proxy.url, "username": "lö", "ca": f"{certificate}.crt"}
        sink = index(name, password_env="INDEX_PASSWORD", **options)  # noqa: S106 - a name
        sink.check(PLACE.settings)
        assert write(sink, deliveries([{"n": 1}])) == []
        assert write(index(name, password="sec:ret", **options), deliveries([{"n": 1}])) == []  # noqa: S106 - made up
        with pytest.raises(SinkError, match="401 security_exception") as caught:
            index(name, password="wrong-secret", **options).check(PLACE.settings)  # noqa: S106 - made up
    assert caught.value.code == ErrorCode.SINK_REFUSED
    assert "wrong-secret" not in str(caught.value)
    assert stored(name) == {"id-0": {"n": 1}}


def test_an_api_key_over_tls(elasticsearch, certificate, name, stored, monkeypatch):
    monkeypatch.setenv("INDEX_KEY", "abc==")
    with guarded(elasticsearch, certificate, "ApiKey abc==") as proxy:
        options: dict[str, Any] = {"url": proxy.url, "api_key_env": "INDEX_KEY"}
        assert write(index(name, ca=f"{certificate}.crt", **options), deliveries([{"n": 1}])) == []
        assert write(index(name, verify=False, **options), deliveries([{"n": 2}], ids=["b"])) == []
        with pytest.raises(SinkError, match="certificate") as caught:
            index(name, **options).check(PLACE.settings)
    assert caught.value.code == ErrorCode.SINK_UNAVAILABLE
    assert stored(name) == {"id-0": {"n": 1}, "b": {"n": 2}}


def test_a_variable_that_is_not_set_is_named(name, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(BadSettings, match=r"NO_SUCH_KEY.*spark\.executorEnv\.NO_SUCH_KEY"):
        index(name, api_key_env="NO_SUCH_KEY").check(PLACE.settings)


def test_a_variable_that_only_a_worker_lacks_ends_the_attempt(name, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(SinkError, match="NO_SUCH_KEY") as caught:
        index(name, api_key_env="NO_SUCH_KEY").writer(PLACE)
    assert caught.value.code == ErrorCode.SINK_REFUSED


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (Told(400, b"<html>no</html>"), "Elasticsearch"),
        (Told(200, b"{}"), " 200"),
        (Told(405, b"{}"), " 405"),
    ],
)
def test_check_knows_what_is_no_index(proxy, make, told, says):
    proxy.stage = times(1, told)
    with pytest.raises(SinkError, match=says):
        make().check(PLACE.settings)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (Told(503, b"{}"), " 503"),
        (Told(200, b"<html>"), "JSON"),
        (Told(200, b'{"count": 1, "_shards": {"failed": 1}}'), "shards"),
    ],
)
def test_the_reader_never_takes_a_part_for_the_whole(proxy, make, told, says):
    proxy.stage = times(1, told)
    reader = IndexReader(make())
    with pytest.raises(SinkError, match=says):
        reader.count("anything")
    reader.close()


def test_secrets_are_not_shown(proxy, name, monkeypatch, caplog):
    monkeypatch.setenv("INDEX_KEY", "hidden-in-variable")
    caplog.set_level(logging.DEBUG)
    proxy.stage = times(100, Told(403))
    by_password = index(name, url=proxy.url, username="ann", password="hidden-password")  # noqa: S106 - made up
    by_variable = index(name, url=proxy.url, api_key_env="INDEX_KEY")
    shown = [caplog.text]
    for sink in (by_password, by_variable):
        again = through_pickle(sink)
        with pytest.raises(SinkError) as caught:
            write(sink, deliveries([{"n": 1}]))
        shown += [f"{each} {each!r} {each.address!r}" for each in (sink, again)]
        shown += [repr(caught.value), caplog.text, repr(sink.writer(PLACE))]
    assert "hidden" not in "".join(shown)
    assert b"hidden" not in pickle.dumps(by_variable)
