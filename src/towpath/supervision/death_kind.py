"""How the death of a process was noticed."""

from __future__ import annotations

from enum import StrEnum


class DeathKind(StrEnum):
    """How a death was noticed."""

    EXIT = "exit"  # its launcher has seen it end, with an exit code
    SIGNAL = "signal"  # its launcher has seen it end, by a signal
    SILENCE = "silence"  # it neither beat nor answered, and was killed
    GONE = "gone"  # nothing was found of it
    NEVER_READY = "never ready"  # it was not ready in time, or could not be started
