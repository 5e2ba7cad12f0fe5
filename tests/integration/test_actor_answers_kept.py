"""The queue's janitor never deletes an answer that an instance is going to read. On both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.support.quiet import Quiet, let_die, shift
from tests.support.tables import rows
from tests.support.upkeep import DAY_S, Scene

from towpath.actors import Actor, End, Failed, Resume, Sleep, Turn, Wait, state
from towpath.actors.instance import LIVE, Phase
from towpath.queue import Inbox

Make = Callable[..., Quiet]


@state
class AskBoth:
    """Asks two, and waits for both."""


@state
class AskBothAndNap:
    """Asks two, and waits for both when it has slept."""


@state
class WaitForBoth:
    questions: list[str]


@state(resume=Resume.RETRY)
class HeardBoth:
    questions: list[str]


class BothAsker(Actor):
    """Asks two inboxes and tells what they said."""

    holds = threading.Event()
    is_there = threading.Event()

    def transition(
        self, state: AskBoth | AskBothAndNap | WaitForBoth | HeardBoth | End | Failed, turn: Turn
    ) -> Wait | Sleep | End | None:
        match state:
            case AskBoth():
                questions = [turn.send(inbox, "ASK") for inbox in ("quick", "slow")]
                return Wait(questions, HeardBoth(questions))
            case AskBothAndNap():
                return Sleep(WaitForBoth([turn.send(inbox, "ASK") for inbox in ("quick", "slow")]), seconds=60)
            case WaitForBoth(questions):
                self.is_there.set()
                self.holds.wait(60)
                return Wait(questions, HeardBoth(questions))
            case HeardBoth(questions):
                self.is_there.set()
                self.holds.wait(60)
                answers = [turn.answer(each) for each in questions]
                return End([each.payload for each in answers if each is not None])
        return None


def ask_both(scene: Scene, first: Any = None, phase: Phase = Phase.WAITING) -> tuple[Inbox, Inbox]:
    scene.actors.register(BothAsker)
    scene.host = scene.actors.host()
    BothAsker.holds.set()
    BothAsker.is_there.clear()
    quick, slow = scene.quiet.queue.inbox("quick"), scene.quiet.queue.inbox("slow")
    scene.actors.start(BothAsker, first)
    scene.turn(lambda: scene.actors.instance("both-asker").phase is phase)
    quick.finish(quick.claim(1)[0], "early")
    return quick, slow


def result(scene: Scene) -> Any:
    scene.turn(lambda: scene.actors.instance("both-asker").phase not in LIVE)
    assert scene.actors.instance("both-asker").reason is None
    return scene.actors.history("both-asker")[0].payload["result"]


def live_heads(scene: Scene) -> list[str]:
    instance = scene.actors.instance("both-asker")
    return [row["id"] for row in rows(scene.database, "message") if row["id"] in (instance.head_id, instance.run_id)]


def test_an_early_answer_is_kept_until_the_late_one_is_there(scene: Scene) -> None:
    """The first question and its answer are done long before: by age alone they would be deleted after three days."""
    _, slow = ask_both(scene)
    scene.turn(lambda: [row["is_answered"] for row in rows(scene.database, "actor_wait")].count(1) == 1)
    shift(20 * DAY_S, scene.quiet)
    scene.quiet.queue.janitor().clean()
    assert len(live_heads(scene)) == 2
    slow.finish(slow.claim(1)[0], "late")
    assert result(scene) == ["early", "late"]
    shift(20 * DAY_S, scene.quiet)
    scene.quiet.queue.outbox("me").notice("quick", "LAST")  # the newest message is never deleted
    scene.quiet.queue.janitor().clean()
    assert [row["function"] for row in rows(scene.database, "message")] == ["LAST"]


def test_an_answer_that_came_while_no_host_was_up(scene: Scene) -> None:
    """Nobody has noted it, its time to live has run out, and it is old enough to be deleted."""
    _, slow = ask_both(scene)
    slow.finish(slow.claim(1)[0], "late")
    shift(20 * DAY_S, scene.quiet)
    scene.quiet.caretaker.reap()
    shift(20 * DAY_S, scene.quiet)
    scene.quiet.queue.janitor().clean()
    scene.host._strays_at = float("-inf")  # it looks for what nobody has told of every ten seconds
    assert result(scene) == ["early", "late"]


def test_answers_to_a_state_that_was_interrupted(make_quiet: Make) -> None:
    """Its process dies while it reads them; it is disabled for a while; then it reads them."""
    first, second = Scene(make_quiet()), Scene(make_quiet())
    second.actors.register(BothAsker)
    second.host = second.actors.host()
    _, slow = ask_both(first)
    BothAsker.holds.clear()
    slow.finish(slow.claim(1)[0], "late")
    first.turn(BothAsker.is_there.is_set)
    second.actors.enable("both-asker", False, who="ann", why="a test")
    let_die(first.quiet, second.quiet)
    second.quiet.caretaker.free_the_dead()
    second.turn(lambda: second.actors.instance("both-asker").phase is Phase.READY)
    shift(20 * DAY_S, second.quiet)
    second.quiet.queue.janitor().clean()
    BothAsker.holds.set()
    second.actors.enable("both-asker", True, who="ann", why="a test")
    assert result(second) == ["early", "late"]


def test_answers_that_were_there_before_it_waited(scene: Scene) -> None:
    """It need not wait for them, and is disabled before it can read them."""
    _, slow = ask_both(scene, AskBothAndNap(), Phase.SLEEPING)
    slow.finish(slow.claim(1)[0], "late")
    BothAsker.holds.clear()
    shift(61, scene.quiet)
    scene.turn(BothAsker.is_there.is_set)
    scene.actors.enable("both-asker", False, who="ann", why="a test")
    scene.turn(lambda: "both-asker" in scene.host._disabled)
    BothAsker.holds.set()
    scene.turn(lambda: scene.actors.instance("both-asker").step == "HeardBoth")
    shift(20 * DAY_S, scene.quiet)
    scene.quiet.queue.janitor().clean()
    scene.actors.enable("both-asker", True, who="ann", why="a test")
    assert result(scene) == ["early", "late"]
