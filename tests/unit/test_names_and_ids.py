"""Names that people can read, ids that are unique and grow, durations that make sense."""

from __future__ import annotations

import math
import threading
from typing import Any
from uuid import UUID

import pytest

from towpath.errors import BadName, BadValue, UnknownMessage
from towpath.queue.payload import LONGEST_NAME, check_id, check_name, check_seconds, new_id


@pytest.mark.parametrize("name", ["a", "orders.eu/new:1", "größe", "name//reply", "x" * LONGEST_NAME, "-"])
def test_usable_names(name: str) -> None:
    assert check_name(name, "inbox") == name


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a\n", "\x00", "a\x00", "a\x7f", "\t", "x" * (LONGEST_NAME + 1), None, 7, b"a", "a\ud800"]
)
def test_unusable_names(name: Any) -> None:
    with pytest.raises(BadName, match="inbox"):
        check_name(name, "inbox")


def test_ids_are_unique_and_of_version_7() -> None:
    ids = [new_id() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    parsed = [UUID(made) for made in ids]
    assert {made.version for made in parsed} == {7}
    assert {made.variant for made in parsed} == {"specified in RFC 4122"}
    assert [str(made) for made in parsed] == ids


def test_ids_grow_with_time() -> None:
    ids = [new_id() for _ in range(10_000)]
    by_time = [made[:13] for made in ids]
    assert by_time == sorted(by_time)


def test_ids_of_many_threads_are_unique() -> None:
    made: list[list[str]] = [[] for _ in range(8)]
    threads = [threading.Thread(target=lambda into=into: into.extend(new_id() for _ in range(2_000))) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for into in made for one in into}) == 16_000


def test_id_is_brought_to_one_form() -> None:
    made = new_id()
    assert check_id(made.upper()) == check_id(made.replace("-", "")) == check_id(made) == made


@pytest.mark.parametrize("text", ["", "7", "not-an-id", None, 7, "g" * 32])
def test_what_cannot_be_an_id_is_no_message(text: Any) -> None:
    with pytest.raises(UnknownMessage):
        check_id(text)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, -math.inf, 1e10])
def test_durations_that_make_no_sense(value: float) -> None:
    with pytest.raises(BadValue, match="ttl_s="):
        check_seconds(value, "ttl_s")


@pytest.mark.parametrize("value", [None, 0.5, 3])
def test_durations(value: float | None) -> None:
    assert check_seconds(value, "ttl_s") == value
