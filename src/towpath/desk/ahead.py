"""Reads ahead: while one portion is written, the next is read and looked at by another thread."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Ahead:
    """One thread, started when it is first needed. What an iterator raises is raised to whoever waits for it."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def read(self, source: Generator[T]) -> Iterator[Iterator[T]]:
        """What the source gives, one ahead. At the end of the block the source is closed: nothing of it runs then."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "desk intake, reading")
        pool = self._pool
        under_way: list[Future[T | None]] = [pool.submit(next, source, None)]
        try:
            yield self._each(pool, source, under_way)
        finally:
            under_way[0].cancel()
            pool.submit(source.close).result()

    def _each(self, pool: ThreadPoolExecutor, source: Generator[T], under_way: list[Future[T | None]]) -> Iterator[T]:
        while (found := under_way[0].result()) is not None:
            under_way[0] = pool.submit(next, source, None)
            yield found

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
