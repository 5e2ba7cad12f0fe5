"""Users, keys, log-ins and the trail, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from tests.support.sweep import sweep
from tests.support.tables import by_hand, events, rows

from towpath.access.changes import AuditRequest, ChangeOutcome
from towpath.access.roles import Role, Scope
from towpath.db.event_log import commit_by_hand
from towpath.errors import (
    BadName,
    BadValue,
    KeyEnded,
    LastAdmin,
    NotLoggedIn,
    TooManyFailures,
    UnknownKey,
    UnknownUser,
    UserExists,
)
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ann", "why": "a test"}
PASSWORD = "correct horse battery"  # noqa: S105 - nobody's
DAY_S = 86_400.0


def test_a_user_from_the_first_day_to_the_last(runtime: Runtime) -> None:
    access = runtime.access
    access.add_user("ada", "admin", **BY, password=PASSWORD)
    access.add_user("bob", "viewer", **BY)
    assert [(user.name, user.role, user.has_password) for user in access.users()] == [
        ("ada", Role.ADMIN, True),
        ("bob", Role.VIEWER, False),
    ]
    assert access.set_role("bob", "operator", **BY).role is Role.OPERATOR
    assert access.set_password("bob", PASSWORD, **BY).has_password
    assert not access.disable_user("bob", **BY).is_enabled
    with pytest.raises(NotLoggedIn):
        access.log_in.by_password("bob", PASSWORD, "127.0.0.1")
    access.enable_user("bob", **BY)
    assert access.log_in.by_password("bob", PASSWORD, "127.0.0.1").name == "bob"
    told = [row["data"] for row in events(runtime.database, "user_changed_by_hand")]
    assert len(told) == 6
    assert PASSWORD not in str(told)
    assert PASSWORD not in str(rows(runtime.database, "access_user"))


def test_what_is_wrong_about_users(runtime: Runtime) -> None:
    access = runtime.access
    access.add_user("ada", "admin", **BY)
    with pytest.raises(UserExists, match="'ada'"):
        access.add_user("ada", "viewer", **BY)
    with pytest.raises(UnknownUser, match="'eve'"):
        access.disable_user("eve", **BY)
    with pytest.raises(BadName):
        access.add_user("a b", "viewer", **BY)
    with pytest.raises(BadValue, match="reason"):
        access.add_user("bob", "viewer", who="ann", why=" ")
    assert [user.name for user in access.users()] == ["ada"]


def test_the_last_admin_stays(runtime: Runtime) -> None:
    access = runtime.access
    access.add_user("ada", "admin", **BY)
    for attempt in (lambda: access.disable_user("ada", **BY), lambda: access.set_role("ada", "viewer", **BY)):
        with pytest.raises(LastAdmin):
            attempt()
    access.add_user("bea", "admin", **BY)
    access.disable_user("ada", **BY)
    with pytest.raises(LastAdmin):
        access.set_role("bea", "operator", **BY)


def test_two_admins_cannot_take_each_other_away(make_runtime: Callable[..., Runtime]) -> None:
    """Each sees the other one as an admin; without a lock both would be let through."""
    runtimes = [make_runtime(), make_runtime()]
    names = ["ada", "bea"]
    for _ in range(5):
        for name in names:
            if name not in {user.name for user in runtimes[0].access.users()}:
                runtimes[0].access.add_user(name, "admin", **BY)
            runtimes[0].access.set_role(name, "admin", **BY)

        def take(runtime: Runtime, name: str) -> bool:
            try:
                runtime.access.set_role(name, "viewer", **BY)
            except LastAdmin:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            took = list(pool.map(take, runtimes, names))
        assert sorted(took) == [False, True]


def test_a_key_opens_until_it_is_revoked(runtime: Runtime) -> None:
    access = runtime.access
    access.add_user("ada", "operator", **BY)
    key, token = access.make_key("ada", ["desk:write", "read"], **BY, label="robot")
    found = access.log_in.by_key(token.text)
    assert (found.name, found.role, found.by) == ("ada", Role.OPERATOR, f"key:{key.id}")
    assert found.scopes == {Scope.READ, Scope.DESK_WRITE}
    assert access.key(key.id).used_at is not None
    assert token.text not in str(rows(runtime.database, "access_key"))
    assert token.text not in str(rows(runtime.database, "event"))
    access.revoke_key(token.prefix, **BY)
    with pytest.raises(NotLoggedIn):
        access.log_in.by_key(token.text)
    with pytest.raises(KeyEnded):
        access.revoke_key(key.id, **BY)


def test_a_key_ends(runtime: Runtime) -> None:
    access = runtime.access
    access.add_user("ada", "viewer", **BY)
    _, short = access.make_key("ada", ["read"], **BY, expires=timedelta(days=1))
    _, usual = access.make_key("ada", ["read"], **BY)
    _, endless = access.make_key("ada", ["read"], **BY, is_endless=True)
    assert [key.expires_at is None for key in access.keys(limit=9)] == [True, False, False]
    runtime.database.shift_clock(2 * DAY_S)
    with pytest.raises(NotLoggedIn):
        access.log_in.by_key(short.text)
    access.log_in.by_key(usual.text)
    runtime.database.shift_clock(100 * DAY_S)
    with pytest.raises(NotLoggedIn):
        access.log_in.by_key(usual.text)
    access.log_in.by_key(endless.text)
    with pytest.raises(BadValue, match="future"):
        access.make_key("ada", ["read"], **BY, expires=timedelta(seconds=-1))


def test_a_key_follows_its_user(runtime: Runtime) -> None:
    access = runtime.access
    access.add_user("ada", "operator", **BY)
    _, token = access.make_key("ada", ["read", "desk:write"], **BY)
    access.set_role("ada", "viewer", **BY)
    assert access.log_in.by_key(token.text).scopes == {Scope.READ}
    access.disable_user("ada", **BY)
    with pytest.raises(NotLoggedIn):
        access.log_in.by_key(token.text)


def test_a_wrong_key_of_a_right_prefix_opens_nothing(runtime: Runtime) -> None:
    access = runtime.access
    access.add_user("ada", "viewer", **BY)
    _, token = access.make_key("ada", ["read"], **BY)
    for wrong in (token.prefix + "_" + "A" * 43, token.text.upper(), token.text + "x", "", "\x00", "tp_"):
        with pytest.raises(NotLoggedIn, match="key"):
            access.log_in.by_key(wrong)


def test_keys_are_named_by_enough_of_them(runtime: Runtime) -> None:
    access = runtime.access
    access.add_user("ada", "viewer", **BY)
    key, token = access.make_key("ada", ["read"], **BY)
    assert access.key(token.prefix[:7]) == access.key(key.id)
    for text in ("", "tp_", token.prefix[:6], "%", "tp\x00_______", "nothing at all"):
        with pytest.raises(UnknownKey):
            access.key(text)


def test_pages_of_keys(runtime: Runtime) -> None:
    access = runtime.access
    for name in ("ada", "bob"):
        access.add_user(name, "viewer", **BY)
        for number in range(3):
            access.make_key(name, ["read"], **BY, label=f"{name} {number}")
    first = access.keys(limit=2)
    assert [key.label for key in first] == ["bob 2", "bob 1"]
    assert [key.label for key in access.keys(limit=2, before=first[-1].seq)] == ["bob 0", "ada 2"]
    assert [key.label for key in access.keys(user="ada")] == ["ada 2", "ada 1", "ada 0"]


def test_who_fails_to_log_in_waits(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime(access={"failures": 2, "failure_wait_s": 600.0})
    access = runtime.access
    access.add_user("ada", "viewer", **BY, password=PASSWORD)

    def log_in(name: str = "ada", password: str = PASSWORD, address: str = "10.0.0.1") -> str:
        return access.log_in.by_password(name, password, address).name

    for name in ("ada", "nobody"):  # the same for one who is not there
        for _ in range(2):
            with pytest.raises(NotLoggedIn) as caught:
                log_in(name, "wrong wrong wrong")
            assert type(caught.value) is NotLoggedIn
        with pytest.raises(TooManyFailures) as waiting:
            log_in(name)
        assert 300 < waiting.value.after_s <= 600, "on a busy machine a moment has passed since"
    assert [row["subject"] for row in events(runtime.database, "log_in_refused")] == ["from 10.0.0.1"] * 2
    runtime.database.shift_clock(601)
    assert log_in() == "ada"
    assert log_in() == "ada"


def test_a_hundred_tries_at_once_count_as_a_hundred(make_runtime: Callable[..., Runtime]) -> None:
    """If a try were counted only when it has failed, all that come together would be let through."""
    access = make_runtime(access={"failures": 3, "failure_wait_s": 60.0}).access
    access.add_user("ada", "viewer", **BY, password=PASSWORD)

    def attempt(_: int) -> type[Exception] | None:
        try:
            access.log_in.by_password("ada", "wrong wrong wrong", "10.0.0.1")
        except NotLoggedIn as error:
            return type(error)
        return None

    with ThreadPoolExecutor(8) as pool:
        came = list(pool.map(attempt, range(24)))
    assert came.count(NotLoggedIn) == 3
    assert came.count(TooManyFailures) == 21


def test_many_names_from_one_address_wait_too(make_runtime: Callable[..., Runtime]) -> None:
    access = make_runtime(access={"failures": 1, "failure_wait_s": 60.0}).access
    for number in range(10):
        with pytest.raises(NotLoggedIn) as caught:
            access.log_in.by_password(f"name{number}", "wrong wrong wrong", "10.0.0.1")
        assert type(caught.value) is NotLoggedIn
    with pytest.raises(TooManyFailures):
        access.log_in.by_password("name11", "wrong wrong wrong", "10.0.0.1")
    with pytest.raises(NotLoggedIn) as caught:
        access.log_in.by_password("name11", "wrong wrong wrong", "10.0.0.2")
    assert type(caught.value) is NotLoggedIn


ASKED = AuditRequest("ada", "key:1", "do", "it", "r-1")


def test_the_trail_says_what_came_of_it(runtime: Runtime) -> None:
    changes = runtime.access.changes
    with changes.recorded(ASKED):
        runtime.access.add_user("bob", "viewer", **BY)
    with pytest.raises(UserExists), changes.recorded(ASKED):
        runtime.access.add_user("bob", "viewer", **BY)
    with pytest.raises(ZeroDivisionError), changes.recorded(ASKED):
        1 / 0  # noqa: B018
    changes.refused(ASKED, "not today")
    came = [(row.outcome, row.reason) for row in runtime.access.trail()][::-1]
    assert [outcome for outcome, _ in came] == [
        ChangeOutcome.DONE,
        ChangeOutcome.REFUSED,
        ChangeOutcome.FAILED,
        ChangeOutcome.REFUSED,
    ]
    done, refused, *others = (reason for _, reason in came)
    assert done == ""
    assert "'bob'" in refused
    assert others == ["ZeroDivisionError: division by zero", "not today"]
    assert {(row.who, row.by, row.what, row.subject, row.request) for row in runtime.access.trail()} == {
        ("ada", "key:1", "do", "it", "r-1")
    }


def test_done_is_written_with_the_change(runtime: Runtime) -> None:
    """If it were written after it, a crash in between would leave a change that nobody asked for."""
    seen: list[str] = []

    def act(tx: object) -> None:
        assert [row["outcome"] for row in rows(runtime.database, "access_audit")] == ["begun"]

    with runtime.access.changes.recorded(ASKED):
        commit_by_hand(runtime.database, act)
        seen += [row["outcome"] for row in rows(runtime.database, "access_audit")]
    assert seen == ["done"]


def test_pages_of_the_trail(runtime: Runtime) -> None:
    access = runtime.access
    for number in range(6):
        access.changes.refused(AuditRequest(f"who{number % 2}", "x", "do", f"it{number % 3}"), str(number))
    assert [row.reason for row in access.trail(limit=2)] == ["5", "4"]
    assert [row.reason for row in access.trail(who="who1")] == ["5", "3", "1"]
    assert [row.reason for row in access.trail(subject="it2")] == ["5", "2"]
    assert [row.reason for row in access.trail(subject="it2", who="who0")] == ["2"]
    assert [row.reason for row in access.trail(before=access.trail()[3].seq)] == ["1", "0"]


def test_what_nobody_can_store_is_spelled_out(runtime: Runtime) -> None:
    runtime.access.changes.refused(AuditRequest("a\x00", "b", "c\ud800", "d" * 10_000), "e\x00")
    [row] = runtime.access.trail()
    assert (row.who, row.what, len(row.subject), row.reason) == ("a\\0", "c\\ud800", 500, "e\\0")


def test_the_janitor_deletes_what_is_past_its_time(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime(access={"audit_retention_s": 10 * DAY_S})
    access = runtime.access
    access.changes.refused(ASKED, "old")
    with pytest.raises(NotLoggedIn):
        access.log_in.by_password("ada", "wrong wrong wrong", "here")
    nothing = dict.fromkeys(("audit", "requests", "failures", "sessions", "links", "blocks"), 0)
    assert access.janitor().clean() == nothing
    runtime.database.shift_clock(11 * DAY_S)
    access.changes.refused(ASKED, "new")
    assert access.janitor().clean() == {**nothing, "audit": 1, "failures": 2}
    assert [row.reason for row in access.trail()] == ["new"]
    assert rows(runtime.database, "access_failure") == []


@pytest.fixture
def one_of_each(runtime: Runtime) -> Runtime:
    """A user, a key, and a row in the trail."""
    runtime.access.add_user("ada", "viewer", **BY)
    runtime.access.make_key("ada", ["read"], **BY)
    runtime.access.changes.refused(ASKED, "")
    return runtime


@sweep(
    "statement",
    [
        "update access_user set role = 'god'",
        "update access_user set password = 'x'",
        "update access_key set revoked_at = 1",
        "update access_key set expires_at = made_at",
        "update access_audit set outcome = 'perhaps'",
    ],
)
def test_the_database_refuses_what_cannot_be(one_of_each: Runtime, statement: str) -> None:
    with pytest.raises(Exception, match=r"(?i)constraint"):
        by_hand(one_of_each.database, statement)
