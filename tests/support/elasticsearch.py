"""A node of Elasticsearch as somebody else sees it: with plain requests, not with the code that is tested."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable
from typing import Any, NamedTuple

_OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy of the shell is not for this machine
PAGE = 10_000
TIMEOUT_S = 60


class Document(NamedTuple):
    """All that is stored of one."""

    target: str
    id: str
    version: int
    source: dict[str, Any]


class Node:
    """Asks and changes."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, body: str | None = None) -> Any:
        """The answer, as JSON; an error of the server is raised."""
        data = None if body is None else body.encode()
        kind = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, kind, method=method)  # noqa: S310 - http, our own node
        with _OPEN.open(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    def documents(self, pattern: str) -> list[Document]:
        """Everything in the indices of that name, in the order of index and id."""
        self.ask("POST", f"/{pattern}/_refresh")
        found: list[Document] = []
        answer = self.ask("POST", f"/{pattern}/_search?scroll=1m", f'{{"size":{PAGE},"version":true,"sort":["_doc"]}}')
        is_open = answer["_shards"]["total"] > 0  # an empty index is held open like any other, and another test counts
        while hits := answer["hits"]["hits"]:
            found += (Document(hit["_index"], hit["_id"], hit["_version"], hit["_source"]) for hit in hits)
            answer = self.ask(
                "POST", "/_search/scroll", json.dumps({"scroll": "1m", "scroll_id": answer["_scroll_id"]})
            )
        if is_open:  # where no index is, there is nothing to give back, and to try is an error
            self.ask("DELETE", "/_search/scroll", json.dumps({"scroll_id": answer["_scroll_id"]}))
        return sorted(found, key=lambda each: each[:2])

    def put(self, documents: Iterable[Document]) -> None:
        """Write them as they are, each with its version."""
        lines = []
        for index, id, version, source in documents:
            name = {"_index": index, "_id": id, "version": version, "version_type": "external_gte"}
            lines += [json.dumps({"index": name}), json.dumps(source)]
        answer = self.ask("POST", "/_bulk?refresh=true", "\n".join(lines) + "\n")
        assert not answer["errors"], answer

    def delete(self, index: str, id: str) -> None:
        assert self.ask("DELETE", f"/{index}/_doc/{id}?refresh=true")["result"] == "deleted"

    def drop(self, pattern: str) -> None:
        """The indices themselves. The node takes no pattern for that."""
        for index in self.ask("GET", f"/{pattern}/_stats/docs?ignore_unavailable=true")["indices"]:
            self.ask("DELETE", f"/{index}")
