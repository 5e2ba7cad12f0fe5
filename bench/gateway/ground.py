"""A gateway in a process of its own, in front of a log; nobody reads what it takes."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.flights.client import STREAM
from examples.flights.itinerary import SCHEMA as ITINERARY
from examples.flights.station import Station

READY_S = 120.0
LOOK_S = 0.1
# The stream of the example without its flow: uploads are over when all is sent.
FLOWLESS = {f'flow = "{STREAM}"': 'flow = ""', 'results = ["stops", "detours", "fastest", "fares"]': "results = []"}
AFTER = 'after = ["airports"]'


@contextmanager
def gateway(home: Path, database: str = "", log: str = "", more_columns: str = "") -> Iterator[Station]:
    """With an empty database, and ready to take uploads; `more_columns` are those of itineraries with more."""
    station = Station.make(home, database=database, log=log)
    text = station.config.read_text(encoding="utf-8")
    for line, other in FLOWLESS.items():
        text = text.replace(f"\n{line}\n", f"\n{other}\n", 1)
    wanted = f"{ITINERARY}, {more_columns}" if more_columns else ITINERARY
    text = text.replace(f"\n{AFTER}\n", "\n", 1).replace(json.dumps(ITINERARY), json.dumps(wanted), 1)
    station.config.write_text(text, encoding="utf-8")
    station.towpath("schema", "upgrade")
    with (home / "gateway.log").open("wb") as written:
        process = subprocess.Popen(
            station.command("gateway", "run"), cwd=home, env=station.environment, stdout=written, stderr=written
        )
    try:
        until(lambda: _answers(station, process), "the gateway", READY_S)
        yield station
    finally:
        process.terminate()
        process.wait(READY_S)


def until(is_so: Callable[[], bool], what: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} was not ready within {timeout_s:g} s")
        time.sleep(LOOK_S)


def _answers(station: Station, process: subprocess.Popen[bytes]) -> bool:
    from http.client import HTTPConnection, HTTPException

    if process.poll() is not None:
        raise RuntimeError(f"the gateway has ended with {process.returncode}; its log is in {station.home}")
    connection = HTTPConnection("127.0.0.1", station.port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
