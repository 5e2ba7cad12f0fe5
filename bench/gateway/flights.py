"""Flights of one client end to end, and the same four queries as one plain Spark job over the same files."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from examples.flights.answer_files import batch_lines, differences
from examples.flights.client import Client
from examples.flights.exhibition import everything_up, run_all
from examples.flights.station import ROOT, Station
from examples.flights.world.airport import all_airports
from examples.flights.world.amounts import Amounts

MOST_S = 3_600.0
LOOK_S = 0.2


@dataclass
class Flights:
    """Files that the seed decides, and what both make of them: it has to be the same."""

    home: Path
    rows: int
    seed: int = 2026

    def make(self) -> None:
        client = Client("files", self.home, Station(self.home, 0), "")
        client.write_files(self.seed, Amounts.of(self.rows), all_airports())

    def towpath_s(self) -> float:
        """Everything is up before the first byte is sent; the time is the client's."""
        directory = self.home / "towpath"
        shutil.rmtree(directory, ignore_errors=True)
        station = Station.make(directory)
        station.towpath("schema", "upgrade")
        client = Client("client", directory / "client", station, station.key("client"))
        client.home.mkdir()
        for name in ("airports.csv", "itineraries.csv"):
            (client.home / name).symlink_to(self.home / name)
        with everything_up(station):
            took_s = run_all([client], lambda: time.sleep(LOOK_S), MOST_S)
        self._compare(client)
        return took_s

    def batch_job_s(self) -> float:
        """Spark is up before the clock starts, as it is for the flow."""
        shutil.rmtree(self.answers, ignore_errors=True)
        files = [self.home / "airports.csv", self.home / "itineraries.csv", self.answers]
        done = subprocess.run(
            [sys.executable, "-m", "examples.flights.batch_job", *map(str, files)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=MOST_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-500:])
        return float(done.stdout.split()[-1])

    @property
    def answers(self) -> Path:
        return self.home / "batch"

    def _compare(self, client: Client) -> None:
        if not self.answers.exists():
            self.batch_job_s()
        if found := differences(batch_lines(self.answers), client.received()):
            raise RuntimeError(f"the answers differ from the plain job's: {found[0]}")
