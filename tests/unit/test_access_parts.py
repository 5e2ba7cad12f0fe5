"""Roles and scopes, passwords, keys, how long one waits: the parts of access that need no database."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.passwords import HASHER_OF_USERS
from tests.support.roles import MAY
from tests.support.sweep import sweep

from towpath.access import users
from towpath.access.changes import OUTCOME_MOVES, REQUEST_MOVES, ChangeOutcome, RequestState
from towpath.access.keys import KeyToken, hash_secret, new_token, prefix_of
from towpath.access.login import LONGEST_WAIT_S, wait_s
from towpath.access.roles import Principal, Role, Scope, check_role, check_scopes
from towpath.access.users import check_password, check_user_name, hash_password, verify_password
from towpath.errors import BadName, BadValue, NotAllowed
from towpath.notify.model import MOVES as NOTICE_MOVES
from towpath.notify.model import NoticeState

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "access-states.md"
ARROW = re.compile(r"^\s+(\S+) --> (\S+)(?:: .+)?$", re.MULTILINE)


@sweep("role", Role)
@sweep("scope", Scope)
def test_a_key_has_no_scope_beyond_its_users_role(role: Role, scope: Scope) -> None:
    if scope in MAY[role]:
        assert check_scopes([scope], role) == (scope,)
    else:
        with pytest.raises(BadValue, match=scope):
            check_scopes([scope], role)


@pytest.mark.parametrize("scopes", [[], ["everything"], ["read", ""]])
def test_unknown_scopes_are_refused(scopes: list[str]) -> None:
    with pytest.raises(BadValue):
        check_scopes(scopes, Role.ADMIN)


def test_unknown_roles_are_refused() -> None:
    with pytest.raises(BadValue):
        check_role("root")


def test_who_is_not_allowed_learns_what_is_needed() -> None:
    viewer = Principal("vi", Role.VIEWER, frozenset({Scope.READ}), "key:1")
    viewer.check(Scope.READ)
    with pytest.raises(NotAllowed, match="operator"):
        viewer.check(Scope.DESK_WRITE)
    narrow = Principal("op", Role.OPERATOR, frozenset({Scope.READ}), "key:2")
    with pytest.raises(NotAllowed, match="desk:write"):
        narrow.check(Scope.DESK_WRITE)


@pytest.mark.parametrize("name", ["", " ada", "a b", "-x", "a\n", "ä", "x" * 81, "a/b", "a\x00"])
def test_names_that_no_user_may_have(name: str) -> None:
    with pytest.raises(BadName):
        check_user_name(name)


def test_a_password_is_recognised_and_nothing_else() -> None:
    kept = hash_password("correct horse battery")
    assert verify_password("correct horse battery", kept)
    assert not verify_password("correct horse batterx", kept)
    assert not verify_password("", kept)
    assert not verify_password("\ud800", kept)
    assert not verify_password("correct horse battery", None)
    assert "correct" not in kept
    assert hash_password("correct horse battery") != kept  # a salt of its own


def test_a_guess_at_a_stored_password_costs_time_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "HASHER", HASHER_OF_USERS)
    kept = hash_password("correct horse battery")
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert verify_password("correct horse battery", kept)


@pytest.mark.parametrize("text", ["", "short", "x" * 1025, "\ud800" * 12])
def test_the_error_of_a_bad_password_does_not_repeat_it(text: str) -> None:
    with pytest.raises(BadValue) as caught:
        check_password(text)
    assert text == "" or text not in str(caught.value)


def test_a_key_is_found_by_how_it_begins_and_never_shown() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len({token.text for token in tokens}) == 100
    for token in tokens:
        assert prefix_of(token.text) == token.prefix
        assert len(hash_secret(token.text)) == 64
        assert token.text not in repr(token)


@given(st.text(max_size=80))
def test_what_is_no_key_has_no_prefix(text: str) -> None:
    assert prefix_of(text) is None


def test_a_key_without_its_last_letter_is_no_key() -> None:
    assert isinstance(token := new_token(), KeyToken)
    assert prefix_of(token.text[:-1]) is None


def test_waits_double_and_end() -> None:
    waits = [wait_s(failures, allowed=3, first_s=2.0) for failures in range(8)]
    assert waits == [0, 0, 0, 2, 4, 8, 16, 32]
    assert wait_s(10_000, 3, 2.0) == LONGEST_WAIT_S


CHARTS = [(ChangeOutcome, OUTCOME_MOVES), (RequestState, REQUEST_MOVES), (NoticeState, NOTICE_MOVES)]


@pytest.mark.parametrize("number", range(len(CHARTS)))
def test_charts_show_exactly_the_moves(number: int) -> None:
    states, moves = CHARTS[number]
    chart = PAGE.read_text(encoding="utf-8").split("```mermaid")[number + 1].split("```")[0]
    shown = {(source, target) for source, target in ARROW.findall(chart) if source != "[*]"}
    assert shown == {(str(source), str(target)) for source, targets in moves.items() for target in targets}  # type: ignore[attr-defined]
    assert set(moves) == set(states)  # type: ignore[call-overload]
