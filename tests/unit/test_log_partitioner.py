"""Keys go where Kafka's Java clients put them."""

from __future__ import annotations

import pytest

from towpath.log.record import murmur2, partition_of

# From Kafka's own tests of org.apache.kafka.common.utils.Utils.murmur2, as signed 32-bit numbers.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "signed"), KNOWN.items())
def test_hash_is_that_of_java_clients(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_partition_is_the_positive_hash_modulo_count(count: int) -> None:
    for key, signed in KNOWN.items():
        assert partition_of(key, count) == (signed & 0x7FFFFFFF) % count
