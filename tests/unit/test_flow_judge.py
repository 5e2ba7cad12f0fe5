"""The judge: one cause, a large enough share, enough records, lately."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.core.clock import MICROS
from towpath.flow.run.outage import MOST_CAUSES, MOST_PLACES, OutageDetector, OutageVerdict
from towpath.settings import FlowSettings

SETTINGS = FlowSettings()  # 50 % of at least 100 within 10 s
NOW = 1_700_000_000 * MICROS
S = MICROS


def judged(passed: int, failures: dict[str, int]) -> OutageVerdict | None:
    judge = OutageDetector(SETTINGS)
    judge.saw("label", passed, failures, NOW)
    return judge.verdict("label", NOW)


@pytest.mark.parametrize(
    ("passed", "failures", "outage"),
    [
        (50, {"a": 50}, ("a", 0.5, 100)),  # exactly the share
        (51, {"a": 49}, None),
        (0, {"a": 99}, None),  # everything, but not enough
        (0, {"a": 100}, ("a", 1.0, 100)),
        (20, {"a": 40, "b": 40}, None),  # an outage has one cause
        (0, {"a": 50, "b": 50}, ("a", 0.5, 100)),
        (0, {"b": 50, "a": 50}, ("a", 0.5, 100)),  # of equals the first by name, whichever came first
        (10, {"a": 30, "b": 60}, ("b", 0.6, 100)),
        (100, {}, None),
        (0, {}, None),
        (0, {"a": 1_000_000}, ("a", 1.0, 1_000_000)),
        (1_000_000, {"a": 999_999}, None),
    ],
)
def test_share_and_sample(passed: int, failures: dict[str, int], outage: tuple[str, float, int] | None) -> None:
    assert judged(passed, failures) == (None if outage is None else OutageVerdict(*outage))


@pytest.mark.parametrize("share", [0.01, 0.07, 0.29, 0.57, 0.83, 1.0])
def test_a_share_is_reached_exactly(share: float) -> None:
    judge = OutageDetector(FlowSettings(judge_share=share))
    count = round(share * 100)
    judge.saw("label", 100 - count, {"a": count}, NOW)
    assert judge.verdict("label", NOW) is not None


def test_batches_add_up_within_the_window() -> None:
    judge = OutageDetector(SETTINGS)
    for second in range(5):
        assert judge.verdict("label", NOW + second * S) is None
        judge.saw("label", 10, {"a": 10}, NOW + second * S)
    assert judge.verdict("label", NOW + 4 * S) == OutageVerdict("a", 0.5, 100)


def test_what_is_older_than_the_window_does_not_count() -> None:
    judge = OutageDetector(SETTINGS)
    judge.saw("label", 0, {"a": 100}, NOW)
    assert judge.verdict("label", NOW + 9 * S) is not None
    assert judge.verdict("label", NOW + 10 * S) is None


def test_records_are_counted_by_tenths_of_the_window() -> None:
    """What comes just before a tenth ends is as old as what came at its beginning."""
    judge = OutageDetector(SETTINGS)
    judge.saw("label", 0, {"a": 100}, NOW + 999_999)
    assert judge.verdict("label", NOW + 9_999_999) is not None
    assert judge.verdict("label", NOW + 10 * S) is None
    judge.saw("label", 0, {"a": 100}, NOW + 10 * S)
    assert judge.verdict("label", NOW + 19_999_999) is not None


def test_few_records_are_never_an_outage() -> None:
    """Five a minute, all bad: each goes to the error topic."""
    judge = OutageDetector(SETTINGS)
    for number in range(1_000):
        now = NOW + number * 12 * S
        judge.saw("label", 0, {"a": 1}, now)
        assert judge.verdict("label", now) is None


def test_places_are_judged_apart() -> None:
    judge = OutageDetector(SETTINGS)
    judge.saw("label", 0, {"a": 100}, NOW)
    judge.saw("views", 100, {}, NOW)
    assert judge.verdict("label", NOW) is not None
    assert judge.verdict("views", NOW) is None
    assert judge.verdict("nowhere", NOW) is None


def test_after_an_outage_counts_start_anew() -> None:
    judge = OutageDetector(SETTINGS)
    judge.saw("label", 0, {"a": 1_000}, NOW)
    judge.cleared("label")
    assert judge.verdict("label", NOW) is None
    judge.saw("label", 90, {"a": 10}, NOW)
    assert judge.verdict("label", NOW) is None
    judge.cleared("nowhere")


def test_a_restart_neither_forgets_nor_renews() -> None:
    judge = OutageDetector(SETTINGS)
    judge.saw("label", 0, {"a": 60}, NOW)
    judge.saw("label", 0, {"a": 60}, NOW + 5 * S)
    again = OutageDetector.from_value(json.loads(json.dumps(judge.to_value())), SETTINGS)
    assert again.verdict("label", NOW + 6 * S) == OutageVerdict("a", 1.0, 120)
    assert again.verdict("label", NOW + 11 * S) is None  # the first half is over
    again.saw("label", 0, {"a": 50}, NOW + 11 * S)
    assert again.verdict("label", NOW + 11 * S) == OutageVerdict("a", 1.0, 110)


def test_a_stage_that_has_counted_nothing() -> None:
    assert OutageDetector.from_value({}, SETTINGS).to_value() == {}


# The clock


def test_a_small_step_back_loses_nothing() -> None:
    judge = OutageDetector(SETTINGS)
    judge.saw("label", 0, {"a": 60}, NOW)
    judge.saw("label", 0, {"a": 60}, NOW - 2 * S)
    assert judge.verdict("label", NOW - 2 * S) == OutageVerdict("a", 1.0, 120)


def test_after_a_large_step_back_the_future_is_forgotten() -> None:
    judge = OutageDetector(SETTINGS)
    judge.saw("label", 0, {"a": 1_000}, NOW)
    back = NOW - 3600 * S
    assert judge.verdict("label", back) is None
    judge.saw("label", 100, {}, back)
    assert judge.verdict("label", NOW) is None


def test_what_lies_a_whole_window_ahead_is_forgotten() -> None:
    judge = OutageDetector(SETTINGS)
    judge.saw("label", 0, {"a": 100}, NOW)
    assert judge.verdict("label", NOW - 10 * S + 1) is not None
    assert judge.verdict("label", NOW - 10 * S) is None


# Bounds


def test_fifty_causes_are_told_apart_in_each_place() -> None:
    judge = OutageDetector(SETTINGS)
    judge.saw("label", 0, {f"cause-{number}": 2 for number in range(50)}, NOW)
    assert len(judge.to_value()["label"]["causes"]) == 50
    judge.saw("label", 0, {"rare": 1, "frequent": 3}, NOW)
    causes = judge.to_value()["label"]["causes"]
    assert len(causes) == 50
    assert "frequent" in causes
    assert "rare" not in causes


def test_a_hundred_places_are_kept() -> None:
    judge = OutageDetector(SETTINGS)
    for number in range(101):
        judge.saw(f"views-{number}", 0, {"a": 100}, NOW)
    assert [*judge.to_value()] == [f"views-{number}" for number in range(1, 101)]


def test_memory_is_bounded_and_the_large_cause_stays() -> None:
    """Every failure has a text of its own, except for one cause that is half of them."""
    judge = OutageDetector(SETTINGS)
    for number in range(3_000):
        judge.saw("label", 0, {f"junk-{number}": 1, "cause": 1}, NOW + number * S // 400)
    value = judge.to_value()["label"]
    assert len(value["causes"]) <= MOST_CAUSES
    assert len(value["spans"]) <= 11
    assert judge.verdict("label", NOW + 8 * S) == OutageVerdict("cause", 0.5, 6_000)


def test_places_are_bounded_and_the_latest_stay() -> None:
    judge = OutageDetector(SETTINGS)
    for number in range(3 * MOST_PLACES):
        judge.saw(f"views-{number}", 0, {"a": 100}, NOW)
    assert len(judge.to_value()) == MOST_PLACES
    assert judge.verdict(f"views-{3 * MOST_PLACES - 1}", NOW) is not None
    judge.saw("last", 1, {}, NOW + 60 * S)
    assert list(judge.to_value()) == ["last"]


def test_a_batch_costs_little() -> None:
    judge, began = OutageDetector(SETTINGS), time.thread_time()  # a machine that stands still costs nothing
    failures = {f"cause-{number}": number for number in range(100)}
    for number in range(100):
        judge.saw("label", 1_000, failures, NOW + number * S // 10)
        judge.verdict("label", NOW + number * S // 10)
    assert time.thread_time() - began < 2.0


sights = st.lists(
    st.tuples(st.integers(0, 200), st.dictionaries(st.sampled_from("abc"), st.integers(0, 200)), st.integers(-30, 30))
)


@given(sights)
def test_a_verdict_is_what_the_counts_say(seen: list[tuple[int, dict[str, int], int]]) -> None:
    """Whatever comes in whatever order of time, and however often it was stored in between."""
    judge = OutageDetector(SETTINGS)
    for passed, failures, at in seen:
        judge.saw("label", passed, failures, NOW + at * S)
        judge = OutageDetector.from_value(json.loads(json.dumps(judge.to_value())), SETTINGS)
        verdict = judge.verdict("label", NOW + at * S)
        if verdict is not None:
            assert verdict.sample >= SETTINGS.judge_sample
            assert SETTINGS.judge_share <= verdict.share <= 1
            assert verdict.fingerprint in "abc"
