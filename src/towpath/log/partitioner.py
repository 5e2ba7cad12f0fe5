"""Which partition a record goes to: where Kafka's Java clients would put it."""

from __future__ import annotations

from functools import lru_cache

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_REMEMBERED_KEYS = 65_536


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 with Kafka's seed."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        k ^= k >> 24
        h = (h * _MULTIPLIER & _MASK) ^ (k * _MULTIPLIER & _MASK)
    if whole < length:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _MULTIPLIER & _MASK
    h ^= h >> 13
    h = h * _MULTIPLIER & _MASK
    return h ^ h >> 15


@lru_cache(_REMEMBERED_KEYS)
def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, among so many."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
