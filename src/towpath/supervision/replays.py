"""Which packets of whom have been seen: each counts once."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW = 1024  # packets may overtake each other by so many
QUIET_S = 30.0  # a newer boot that is silent for so long does not rule out an older one: a clock may have been set back
MOST_SENDERS = 4096  # the longest silent are forgotten first


@dataclass(slots=True)
class _Seen:
    """The newest life of a sender: its highest counter, and which of the last `WINDOW` below it have come."""

    boot: int
    highest: int
    bits: int
    heard_at: float


class Replays:
    """A window of counters for every sender, as IPsec has it."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def is_new(self, sender: str, boot: int, counter: int, now: float) -> bool:
        """Whether this packet has not come before; it has from now on."""
        seen = self._seen.pop(sender, None)
        if seen is None or boot > seen.boot or (boot < seen.boot and now - seen.heard_at > QUIET_S):
            self._seen[sender] = _Seen(boot, counter, 1, now)
            self._forget()
            return True
        self._seen[sender] = seen  # last in the order, since it was heard last
        if boot < seen.boot or not self._note(seen, counter):
            return False
        seen.heard_at = now
        return True

    def _note(self, seen: _Seen, counter: int) -> bool:
        ahead = counter - seen.highest
        if ahead > 0:
            seen.bits = ((seen.bits << ahead) | 1) & ((1 << WINDOW) - 1) if ahead < WINDOW else 1
            seen.highest = counter
            return True
        bit = 1 << -ahead
        if -ahead >= WINDOW or seen.bits & bit:
            return False
        seen.bits |= bit
        return True

    def _forget(self) -> None:
        if len(self._seen) > MOST_SENDERS:
            del self._seen[next(iter(self._seen))]
