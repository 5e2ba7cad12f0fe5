"""How long pages take, over HTTP, as a browser that is logged in asks for them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from bench.console.serving import Served


def times_s(served: Served, pages: Mapping[str, Sequence[str]], times: int) -> dict[str, list[float]]:
    """Each list so many times, one address after the other; the first look at each is not counted."""
    found: dict[str, list[float]] = {name: [] for name in pages}
    headers = {"Cookie": served.cookie()}
    with served.connected() as connection:
        for name, addresses in pages.items():
            for at in range(-1, times):
                begun = time.perf_counter()
                connection.request("GET", addresses[at % len(addresses)], headers=headers)
                answer = connection.getresponse()
                answer.read()
                if answer.status not in (200, 303):
                    raise RuntimeError(f"{addresses[at % len(addresses)]} was answered with {answer.status}")
                if at >= 0:
                    found[name].append(time.perf_counter() - begun)
    return found
