"""Clients that send a file of itineraries: one, and many at once."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from examples.flights.client import STREAM
from examples.flights.station import Station

from bench.gateway.ground import until

MEGABYTE = 1_000_000
START_S = 300.0
LOOK_S = 0.1


def one_mb_per_minute(station: Station, file: Path) -> float:
    """From the start of `towpath send` to its end, when all is durable."""
    key = station.key("alone")
    began = time.monotonic()
    process = _sender(station, key, file, station.home / "alone.json")
    if process.wait() != 0:
        raise RuntimeError((station.home / "alone.json.log").read_text(errors="replace").strip()[-500:])
    return file.stat().st_size / MEGABYTE / (time.monotonic() - began) * 60


def many(station: Station, file: Path, clients: int, seconds: float) -> tuple[float, float]:
    """MB/min of all together, and what the slowest gets beside the fastest, while all are at work."""
    keys = [station.key(f"client-{number}") for number in range(clients)]
    senders = [_sender(station, key, file, station.home / f"client-{number}.json") for number, key in enumerate(keys)]
    try:
        until(lambda: len(_positions(station)) == clients and min(_positions(station)) > 0, "every client", START_S)
        before, began = _positions(station), time.monotonic()
        time.sleep(seconds)
        after, took_s = _positions(station), time.monotonic() - began
        if any(sender.poll() is not None for sender in senders):
            raise RuntimeError("a client was at its end before the time was over: give it a larger file")
    finally:
        for sender in senders:
            sender.kill()
            sender.wait()
    return rates(before, after, took_s)


def rates(before: Sequence[int], after: Sequence[int], took_s: float) -> tuple[float, float]:
    sent = [now - then for then, now in zip(before, after, strict=True)]
    return sum(sent) / MEGABYTE / took_s * 60, min(sent) / max(1, *sent)


def _sender(station: Station, key: str, file: Path, state: Path) -> subprocess.Popen[bytes]:
    words = ("send", STREAM, "--input", f"itineraries={file}", "--server", station.url, "--state", str(state))
    with Path(f"{state}.log").open("wb") as written:
        return subprocess.Popen(
            station.command(*words),
            cwd=station.home,
            env={**station.environment, "TOWPATH_KEY": key},
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )


def _positions(station: Station) -> list[int]:
    """Bytes that are durable, of each upload, the oldest first."""
    with station.connect() as runtime:
        uploads = runtime.gateway.list(limit=1000)
        found = {each.seq: runtime.gateway.status(each.id, owner=None).senders[0].position for each in uploads}
    return [found[seq] for seq in sorted(found)]
