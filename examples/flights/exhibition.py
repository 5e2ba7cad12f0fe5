"""One run of the example: everything up, clients at once, answers compared, everything down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from examples.flights.client import Client
from examples.flights.station import Station
from examples.flights.verdict import cases_by_step
from examples.flights.world.airport import all_airports
from examples.flights.world.amounts import Amounts

UP_S = 600.0
DESK_S = 300.0
LOOK_S = 0.5


def make_clients(
    station: Station, count: int, seed: int, amounts: Amounts, most_airports: int | None = None
) -> list[Client]:
    """Each with files of its own, which the seed decides."""
    airports = all_airports()[:most_airports]
    clients = []
    for number in range(1, count + 1):
        name = f"client-{number}"
        client = Client(name, station.home / name, station, station.key(name))
        client.write_files(seed * 1000 + number, amounts, airports)
        clients.append(client)
    return clients


@contextmanager
def everything_up(station: Station) -> Iterator[None]:
    """What the settings name, kept running by peers; stopped in the end."""
    try:
        station.towpath("up", "--timeout", f"{UP_S:g}", timeout_s=UP_S + 60)
        yield
    finally:
        station.towpath("down", "--timeout", f"{UP_S:g}", timeout_s=UP_S + 60)


def run_all(clients: Sequence[Client], meanwhile: Callable[[], None], deadline_s: float) -> float:
    """All at once; seconds until the last one had its answers. `meanwhile` is called all the time."""
    began = time.monotonic()
    with ThreadPoolExecutor(len(clients)) as pool:
        running = [pool.submit(client.run) for client in clients]
        while not all(each.done() for each in running):
            _check(running, began, deadline_s, clients)
            meanwhile()
        for each in running:
            each.result()
    return time.monotonic() - began


def _check(running: Sequence[Future[None]], began: float, deadline_s: float, clients: Sequence[Client]) -> None:
    """One that has failed, or takes too long, ends the run: those that wait would wait for ever."""
    failed = next((each for each in running if each.done() and each.exception() is not None), None)
    if failed is None and time.monotonic() - began < deadline_s:
        return
    for client in clients:
        client.stop()
    if failed is not None:
        failed.result()
    raise TimeoutError(f"the clients did not have their answers within {deadline_s:g} s")


def wait_for_cases(station: Station, expected: int) -> None:
    """The desk takes in what failed a little later than the flow passes it."""
    deadline = time.monotonic() + DESK_S
    with station.connect() as runtime:
        while cases_by_step(runtime).total() < expected and time.monotonic() < deadline:
            time.sleep(LOOK_S)
