"""Ids of cases: in the order of time, and the same however often a failure is told."""

from __future__ import annotations

import hashlib

_LARGEST_MS = (1 << 48) - 1


def case_id(timestamp_ms: int, *parts: object) -> str:
    """48 bits of the record's time, then bits of a hash of what makes the failure that one: laid out as a UUID.

    For an error: the stage, the hash of the batch, and where that has read the record. A batch that is cut off after it
    has told its errors tells them again, under the same hash.
    """
    return case_id_of(timestamp_ms, joined(*parts))


def joined(*parts: object) -> str:
    """The parts as one text, which is a part itself of a longer one."""
    return "\0".join(map(str, parts))


def case_id_of(timestamp_ms: int, parts: str) -> str:
    """The same for parts that are joined: who makes many ids joins once what they have in common."""
    digest = hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()
    time = f"{min(max(timestamp_ms, 0), _LARGEST_MS):012x}"
    variant = "89ab"[int(digest[3], 16) & 3]
    return f"{time[:8]}-{time[8:]}-8{digest[:3]}-{variant}{digest[4:7]}-{digest[7:19]}"
