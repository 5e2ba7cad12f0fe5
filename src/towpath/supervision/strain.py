"""Whether this machine has too little time for its processes: then silence says less about who is dead."""

from __future__ import annotations

from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
STRAINED_PERCENT = 40.0  # of the last ten seconds somebody waited for a processor
READ_EVERY_S = 1.0
LATE_S = 0.5
REMEMBERED_S = 10.0


class Strain:
    """Knows it from the kernel, and from how late its own looks come."""

    def __init__(self, pressure: Path = PRESSURE) -> None:
        self._pressure = pressure
        self._read_at = float("-inf")
        self._percent = 0.0
        self._late_at = float("-inf")
        self._looked_at: float | None = None

    def note_look(self, now: float, rest_s: float) -> None:
        """A look that was to come `rest_s` after the one before, or sooner."""
        if self._looked_at is not None and now - self._looked_at > rest_s + LATE_S:
            self._late_at = now
        self._looked_at = now

    def is_strained(self, now: float) -> bool:
        if now - self._read_at >= READ_EVERY_S:
            self._read_at, self._percent = now, self._read()
        return self._percent >= STRAINED_PERCENT or now - self._late_at < REMEMBERED_S

    def _read(self) -> float:
        """As in `some avg10=98.15 avg60=…`; 0 where the kernel does not tell."""
        try:
            first = self._pressure.read_text().split()[1]
            return float(first.removeprefix("avg10="))
        except (OSError, ValueError, IndexError):
            return 0.0
