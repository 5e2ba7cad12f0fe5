"""Until when nobody wants to hear of a group."""

from __future__ import annotations

import pytest

from towpath.core.clock import MICROS
from towpath.desk.groups.model import Archive
from towpath.errors import BadValue


def test_until_so_many_more() -> None:
    left = Archive(more=3).after(1, now_us=0)
    assert left == Archive(more=2)
    assert left.after(1, now_us=0) == Archive(more=1)
    assert left.after(2, now_us=0) is None


def test_until_a_time() -> None:
    archive = Archive(until_us=100)
    assert archive.after(10**9, now_us=99) == archive
    assert archive.after(1, now_us=100) is None


def test_until_a_rate() -> None:
    archive = Archive(rate=10, per_s=60)
    first = archive.after(5, now_us=MICROS * 1000)
    assert first is not None
    assert (first.count, first.since_us) == (5, MICROS * 1000)
    assert first.after(5, now_us=MICROS * 1030) is None
    later = first.after(5, now_us=MICROS * 1060)
    assert later is not None
    assert later.count == 5


def test_for_ever() -> None:
    assert Archive().after(10**12, now_us=10**18) == Archive()


@pytest.mark.parametrize("archive", [Archive(), Archive(more=1), Archive(until_us=7), Archive(rate=2, per_s=1.5)])
def test_it_is_kept_as_json(archive: Archive) -> None:
    assert Archive.from_json(archive.to_json()) == archive


@pytest.mark.parametrize(
    "said", [{"more": 0}, {"more": 1, "until_us": 1}, {"rate": 1}, {"per_s": 1.0}, {"rate": 0, "per_s": 1.0}]
)
def test_what_cannot_be_meant(said: dict[str, float]) -> None:
    with pytest.raises(BadValue):
        Archive(**said)  # type: ignore[arg-type]
