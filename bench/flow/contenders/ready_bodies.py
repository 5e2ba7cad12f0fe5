"""The limit: bulk bodies that were made before, posted by two threads. No pipeline at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from queue import Empty, SimpleQueue

import urllib3

from bench.flow.contenders.turn import my_turn, wait_for_end, wait_for_start
from bench.flow.settings import CHUNK
from bench.flow.workload import INDEX, KINDS, values

THREADS = 2
ACTION = b'{"index":{"_index":"%s%s","_id":"%d"}}\n%s\n'


def bodies(events: int) -> Iterator[bytes]:
    lines = (
        ACTION % (INDEX.encode(), KINDS[number % len(KINDS)].encode(), number, value)
        for number, value in enumerate(values(events))
    )
    while portion := b"".join(islice(lines, CHUNK)):
        yield portion


def post(pool: urllib3.PoolManager, url: str, waiting: SimpleQueue[bytes]) -> None:
    while True:
        try:
            body = waiting.get_nowait()
        except Empty:
            return
        headers = {"content-type": "application/x-ndjson"}
        answer = pool.request("POST", f"{url}/_bulk?filter_path=errors", headers=headers, body=body)
        assert answer.json() == {"errors": False}, answer.data[:300]


def main() -> None:
    turn = my_turn()
    waiting: SimpleQueue[bytes] = SimpleQueue()
    for body in bodies(turn.events):
        waiting.put(body)
    pool = urllib3.PoolManager(maxsize=THREADS)
    wait_for_start()
    for _ in range(THREADS):
        threading.Thread(target=post, args=(pool, turn.url, waiting), daemon=True).start()
    wait_for_end()


main()
