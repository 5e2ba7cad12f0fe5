"""Lines that are no itineraries, each in another way. The gateway refuses them, and each is a case."""

from __future__ import annotations

from collections.abc import Callable

MALFORMED: dict[str, Callable[[int], bytes]] = {
    "a field is missing": lambda id: b"%d,EZE,MAD,SCL|LIM,840\n" % id,
    "a field too many": lambda id: b"%d,EZE,MAD,SCL|LIM,840,71000,yes\n" % id,
    "a word for a number": lambda id: b"%d,EZE,MAD,SCL|LIM,long,71000\n" % id,
    "no fare": lambda id: b"%d,EZE,MAD,SCL|LIM,840,\n" % id,
    "a broken fare": lambda id: b"%d,EZE,MAD,SCL|LIM,840,710.5\n" % id,
    "no UTF-8": lambda id: b"%d,EZE,\xe9\xe8\xff,SCL|LIM,840,71000\n" % id,
    "nothing in it": lambda id: b",,,,,\n",
}


def malformed_line(number: int, id: int) -> bytes:
    """The kinds in turn."""
    kinds = list(MALFORMED.values())
    return kinds[number % len(kinds)](id)
