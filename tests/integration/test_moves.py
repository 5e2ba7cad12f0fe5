"""Every state × every operation: legal moves move, illegal ones are refused and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.quiet import Quiet, shift
from tests.support.sweep import sweep
from tests.support.tables import by_hand, message_row, rows

from towpath.errors import ClaimLost, IllegalMove, Refused
from towpath.queue import Inbox, Message, MessageState, OnOwnerDeath
from towpath.queue.states import MessageMove

TTL_S = 1_000.0
LATER_S = 2_000.0
MakeQuiet = Callable[[], Quiet]


class Scene:
    """One message that has been claimed by another process, and brought to a state from there."""

    def __init__(self, me: Quiet, other: Quiet, state: MessageState, policy: OnOwnerDeath, kind: str) -> None:
        self.me, self.other = me, other
        self.is_over = False  # for these processes
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
        self.is_over = True
        self.me.hold_lease()
        self.other.process.stop()
        return self.me.caretaker.free_the_dead()

    def reap(self) -> int:
        self.is_over = True
        shift(LATER_S, self.me)
        return self.me.caretaker.reap()

    def claim(self) -> list[Message]:
        return self.my_inbox.claim(10)


class Pair:
    """Two processes, which act in one scene after the other until one of them has died or time has been moved."""

    def __init__(self, make_quiet: MakeQuiet) -> None:
        self._make = make_quiet
        self._two: tuple[Quiet, Quiet] | None = None

    @contextmanager
    def scene(self, state: MessageState, policy: OnOwnerDeath, kind: str) -> Iterator[Scene]:
        """In a database that has nothing of the scene before."""
        me, other = self._two = self._two or (self._make(), self._make())
        for table in ("message", "event"):
            by_hand(me.database, f"delete from {table} ")
        scene = Scene(me, other, state, policy, kind)
        try:
            yield scene
        finally:
            if scene.is_over:
                self._two = None
                other.close()
                me.close()


@pytest.fixture
def pair(make_quiet: MakeQuiet) -> Pair:
    return Pair(make_quiet)


@dataclass(frozen=True)
class Operation:
    """One thing that anybody can do to a message; `error` is none when it merely finds nothing to do."""

    move: MessageMove
    act: Callable[[Scene], Any]
    error: type[Refused] | None
    policy: OnOwnerDeath = OnOwnerDeath.AGAIN
    kind: str = "notice"


OPERATIONS = {
    "claim": Operation(MessageMove.CLAIM, Scene.claim, None),
    "finish": Operation(MessageMove.FINISH, lambda s: s.inbox.finish(s.message), ClaimLost),
    "finish a request": Operation(
        MessageMove.FINISH, lambda s: s.inbox.finish(s.message, 5), ClaimLost, kind="request"
    ),
    "fail": Operation(MessageMove.FAIL, lambda s: s.inbox.fail(s.message, "broke"), ClaimLost),
    "fail a request": Operation(
        MessageMove.FAIL, lambda s: s.inbox.fail(s.message, "broke"), ClaimLost, kind="request"
    ),
    "release": Operation(MessageMove.RELEASE, lambda s: s.inbox.release(s.message), ClaimLost),
    "owner dies, again": Operation(MessageMove.FREE, Scene.free, None),
    "owner dies, err": Operation(MessageMove.FAIL, Scene.free, None, OnOwnerDeath.ERR),
    "owner dies, err, request": Operation(MessageMove.FAIL, Scene.free, None, OnOwnerDeath.ERR, "request"),
    "owner dies, dead": Operation(MessageMove.GIVE_UP, Scene.free, None, OnOwnerDeath.DEAD),
    "reap": Operation(MessageMove.EXPIRE, Scene.reap, None),
    "set NEW": Operation(MessageMove.REQUEUE, lambda s: s.by_hand(MessageState.NEW), IllegalMove),
    "set OK": Operation(MessageMove.FINISH, lambda s: s.by_hand(MessageState.OK), IllegalMove),
    "set ERR": Operation(MessageMove.FAIL, lambda s: s.by_hand(MessageState.ERR), IllegalMove),
    "set ERR on a request": Operation(
        MessageMove.FAIL, lambda s: s.by_hand(MessageState.ERR), IllegalMove, kind="request"
    ),
    "set DEAD": Operation(MessageMove.KILL, lambda s: s.by_hand(MessageState.DEAD), IllegalMove),
    "flag_bad": Operation(MessageMove.FAIL, lambda s: s.outbox.flag_bad(s.id, "wrong"), IllegalMove),
    "flag_bad on a request": Operation(
        MessageMove.FAIL, lambda s: s.outbox.flag_bad(s.id, "wrong"), IllegalMove, kind="request"
    ),
    "flag_dead": Operation(MessageMove.KILL, lambda s: s.outbox.flag_dead(s.id, "late"), IllegalMove),
}


# Where each operation leads from which state. From every other one it is refused, or finds nothing to do.
WHERE_TO: dict[str, dict[str, str]] = {
    "claim": {"NEW": "ACK"},
    "finish": {"ACK": "OK"},
    "finish a request": {"ACK": "OK"},
    "fail": {"ACK": "ERR"},
    "fail a request": {"ACK": "ERR"},
    "release": {"ACK": "NEW"},
    "owner dies, again": {"ACK": "NEW"},
    "owner dies, err": {"ACK": "ERR"},
    "owner dies, err, request": {"ACK": "ERR"},
    "owner dies, dead": {"ACK": "DEAD"},
    "reap": {"NEW": "DEAD"},
    "set NEW": {"ACK": "NEW", "OK": "NEW", "ERR": "NEW", "DEAD": "NEW"},
    "set OK": {"ACK": "OK"},
    "set ERR": {"ACK": "ERR"},
    "set ERR on a request": {"ACK": "ERR"},
    "set DEAD": {"NEW": "DEAD", "ACK": "DEAD"},
    "flag_bad": {"ACK": "ERR"},
    "flag_bad on a request": {"ACK": "ERR"},
    "flag_dead": {"NEW": "DEAD", "ACK": "DEAD"},
}


@sweep("name", OPERATIONS)
@sweep("state", MessageState)
def test_state_and_operation(pair: Pair, state: MessageState, name: str) -> None:
    operation = OPERATIONS[name]
    with pair.scene(state, operation.policy, operation.kind) as scene:
        before, row_before = scene.everything(), scene.row()
        assert row_before["state"] == state
        wanted = WHERE_TO[name].get(state)
        if wanted is None:
            if operation.error is None:
                assert not operation.act(scene)
            else:
                with pytest.raises(operation.error):
                    operation.act(scene)
            assert scene.everything() == before
            return
        operation.act(scene)
        row = scene.row()
        assert row["state"] == wanted
        assert row["updated_at"] > row_before["updated_at"]
        kept = ("seq", "id", "related_id", "audit_id", "inbox", "reply_to", "function", "payload", "headers", "ttl_s")
        assert {key: row[key] for key in kept} == {key: row_before[key] for key in kept}
        assert (row["owner"] is None) == (wanted == "NEW" or (state is MessageState.NEW and wanted == "DEAD"))


def test_every_move_is_walked() -> None:
    assert {operation.move for operation in OPERATIONS.values()} == set(MessageMove)


@sweep("state", MessageState)
def test_editing_is_for_waiting_messages(pair: Pair, state: MessageState) -> None:
    with pair.scene(state, OnOwnerDeath.AGAIN, "notice") as scene:
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


@sweep("state", MessageState)
def test_replying_is_for_requests_that_are_not_done(pair: Pair, state: MessageState) -> None:
    with pair.scene(state, OnOwnerDeath.AGAIN, "request") as scene:
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


@sweep("state", MessageState)
def test_nobody_sets_ack_by_hand(pair: Pair, state: MessageState) -> None:
    with pair.scene(state, OnOwnerDeath.AGAIN, "notice") as scene:
        before = scene.everything()
        with pytest.raises(IllegalMove) as caught:
            scene.by_hand(MessageState.ACK)
        assert caught.value.allowed == ()
        assert scene.everything() == before


def test_a_request_is_not_set_to_ok_without_an_answer(make_quiet: MakeQuiet) -> None:
    scene = Scene(make_quiet(), make_quiet(), MessageState.ACK, OnOwnerDeath.AGAIN, "request")
    before = scene.everything()
    with pytest.raises(IllegalMove, match="reply"):
        scene.by_hand(MessageState.OK)
    assert scene.everything() == before


def test_an_illegal_move_says_which_and_what_is_allowed(make_quiet: MakeQuiet) -> None:
    scene = Scene(make_quiet(), make_quiet(), MessageState.OK, OnOwnerDeath.AGAIN, "notice")
    with pytest.raises(IllegalMove) as caught:
        scene.by_hand(MessageState.DEAD)
    assert (caught.value.message_id, caught.value.state) == (scene.id, MessageState.OK)
    assert caught.value.allowed == (MessageState.NEW, MessageState.ACK)


def test_requeueing_starts_afresh(make_quiet: MakeQuiet) -> None:
    scene = Scene(make_quiet(), make_quiet(), MessageState.DEAD, OnOwnerDeath.AGAIN, "notice")
    before = scene.row()
    scene.by_hand(MessageState.NEW)
    row = scene.row()
    assert str(row["reason"]).endswith("ada: why not")
    assert row == {
        **before,
        "state": "NEW",
        "owner": None,
        "owner_tick": None,
        "attempts": 0,
        "give_backs": 0,
        "deliver_after": None,
        "reason": row["reason"],
        "updated_at": row["updated_at"],
        "expires_at": row["updated_at"] + int(TTL_S * 1_000_000),
    }
