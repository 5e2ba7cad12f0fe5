"""When an upload has passed: which stages count, and what has to be committed by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from towpath.errors import BadFlow
from towpath.flow.delivery.positions import OffsetRange, Positions
from towpath.flow.sinks.template import Template
from towpath.gateway.completion.plan import (
    ALL_STAGES,
    EVERYTHING,
    NO_ENDS,
    InnerTopic,
    StagePass,
    StageReached,
    StageRoute,
    StreamPlan,
    StreamRoute,
    TopicEnds,
    has_come_to,
    latest,
)
from towpath.gateway.completion.tracker import Fix, PassingMoves
from towpath.gateway.uploads.model import SenderState, UploadSender

AIRPORTS, FLIGHTS, PRICED = "airports", "flights", "priced"
TOPICS = {"airports": AIRPORTS, "flights": FLIGHTS}


def stage(name: str, reads: Sequence[str], *writes: str) -> StageRoute:
    return StageRoute(name, tuple(reads), tuple(map(Template, writes)))


STAGES = [stage("a", [AIRPORTS]), stage("f", [FLIGHTS], PRICED), stage("p", [PRICED])]
PLAN = StreamPlan(TOPICS, StreamRoute.of("s", TOPICS, STAGES))


def sender(input: str, ends: dict[int, int] | None, name: str = "") -> UploadSender:
    state = SenderState.RECEIVING if ends is None else SenderState.FINISHED
    return UploadSender("u", name or input, input, "csv", None, state, 1, 0, 0, 0, 0, 0, None, ends, 0, None)


def at(**stops: int) -> StageReached:
    ranges = Positions.of(OffsetRange(topic, f"id-{topic}", 0, 0, stop) for topic, stop in stops.items())
    return StageReached.of(ranges, Positions())


class Upload:
    """Plays what the service does with the moves."""

    def __init__(self, plan: StreamPlan = PLAN) -> None:
        self.plan = plan
        self.rows: dict[tuple[str, str], StagePass] = {}
        self.asked: list[str] = []  # topics whose end was asked for

    def look(
        self, senders: Sequence[UploadSender], is_closing: bool = False, **reached: StageReached
    ) -> list[tuple[str, str]]:
        """All rounds until nothing is news; returns what has passed."""
        news: list[tuple[str, str]] = []
        while True:
            moves = PassingMoves(self.plan, senders, list(self.rows.values()), reached)
            moves.look(is_closing)
            if not moves.fixes and not moves.marks:
                return news
            for fix in moves.fixes:
                assert (fix.input, fix.stage) not in self.rows, "fixed once"
                self.rows[fix.input, fix.stage] = StagePass("u", fix.input, fix.stage, self._ends(fix), None)
            for key in moves.marks:
                assert not self.rows[key].is_passed, "passed once"
                self.rows[key] = self.rows[key]._replace(passed_us=1)
            news += moves.marks

    def _ends(self, fix: Fix) -> TopicEnds:
        if not fix.topic:
            return NO_ENDS
        if fix.stops is None:
            self.asked.append(fix.topic)
        return TopicEnds(f"id-{fix.topic}", {0: 50} if fix.stops is None else fix.stops)


def test_ways_lead_through_topics_between_stages() -> None:
    assert PLAN.route.direct == {"airports": ("a",), "flights": ("f",)}
    assert PLAN.route.written == (InnerTopic(PRICED, "p", ("f",)),)
    assert PLAN.route.order.index("f") < PLAN.route.order.index("p")


def test_a_topic_with_fields_in_its_name_may_be_any_that_fits() -> None:
    stages = [stage("f", [FLIGHTS], "priced.{day}"), stage("p", ["priced.mon"]), stage("q", ["other"])]
    ways = StreamRoute.of("s", {"flights": FLIGHTS}, stages)
    assert ways.written == (InnerTopic("priced.mon", "p", ("f",)),)
    assert set(ways.order) == {"f", "p"}


@pytest.mark.parametrize(
    "stages",
    [
        [stage("f", [FLIGHTS], FLIGHTS)],
        [stage("f", [FLIGHTS, "b"], "a"), stage("g", ["a"], "b")],
    ],
)
def test_a_circle_has_no_end(stages: list[StageRoute]) -> None:
    with pytest.raises(BadFlow, match="circle"):
        StreamRoute.of("s", {"flights": FLIGHTS}, stages)


def test_an_input_passes_when_its_stages_have_committed_its_end() -> None:
    upload, senders = Upload(), [sender("airports", {0: 10}), sender("flights", None)]
    assert upload.look(senders, a=at(airports=9), f=at(flights=99)) == []
    assert upload.look(senders, a=at(airports=10), f=at(flights=99)) == [("airports", "a"), ("airports", ALL_STAGES)]
    assert upload.look(senders, a=at(airports=11), f=at(flights=99)) == []


def test_several_senders_of_an_input_end_with_the_last() -> None:
    upload = Upload()
    one, other = sender("airports", {0: 10}, "one"), sender("airports", None, "other")
    assert upload.look([one, other], a=at(airports=99)) == []
    assert upload.rows == {}
    assert upload.look([one, sender("airports", {0: 20}, "other")], a=at(airports=15)) == []
    assert upload.rows["airports", "a"].ends.stops == {0: 20}


def test_a_topic_between_stages_ends_when_its_writers_have_passed() -> None:
    upload, senders = Upload(), [sender("airports", {0: 10}), sender("flights", {0: 20})]
    reached: dict[str, Any] = {"a": at(airports=10), "p": at(priced=99)}
    passed = upload.look(senders, is_closing=True, **reached, f=at(flights=19))
    assert passed == [("airports", "a"), ("airports", ALL_STAGES)]
    assert upload.asked == [], "what the writer has not committed would stand behind the end"
    passed = upload.look(senders, is_closing=True, **reached, f=at(flights=20))
    assert passed == [("flights", "f"), ("flights", ALL_STAGES), (">priced", "p"), (EVERYTHING, ALL_STAGES)]
    assert upload.asked == [PRICED]


def test_everything_waits_for_stages_behind_others() -> None:
    upload, senders = Upload(), [sender("airports", {0: 10}), sender("flights", {0: 20})]
    reached: dict[str, Any] = {"a": at(airports=10), "f": at(flights=20)}
    assert (EVERYTHING, ALL_STAGES) not in upload.look(senders, is_closing=True, **reached, p=at(priced=49))
    assert upload.look(senders, is_closing=True, **reached, p=at(priced=50))[-1] == (EVERYTHING, ALL_STAGES)


def test_an_input_that_nobody_sends_or_reads_is_not_waited_for() -> None:
    plan = StreamPlan(TOPICS, StreamRoute.of("s", TOPICS, [stage("f", [FLIGHTS])]))
    upload = Upload(plan)
    assert upload.look([sender("airports", {0: 10})], is_closing=True) == [
        ("airports", ALL_STAGES),
        (EVERYTHING, ALL_STAGES),
    ]


def test_stages_that_have_committed_nothing_are_where_they_begin() -> None:
    starting = Positions.of([OffsetRange("t", "id", 0, 5, 5)])
    assert has_come_to(StageReached.of(None, starting), "t", TopicEnds("id", {0: 5}))
    assert not has_come_to(StageReached.of(None, starting), "t", TopicEnds("id", {0: 6}))


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (TopicEnds("id", {0: 5, 1: 0}), True),  # the stage need not know a partition that has nothing
        (TopicEnds("id", {0: 5, 1: 1}), False),
        (TopicEnds("another", {0: 500}), True),  # the topic was made again: what was in it is gone
        (TopicEnds("id", {}), True),
    ],
)
def test_every_partition_counts(ends: TopicEnds, expected: bool) -> None:
    reached = StageReached.of(Positions.of([OffsetRange("t", "id", 0, 0, 5)]), Positions())
    assert has_come_to(reached, "t", ends) is expected


def test_latest() -> None:
    assert latest([{0: 3, 1: 9}, {0: 4}, {2: 1}]) == {0: 4, 1: 9, 2: 1}
    assert latest([]) == {}
