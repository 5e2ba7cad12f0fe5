"""One client: `towpath send`, then `towpath receive`, each as a process of its own that may be killed at any time."""

from __future__ import annotations

import signal
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from examples.flights import queries
from examples.flights.answer_files import as_lines
from examples.flights.oracle import Answers, Read, answers, read_airports, read_itineraries
from examples.flights.station import Station
from examples.flights.world.airport import Airport, write_airports
from examples.flights.world.amounts import Amounts
from examples.flights.world.itineraries import write_itineraries

from towpath.errors import TowpathError

STREAM = "flights"


class ClientFailed(TowpathError):
    """A command of a client has ended with an error, and not by a kill."""


@dataclass
class Client:
    """Has a directory with its two files, its state and what it has received."""

    name: str
    home: Path
    station: Station
    key: str = field(repr=False)
    kills: int = 0
    _is_stopping: bool = False
    _process: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def airports(self) -> Path:
        return self.home / "airports.csv"

    @property
    def itineraries(self) -> Path:
        return self.home / "itineraries.csv"

    @property
    def answers(self) -> Path:
        return self.home / "answers"

    @property
    def log(self) -> Path:
        return self.home / "client.log"

    def write_files(self, seed: int, amounts: Amounts, airports: list[Airport]) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        write_airports(self.airports, airports)
        write_itineraries(self.itineraries, seed, amounts, airports)

    def run(self) -> None:
        """Send everything and receive everything, however often this is cut off."""
        self._until_done(
            *("send", STREAM, "--input", f"airports={self.airports}", "--input", f"itineraries={self.itineraries}"),
            *("--server", self.station.url, "--state", str(self.home / "state.json")),
        )
        self._until_done(
            *(
                "receive",
                "--state",
                str(self.home / "state.json"),
                "--to",
                str(self.answers),
                "--format",
                "csv",
                "--wait",
            ),
            *("--server", self.station.url),
        )

    def kill(self) -> bool:
        """SIGKILL to whatever it does now; whether there was something."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                return False
            self._process.kill()
            self.kills += 1
            return True

    def stop(self) -> None:
        """For good: what it does now is its last command."""
        self._is_stopping = True
        self.kill()

    def expected(self) -> tuple[Read, Answers]:
        """What the oracle says about its files."""
        read = read_itineraries(self.itineraries)
        return read, answers(read_airports(self.airports), read.good)

    def received(self) -> dict[str, list[bytes]]:
        """The lines of its four files, sorted, by query; the header is checked and left out."""
        return {query: self._lines(query) for query in queries.QUERIES}

    def _lines(self, query: str) -> list[bytes]:
        path = self.answers / f"{query}.csv"
        header, *lines = path.read_bytes().splitlines() if path.exists() else [b""]
        [named] = as_lines([queries.COLUMNS[query]])
        return sorted(lines) if header == named else [b"wrong header: " + header]

    def _until_done(self, *words: str) -> None:
        while True:
            with self.log.open("ab") as written:
                process = subprocess.Popen(
                    self.station.command(*words),
                    cwd=self.home,
                    env={**self.station.environment, "TOWPATH_KEY": self.key},
                    stdin=subprocess.DEVNULL,
                    stdout=written,
                    stderr=written,
                )
            with self._lock:
                self._process = process
            code = process.wait()
            if code == 0:
                return
            if code != -signal.SIGKILL or self._is_stopping:
                said = self.log.read_text(encoding="utf-8", errors="replace").strip()[-1000:]
                raise ClientFailed(f"{self.name}: towpath {words[0]} ended with {code}: {said}")
