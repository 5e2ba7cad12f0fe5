"""What people do to schedules: each change leaves who and why, and what cannot be is refused with a reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.actors import Count, Counter, Nap, Sleeper
from tests.support.quiet import Quiet
from tests.support.sweep import sweep
from tests.support.tables import by_hand, events, rows

from towpath.actors.schedules.model import Daily, Interval, Since, Window
from towpath.actors.schedules.service import Schedules
from towpath.errors import BadName, BadPayload, BadState, BadValue, Refused, ScheduleExists, UnknownSchedule

BY_ANN: dict[str, Any] = {"who": "ann", "why": "a test"}


@pytest.fixture
def schedules(quiet: Quiet) -> Schedules:
    quiet.runtime.actors.register(Counter, Sleeper)
    return quiet.runtime.actors.schedules


@pytest.fixture
def waking(schedules: Schedules) -> Schedules:
    """With a schedule that wakes a sleeper."""
    schedules.add("tick", Sleeper, Interval(60), state="Awake", **BY_ANN)
    return schedules


@pytest.fixture
def counting(schedules: Schedules) -> Schedules:
    """With a schedule that starts a counter."""
    schedules.add("tick", Counter, Interval(60), state=Count(3), **BY_ANN)
    return schedules


def told(quiet: Quiet) -> list[tuple[str, str, str, Any]]:
    """Of each event: subject, who, why and data."""
    found = events(quiet.database, "schedule_changed_by_hand")
    data = [json.loads(each["data"]) for each in found]
    return [(each["subject"], each["who"], each["why"], more) for each, more in zip(found, data, strict=True)]


def test_every_change_says_who_and_why(quiet: Quiet, schedules: Schedules) -> None:
    schedules.add("tick", Counter, Interval(60), state=Count(3), who="ann", why="we need it")
    schedules.change("tick", rhythm=Daily(3, 30, "Europe/Berlin"), who="bob", why="too often")
    assert schedules.enable("tick", False, who="eve", why="a holiday")
    assert not schedules.enable("tick", False, who="eve", why="a holiday")
    assert schedules.enable("tick", True, who="eve", why="back again")
    schedules.remove("tick", who="ann", why="not needed")
    found = told(quiet)
    assert [each[:3] for each in found] == [
        ("tick", "ann", "we need it"),
        ("tick", "bob", "too often"),
        ("tick", "eve", "a holiday"),
        ("tick", "eve", "back again"),
        ("tick", "ann", "not needed"),
    ]
    assert [each[3]["what"] for each in found] == ["added", "changed", "disabled", "enabled", "removed"]
    assert found[1][3]["when"] == "daily at 03:30 Europe/Berlin"
    assert found[1][3]["before"]["when"] == "every 1 min"
    assert found[0][3]["payload"] == {"upto": 3, "n": 0}
    assert schedules.list() == []


@sweep(("who", "why"), [("", "because"), (" ", "because"), ("ann", ""), ("ann", " ")])
def test_without_a_name_or_a_reason_nothing_changes(quiet: Quiet, waking: Schedules, who: str, why: str) -> None:
    before = rows(quiet.database, "actor_schedule")
    acts: list[Callable[[], object]] = [
        lambda: waking.add("other", Sleeper, Interval(60), state="Awake", who=who, why=why),
        lambda: waking.change("tick", rhythm=Interval(5), who=who, why=why),
        lambda: waking.enable("tick", False, who=who, why=why),
        lambda: waking.remove("tick", who=who, why=why),
    ]
    for act in acts:
        with pytest.raises(Refused, match="by hand"):
            act()
    assert rows(quiet.database, "actor_schedule") == before


def test_what_is_changed_and_what_is_kept(schedules: Schedules) -> None:
    schedules.add("tick", Counter, Interval(60), state=Count(3), **BY_ANN)
    due = schedules.show("tick").next_us
    found = schedules.change("tick", payload={"upto": 4}, **BY_ANN)
    assert (found.state, found.payload, found.rhythm, found.next_us) == ("Count", {"upto": 4}, Interval(60), due)
    found = schedules.change("tick", instance="other", **BY_ANN)
    assert (found.instance, found.payload) == ("other", {"upto": 4})
    found = schedules.change("tick", state=None, payload={"upto": 5}, **BY_ANN)
    assert (found.state, found.payload) == (None, {"upto": 5})
    found = schedules.change("tick", rhythm=Window(22, 6), **BY_ANN)
    assert found.rhythm == Window(22, 6)
    assert found.next_us != due


@sweep(
    ("given", "error"),
    [
        ({"instance": ""}, BadName),
        ({"instance": "a//b"}, BadName),
        ({"rhythm": Daily(3, 0, "nowhere")}, BadValue),
        ({"rhythm": 5}, BadValue),
        ({"state": "Nothing"}, BadState),
        ({"state": None}, BadState),
        ({"payload": {"upto": "x"}}, BadState),
    ],
)
def test_a_change_that_cannot_be(counting: Schedules, given: dict[str, Any], error: type[Exception]) -> None:
    before = counting.show("tick")
    with pytest.raises(error):
        counting.change("tick", **given, **BY_ANN)
    assert counting.show("tick") == before


def test_a_disabled_one_has_no_next_run(schedules: Schedules) -> None:
    found = schedules.add("tick", Sleeper, Interval(60), state="Awake", is_enabled=False, **BY_ANN)
    assert (found.is_enabled, found.next_at) == (False, None)
    assert schedules.change("tick", rhythm=Interval(5), **BY_ANN).next_at is None
    schedules.enable("tick", True, **BY_ANN)
    assert schedules.show("tick").next_at is not None


@pytest.mark.parametrize("rhythm", [Interval(1), Interval(90.5, Since.RUN), Daily(0), Daily(23, 59), Window(5, 24)])
def test_a_rhythm_is_kept_as_it_is(schedules: Schedules, rhythm: Any) -> None:
    assert schedules.add("tick", Sleeper, rhythm, state="Awake", **BY_ANN).rhythm == rhythm


def test_a_list(schedules: Schedules) -> None:
    schedules.add("b", Sleeper, Interval(60), state=Nap(1), **BY_ANN)
    schedules.add("a", "nobody", Interval(60), **BY_ANN)
    assert [each.name for each in schedules.list()] == ["a", "b"]
    assert [each.name for each in schedules.list(actor="sleeper")] == ["b"]
    assert [each.warning is not None for each in schedules.list()] == [True, False]


@sweep(
    ("given", "error", "text"),
    [
        ({"name": "two words"}, BadName, "schedule"),
        ({"name": ""}, BadName, "schedule"),
        ({"rhythm": Daily(3, 0, "Europe/Berlim")}, BadValue, "'Europe/Berlim'"),
        ({"rhythm": Window(1, 2, "x/../y")}, BadValue, "time zone"),
        ({"rhythm": 60}, BadValue, "when"),
        ({"rhythm": None}, BadValue, "when"),
        ({"instance": "a//b"}, BadName, "instance"),
        ({"instance": ""}, BadName, "instance"),
        ({"instance": "x" * 101}, BadName, "100"),
        ({"actor": "No Such"}, BadName, "actor"),
        ({"actor": 7}, BadName, "actor"),
        ({"actor": str}, BadName, "actor"),
        ({"state": "Nothing"}, BadState, "'Nothing'"),
        ({"state": Nap(1)}, BadState, "counter"),
        ({"state": None, "payload": {}}, BadState, "upto"),
        ({"state": "Count", "payload": {"upto": "x"}}, BadState, "Count: upto"),
        ({"state": Count(1), "payload": {"upto": 1}}, BadValue, "fields"),
        ({"actor": "elsewhere", "payload": {"a": object()}}, BadPayload, "JSON"),
        ({"actor": "elsewhere", "payload": "x" * (1 << 21)}, BadPayload, "bytes"),
        ({"actor": "elsewhere", "state": "a b"}, BadName, "state"),
    ],
)
def test_refused(quiet: Quiet, schedules: Schedules, given: dict[str, Any], error: type[Exception], text: str) -> None:
    usual: dict[str, Any] = {"name": "tick", "actor": Counter, "rhythm": Interval(60), "state": Count(1), **BY_ANN}
    if given.get("actor") == "elsewhere":
        usual["state"] = None
    with pytest.raises(error, match=text):
        schedules.add(**{**usual, **given})
    assert rows(quiet.database, "actor_schedule") == []


def test_the_states_of_an_actor_elsewhere_are_known(make_quiet: Callable[..., Quiet]) -> None:
    make_quiet().runtime.actors.register(Counter)
    here = make_quiet().runtime.actors.schedules
    with pytest.raises(BadState, match="'Nothing'"):
        here.add("tick", "counter", Interval(60), state="Nothing", **BY_ANN)
    assert here.add("tick", "counter", Interval(60), state="Count", payload={"upto": 1}, **BY_ANN).warning is None


def test_names_are_used_once(schedules: Schedules) -> None:
    schedules.add("tick", Sleeper, Interval(60), state="Awake", **BY_ANN)
    with pytest.raises(ScheduleExists):
        schedules.add("tick", Sleeper, Interval(5), state="Awake", **BY_ANN)
    assert schedules.show("tick").rhythm == Interval(60)


def test_no_such_schedule(schedules: Schedules) -> None:
    acts: list[Callable[[], object]] = [
        lambda: schedules.show("none"),
        lambda: schedules.change("none", rhythm=Interval(5), **BY_ANN),
        lambda: schedules.enable("none", True, **BY_ANN),
        lambda: schedules.remove("none", **BY_ANN),
    ]
    for act in acts:
        with pytest.raises(UnknownSchedule) as caught:
            act()
        assert caught.value.name == "none"


@sweep(
    "bad",
    [
        "every_s = 0.5",
        "every_s = null",
        "hour = 3",
        "zone = 'UTC'",
        "kind = 'daily'",
        "kind = 'yearly'",
        "next_at = null",
        "is_enabled = 0",
        "last_at = 5",
        "skipped = 1",
        "since = 'ever'",
    ],
)
def test_a_hand_made_update_is_right_or_refused(quiet: Quiet, waking: Schedules, bad: str) -> None:
    before = rows(quiet.database, "actor_schedule")
    with pytest.raises(Exception, match=r"(?i)constraint"):
        by_hand(quiet.database, f"update actor_schedule set {bad}")
    assert rows(quiet.database, "actor_schedule") == before
