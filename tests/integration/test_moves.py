"""Every state × every operation: legal moves move, illegal ones are refused and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.quiet import Quiet, shift
from tests.support.tables import message_row, rows

from towpath.errors import ClaimLost, IllegalMove, Refused
from towpath.queue import Inbox, Message, MessageState, OnOwnerDeath
from towpath.queue.state import MOVES, Move

TTL_S = 1_000.0
LATER_S = 2_000.0


class Scene:
    """One message that has been claimed by another process, and brought to a state from there."""

    def __init__(self, make_quiet: Callable[[], Quiet], state: MessageState, policy: OnOwnerDeath, kind: str) -> None:
        self.me, self.other = make_quiet(), make_quiet()
        self.inbox = self.other.queue.inbox("work", policy, max_attempts=3)
        self.my_inbox = Inbox(self.me.queue.parts, "work", policy, max_attempts=3)
        self.outbox = self.me.queue.outbox("sender")
        send = self.outbox.send if kind == "request" else self.outbox.notice
        self.id = send("work", "DO", {"n": 1}, ttl_s=TTL_S)
        [self.message] = self.inbox.claim()
        self._bring_to(state)

    def _bring_to(self, state: MessageState) -> None:
        match state:
            case MessageState.NEW:
                # Sent again, not given back: what was given back was taken in time and cannot expire any more.
                self.me.queue.operator("ada").set_state(self.id, MessageState.NEW, "once more")
            case MessageState.OK:
                self.inbox.finish(self.message)
            case MessageState.ERR:
                self.inbox.fail(self.message, "broke")
            case MessageState.DEAD:
                self.me.queue.operator("ada").set_state(self.id, MessageState.DEAD, "not needed")

    def row(self) -> dict[str, Any]:
        return message_row(self.me.database, self.id)

    def everything(self) -> list[list[dict[str, Any]]]:
        return [rows(self.me.database, table) for table in ("message", "event", "inbox")]

    def by_hand(self, state: MessageState) -> None:
        self.me.queue.operator("ada").set_state(self.id, state, "why not")

    def free(self) -> int:
        self.me.hold_lease()
        self.other.process.stop()
        return self.me.caretaker.free_the_dead()

    def reap(self) -> int:
        shift(LATER_S, self.me)
        return self.me.caretaker.reap()

    def claim(self) -> list[Message]:
        return self.my_inbox.claim(10)


@dataclass(frozen=True)
class Operation:
    """One thing that anybody can do to a message; `error` is none when it merely finds nothing to do."""

    move: Move
    act: Callable[[Scene], Any]
    error: type[Refused] | None
    policy: OnOwnerDeath = OnOwnerDeath.AGAIN
    kind: str = "notice"


OPERATIONS = {
    "claim": Operation(Move.CLAIM, Scene.claim, None),
    "finish": Operation(Move.FINISH, lambda s: s.inbox.finish(s.message), ClaimLost),
    "finish a request": Operation(Move.FINISH, lambda s: s.inbox.finish(s.message, 5), ClaimLost, kind="request"),
    "fail": Operation(Move.FAIL, lambda s: s.inbox.fail(s.message, "broke"), ClaimLost),
    "fail a request": Operation(Move.FAIL, lambda s: s.inbox.fail(s.message, "broke"), ClaimLost, kind="request"),
    "release": Operation(Move.RELEASE, lambda s: s.inbox.release(s.message), ClaimLost),
    "owner dies, again": Operation(Move.FREE, Scene.free, None),
    "owner dies, err": Operation(Move.FAIL, Scene.free, None, OnOwnerDeath.ERR),
    "owner dies, err, request": Operation(Move.FAIL, Scene.free, None, OnOwnerDeath.ERR, "request"),
    "owner dies, dead": Operation(Move.GIVE_UP, Scene.free, None, OnOwnerDeath.DEAD),
    "reap": Operation(Move.EXPIRE, Scene.reap, None),
    "set NEW": Operation(Move.REQUEUE, lambda s: s.by_hand(MessageState.NEW), IllegalMove),
    "set OK": Operation(Move.FINISH, lambda s: s.by_hand(MessageState.OK), IllegalMove),
    "set ERR": Operation(Move.FAIL, lambda s: s.by_hand(MessageState.ERR), IllegalMove),
    "set ERR on a request": Operation(Move.FAIL, lambda s: s.by_hand(MessageState.ERR), IllegalMove, kind="request"),
    "set DEAD": Operation(Move.KILL, lambda s: s.by_hand(MessageState.DEAD), IllegalMove),
    "flag_bad": Operation(Move.FAIL, lambda s: s.outbox.flag_bad(s.id, "wrong"), IllegalMove),
    "flag_bad on a request": Operation(
        Move.FAIL, lambda s: s.outbox.flag_bad(s.id, "wrong"), IllegalMove, kind="request"
    ),
    "flag_dead": Operation(Move.KILL, lambda s: s.outbox.flag_dead(s.id, "late"), IllegalMove),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
@pytest.mark.parametrize("state", list(MessageState))
def test_state_and_operation(make_quiet: Callable[[], Quiet], state: MessageState, operation: Operation) -> None:
    scene = Scene(make_quiet, state, operation.policy, operation.kind)
    before, row_before = scene.everything(), scene.row()
    assert row_before["state"] == state
    if state in MOVES[operation.move].sources:
        operation.act(scene)
        row = scene.row()
        assert row["state"] == MOVES[operation.move].target
        assert row["updated_at"] > row_before["updated_at"]
        kept = ("seq", "id", "related_id", "audit_id", "inbox", "reply_to", "function", "payload", "headers", "ttl_s")
        assert {key: row[key] for key in kept} == {key: row_before[key] for key in kept}
        assert (row["owner"] is None) == (
            row["state"] == "NEW" or (state is MessageState.NEW and row["state"] == "DEAD")
        )
    else:
        if operation.error is None:
            assert not operation.act(scene)
        else:
            with pytest.raises(operation.error):
                operation.act(scene)
        assert scene.everything() == before


def test_every_move_is_walked() -> None:
    assert {operation.move for operation in OPERATIONS.values()} == set(Move)


@pytest.mark.parametrize("state", list(MessageState))
def test_editing_is_for_waiting_messages(make_quiet: Callable[[], Quiet], state: MessageState) -> None:
    scene = Scene(make_quiet, state, OnOwnerDeath.AGAIN, "notice")
    operator = scene.me.queue.operator("ada")
    before, row_before = scene.everything(), scene.row()
    if state is MessageState.NEW:
        operator.edit(scene.id, "typo", payload=[2])
        row = scene.row()
        assert row == {**row_before, "payload": "[2]", "updated_at": row["updated_at"]}
        return
    with pytest.raises(IllegalMove) as caught:
        operator.edit(scene.id, "typo", payload=[2])
    assert caught.value.state == state
    assert scene.everything() == before


@pytest.mark.parametrize("state", list(MessageState))
def test_replying_is_for_requests_that_are_not_done(make_quiet: Callable[[], Quiet], state: MessageState) -> None:
    scene = Scene(make_quiet, state, OnOwnerDeath.AGAIN, "request")
    operator = scene.me.queue.operator("ada")
    before = scene.everything()
    if state in (MessageState.NEW, MessageState.ACK):
        operator.reply(scene.id, {"by": "hand"}, "nobody else did")
        assert scene.row()["state"] == "OK"
        answer = scene.outbox.poll(scene.id)
        assert answer is not None
        assert (answer.state, answer.payload) == (MessageState.OK, {"by": "hand"})
        with pytest.raises(ClaimLost):
            scene.inbox.finish(scene.message, "late")
        return
    with pytest.raises(IllegalMove):
        operator.reply(scene.id, {"by": "hand"}, "nobody else did")
    assert scene.everything() == before


@pytest.mark.parametrize("state", list(MessageState))
def test_nobody_sets_ack_by_hand(make_quiet: Callable[[], Quiet], state: MessageState) -> None:
    scene = Scene(make_quiet, state, OnOwnerDeath.AGAIN, "notice")
    before = scene.everything()
    with pytest.raises(IllegalMove, match="setting it to ACK by hand is allowed only from no state"):
        scene.by_hand(MessageState.ACK)
    assert scene.everything() == before


def test_a_request_is_not_set_to_ok_without_an_answer(make_quiet: Callable[[], Quiet]) -> None:
    scene = Scene(make_quiet, MessageState.ACK, OnOwnerDeath.AGAIN, "request")
    before = scene.everything()
    with pytest.raises(IllegalMove, match="use reply"):
        scene.by_hand(MessageState.OK)
    assert scene.everything() == before


def test_an_illegal_move_says_which_and_what_is_allowed(make_quiet: Callable[[], Quiet]) -> None:
    scene = Scene(make_quiet, MessageState.OK, OnOwnerDeath.AGAIN, "notice")
    with pytest.raises(IllegalMove) as caught:
        scene.by_hand(MessageState.DEAD)
    assert str(caught.value) == f"message {scene.id} is OK: setting it to DEAD by hand is allowed only from NEW or ACK"
    assert caught.value.allowed == (MessageState.NEW, MessageState.ACK)


def test_requeueing_starts_afresh(make_quiet: Callable[[], Quiet]) -> None:
    scene = Scene(make_quiet, MessageState.DEAD, OnOwnerDeath.AGAIN, "notice")
    before = scene.row()
    scene.by_hand(MessageState.NEW)
    row = scene.row()
    assert row == {
        **before,
        "state": "NEW",
        "owner": None,
        "owner_tick": None,
        "attempts": 0,
        "give_backs": 0,
        "deliver_after": None,
        "reason": "set to NEW by ada: why not",
        "updated_at": row["updated_at"],
        "expires_at": row["updated_at"] + int(TTL_S * 1_000_000),
    }
