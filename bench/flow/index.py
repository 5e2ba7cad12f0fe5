"""The index as the watch sees it: what has arrived, asked of Elasticsearch itself."""

from __future__ import annotations

import json
import time
from typing import Any

import urllib3

from bench.flow.workload import INDEX

PATTERN = f"{INDEX}*"
LOOK_EVERY_S = 0.05
STANDSTILL_S = 90.0


class Index:
    """The indices of the benchmark."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = urllib3.PoolManager()
        template = {"settings": {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "30s"}}
        self._ask("PUT", "/_index_template/bench", {"index_patterns": [PATTERN], "template": template})

    def clear(self) -> None:
        names = self._ask("GET", f"/{PATTERN}/_settings?filter_path=*.settings.index.uuid")
        for name in names:
            self._ask("DELETE", f"/{name}")

    def wait_for(self, documents: int) -> float:
        """Until so many are indexed; returns when that was, by the monotonic clock."""
        seen, seen_at = -1, time.perf_counter()
        while (now := self._indexed()) < documents:
            if now > seen:
                seen, seen_at = now, time.perf_counter()
            elif time.perf_counter() - seen_at > STANDSTILL_S:
                raise TimeoutError(f"{now:,} of {documents:,} documents after {STANDSTILL_S:g} s without a new one")
            time.sleep(LOOK_EVERY_S)
        return time.perf_counter()

    def count(self) -> int:
        self._ask("POST", f"/{PATTERN}/_refresh")
        return int(self._ask("GET", f"/{PATTERN}/_count")["count"])

    def _indexed(self) -> int:
        shown = self._ask("GET", f"/{PATTERN}/_stats/indexing?filter_path=_all.primaries.indexing")
        indexing = shown.get("_all", {}).get("primaries", {}).get("indexing", {})
        return int(indexing.get("index_total", 0)) - int(indexing.get("index_failed", 0))

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"content-type": "application/json"} if body is not None else None
        answer = self._pool.request(method, self._url + path, headers=headers, body=body and json.dumps(body))
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.data[:300]!r}")
        found: dict[str, Any] = answer.json() if answer.data else {}
        return found
