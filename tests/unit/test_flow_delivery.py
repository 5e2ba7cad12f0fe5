"""Names of batches and deliveries: fixed for ever, unambiguous, quick."""

from __future__ import annotations

import hashlib
import time
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import BadValue
from towpath.flow.delivery.ids import (
    DeliveryIds,
    Digest,
    InputCoordinates,
    batch_hash,
    delivery_id,
    version_of,
    versions_of,
    with_incarnation,
)
from towpath.flow.delivery.positions import OffsetRange, Positions

POSITIONS = Positions.of([OffsetRange("clicks", "id-1", 0, 0, 17), OffsetRange("clicks", "id-1", 1, 4, 4)])

BATCH_VECTOR = "2adfb2ad48e8401708c4e0ebff1ccc3bc57d197697d0e97a4bcbc95eb5d9f444"
EMPTY_VECTOR = "98e4ae7ab6dc7c98cf0e48d611a17e3263875ae6e11f50ff26b122491dce7d28"
ID_VECTOR = "09dbd3055de42f52f530f2418a6eed2cab9a2c3b1fb8030b420a5b8aed4d8a8e"
ODD_ID_VECTOR = "d011f8e230a2f017063004b3b7dd1232932406a575d8cf97e170379de929f6d9"


def text(value: str) -> bytes:
    return pack(">I", len(value.encode())) + value.encode()


# These numbers are in sinks and ledgers: when one of these tests fails, the code is wrong, not the test.


def test_batch_hashes_never_change() -> None:
    assert batch_hash("page-views", "main", 1, 0, POSITIONS) == BATCH_VECTOR
    assert batch_hash("ü", "", 2, 1 << 40, Positions()) == EMPTY_VECTOR


def test_delivery_ids_never_change() -> None:
    assert delivery_id("page-views", "main", InputCoordinates("id-1", 3, 1 << 41), "views", 0).hex() == ID_VECTOR
    assert delivery_id("ü", "", InputCoordinates("", 0, 0), "", 7).hex() == ODD_ID_VECTOR


def test_what_is_hashed() -> None:
    batch = b"towpath batch 1\n" + text("f") + text("s") + pack(">qq", 2, 3) + text("id-1") + pack(">qqq", 0, 0, 17)
    batch += text("id-1") + pack(">qqq", 1, 4, 4)
    assert batch_hash("f", "s", 2, 3, POSITIONS) == hashlib.sha256(batch).hexdigest()
    delivery = b"towpath delivery 1\n" + text("f") + text("s") + text("o") + text("id-1") + pack(">qQI", 3, 99, 1)
    assert delivery_id("f", "s", InputCoordinates("id-1", 3, 99), "o", 1) == hashlib.sha256(delivery).digest()


def test_whatever_differs_makes_another_batch() -> None:
    moved = Positions.of([OffsetRange("clicks", "id-1", 0, 0, 17), OffsetRange("clicks", "id-1", 1, 4, 5)])
    made_again = Positions.of([OffsetRange("clicks", "id-2", 0, 0, 17), OffsetRange("clicks", "id-2", 1, 4, 4)])
    hashes = {
        batch_hash("f", "s", 1, 0, POSITIONS),
        batch_hash("fs", "", 1, 0, POSITIONS),
        batch_hash("", "fs", 1, 0, POSITIONS),
        batch_hash("f", "s", 2, 0, POSITIONS),
        batch_hash("f", "s", 1, 1, POSITIONS),
        batch_hash("f", "s", 1, 0, moved),
        batch_hash("f", "s", 1, 0, made_again),
        batch_hash("f", "s", 1, 0, Positions()),
    }
    assert len(hashes) == 8


names = st.text(max_size=4)
numbers = st.integers(0, 3)
deliveries = st.tuples(names, names, names, names, numbers, numbers, numbers)


@given(deliveries, deliveries)
def test_two_deliveries_have_two_ids(one: tuple[str, str, str, str, int, int, int], other: object) -> None:
    def id_of(flow: str, stage: str, output: str, topic: str, partition: int, offset: int, ordinal: int) -> bytes:
        return delivery_id(flow, stage, InputCoordinates(topic, partition, offset), output, ordinal)

    assert (id_of(*one) == id_of(*other)) == (one == other)  # type: ignore[misc]


def test_one_by_one_or_many_at_once() -> None:
    ids = DeliveryIds("f", "s", "o")
    offsets, ordinals = [5, 6, 6, 9], [0, 0, 1, 0]
    many = ids.many("id-1", 2, offsets, ordinals)
    assert many == [ids.of("id-1", 2, offset, ordinal) for offset, ordinal in zip(offsets, ordinals, strict=True)]
    assert many[0] == delivery_id("f", "s", InputCoordinates("id-1", 2, 5), "o", 0)
    assert len(set(many)) == 4


def test_an_id_takes_about_a_microsecond() -> None:
    """Ten times that would be a fault in the code."""
    ids, count = DeliveryIds("page-views", "main", "views"), 20_000
    took = []
    for _ in range(5):
        began = time.thread_time()
        for offset in range(count):
            ids.of("id-1", 3, offset, 0)
        took.append(time.thread_time() - began)
    assert min(took) / count < 10e-6


# Digests


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=20), st.randoms(), st.integers(0, 20))
def test_order_and_portions_do_not_matter(ids: list[bytes], shuffling, cut: int) -> None:
    whole, first, second = Digest(), Digest(), Digest()
    whole.add_many(ids)
    shuffling.shuffle(ids)
    for id in ids[:cut]:
        first.add(id)
    second.add_many(ids[cut:])
    second = Digest.from_hex(second.hex)
    second.merge(first)
    assert second == whole
    assert second.hex == f"{sum(int.from_bytes(id, 'big') for id in ids) % 2**256:064x}"


def test_a_digest_tells_what_is_missing_or_twice() -> None:
    ids = DeliveryIds("f", "s", "o").many("id", 0, range(5), [0] * 5)
    whole = Digest()
    whole.add_many(ids)
    for wrong in (ids[1:], [*ids, ids[0]]):
        other = Digest()
        other.add_many(wrong)
        assert other != whole
    other.remove(ids[0])
    assert other == whole
    assert Digest().hex == "0" * 64


# Versions


def test_versions_grow_with_the_offset_and_with_each_incarnation() -> None:
    assert version_of(0, 0) == 0
    assert version_of(0, 41) == 41
    assert version_of(3, 41) == 3 * 2**44 + 41
    assert version_of(0, 2**44 - 1) < version_of(1, 0)
    assert version_of(2**19 - 1, 2**44 - 1) == 2**63 - 1


@pytest.mark.parametrize(("incarnation", "offset"), [(2**19, 0), (-1, 0), (0, -1), (0, 2**44)])
def test_what_has_no_version_is_refused(incarnation: int, offset: int) -> None:
    with pytest.raises(BadValue):
        version_of(incarnation, offset)


@pytest.mark.parametrize("incarnation", [0, 3])
@pytest.mark.parametrize("offsets", [[], [0], [7, 5, 2**44 - 1]])
def test_versions_of_many_are_those_of_each(incarnation: int, offsets: list[int]) -> None:
    assert versions_of(incarnation, offsets) == [incarnation * 2**44 + offset for offset in offsets]


@pytest.mark.parametrize(
    ("incarnation", "offsets"), [(0, [5, -1, 7]), (0, [5, 2**44, 7]), (2, [-1]), (2**19, []), (-1, [3])]
)
def test_one_that_has_no_version_is_refused_with_all(incarnation: int, offsets: list[int]) -> None:
    with pytest.raises(BadValue):
        versions_of(incarnation, offsets)


def test_a_digest_shows_itself() -> None:
    assert repr(Digest(255)) == f"Digest({'0' * 62}ff)"


def test_incarnations_are_the_ids_seen() -> None:
    assert with_incarnation([], "a") == ["a"]
    assert with_incarnation(["a"], "a") == ["a"]
    assert with_incarnation(["a"], "b") == ["a", "b"]
