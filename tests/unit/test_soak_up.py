"""The parts of `make chaos-up` that decide whom it hits and what it is worth."""

from __future__ import annotations

from collections import Counter

from soak.up.found import Found
from soak.up.plan import Plan, chosen
from soak.up.verdict import judge
from soak.up.work import BAD, GOOD, LATE

LIVING = [*((f"peer-{n}", "peer") for n in (1, 2, 3)), ("flow", "flow"), ("actors-1", "actors"), ("desk", "desk")]
KINDS = {0: GOOD, 1: LATE, 2: BAD}
ALL_WELL = Found(Counter([0, 1]), Counter([(1, "resolved"), (2, "open")]), Counter([0, 1]), Counter())


def test_half_of_all_is_hit_and_one_peer_is_spared() -> None:
    seen = set()
    for strike in range(200):
        hit = chosen(LIVING, 7, strike)
        assert len(hit) == len(set(hit)) == 3
        assert {"peer-1", "peer-2", "peer-3"} - set(hit)
        assert hit == chosen(LIVING, 7, strike)
        seen.update(hit)
    assert seen == {name for name, _ in LIVING}


def test_the_last_peer_lives_and_an_empty_house_is_none_to_strike() -> None:
    assert chosen([("peer-1", "peer")], 1, 1) == []
    assert chosen([], 1, 1) == []


def test_strikes_come_every_ten_to_twenty_seconds() -> None:
    at = list(Plan(600, 3).strikes())
    pauses = [after - before for before, after in zip([0.0, *at], at, strict=False)]
    assert all(10 <= pause <= 20 for pause in pauses)
    assert 600 - at[-1] <= 20


def test_all_in_its_place_holds() -> None:
    assert judge(KINDS, 2, ALL_WELL).holds


def test_what_is_lost_doubled_or_in_two_places_is_told() -> None:
    loaded, cases = ALL_WELL.loaded, ALL_WELL.cases
    wrong = {
        "lost": Found(Counter([1]), cases, ALL_WELL.ended, Counter()),
        "doubled": Found(loaded + Counter([0]), cases, ALL_WELL.ended, Counter()),
        "loaded and on the desk": Found(loaded + Counter([2]), cases, ALL_WELL.ended, Counter()),
        "two cases": Found(loaded, cases + Counter([(2, "open")]), ALL_WELL.ended, Counter()),
        "still under way": Found(loaded, Counter([(1, "waiting"), (2, "open")]), ALL_WELL.ended, Counter()),
        "never sent": Found(loaded + Counter([9]), cases, ALL_WELL.ended, Counter()),
        "a run that has not ended": Found(loaded, cases, Counter([0]), Counter(running=1)),
        "a run that nobody knows": Found(loaded, cases, Counter([0]), Counter()),
    }
    assert [name for name, found in wrong.items() if judge(KINDS, 2, found).holds] == []
