"""ElasticsearchServer against the real node."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from towpath.errors import FetchFailed
from towpath.spark import artifacts
from towpath.spark.java import find_java
from towpath.stack import search
from towpath.stack.search import ElasticsearchServer
from towpath.stack.server import Server
from towpath.stack.user import current_user

pytestmark = pytest.mark.part("kills")


def ask(server: ElasticsearchServer, method: str, path: str, *lines: dict[str, Any]) -> Any:
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    kind = {"Content-Type": "application/x-ndjson" if path.startswith("/_bulk") else "application/json"}
    request = urllib.request.Request(f"{server.url}{path}", body or None, kind, method=method)  # noqa: S310, our own
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
        return json.load(answer)


def test_it_fits_the_shape(elasticsearch: ElasticsearchServer) -> None:
    assert isinstance(elasticsearch, Server)
    assert elasticsearch.is_running
    assert elasticsearch.is_healthy()
    assert elasticsearch.settings == {}
    assert "started" in elasticsearch.log_tail(1_000_000)  # its log grows by every index of other tests


def test_documents_go_in_and_come_out_also_after_a_crash(elasticsearch: ElasticsearchServer) -> None:
    documents = [line for n in range(10) for line in ({"index": {"_id": str(n)}}, {"n": n})]
    answer = ask(elasticsearch, "POST", "/_bulk?index=things&refresh=true", *documents)
    assert not answer["errors"]
    elasticsearch.kill()
    assert not elasticsearch.is_healthy()
    elasticsearch.start()
    found = ask(elasticsearch, "POST", "/things/_search", {"query": {"range": {"n": {"gte": 7}}}})
    assert {hit["_id"] for hit in found["hits"]["hits"]} == {"7", "8", "9"}


def test_it_listens_on_loopback_only_and_never_as_root(elasticsearch: ElasticsearchServer) -> None:
    info = ask(elasticsearch, "GET", "/_nodes/http,transport")
    (node,) = info["nodes"].values()
    for part in ("http", "transport"):
        assert [address.rpartition(":")[0] for address in node[part]["bound_address"]] == ["127.0.0.1"]
    assert os.stat(f"/proc/{elasticsearch.pids[0]}").st_uid != 0


@pytest.fixture(scope="module")
def whole() -> Path:
    """The archive in the ordinary cache, which is only read."""
    (packed,) = artifacts.read_lock(artifacts.ELASTICSEARCH)
    return artifacts.fetch(artifacts.ELASTICSEARCH, find_java()) / packed.file_name


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for this test only; returns where the archive belongs in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (packed,) = artifacts.read_lock(artifacts.ELASTICSEARCH)
    place = artifacts._directory(artifacts.ELASTICSEARCH, [packed])
    place.mkdir(parents=True)
    return place / packed.file_name


def test_programs_that_a_cleaner_has_eaten_are_unpacked_again(whole: Path, own_cache: Path) -> None:
    java = find_java()
    own_cache.symlink_to(whole)
    home = search.install(current_user(), java, None)
    (home / "bin" / "elasticsearch-node").unlink()
    assert search.install(current_user(), java, None) == home
    assert (home / "bin" / "elasticsearch-node").exists()


def test_a_damaged_archive_is_not_unpacked(whole: Path, own_cache: Path) -> None:
    """Its size is right, so that only the hash can tell."""
    content = bytearray(whole.read_bytes())
    content[1000] ^= 1
    own_cache.write_bytes(content)
    with pytest.raises(FetchFailed):
        search.install(current_user(), find_java(), None)
    assert not own_cache.exists()
