"""What happens to actors in this process, a line each, as it happens."""

from __future__ import annotations

from collections import Counter, deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from towpath.actors.phase import Phase
from towpath.cli.actor_view import last_words
from towpath.cli.output import console, plain, print_json
from towpath.events import Event, EventKind
from towpath.exact_json import to_json

if TYPE_CHECKING:
    from towpath.actors.work import Done

MOST_KEPT = 10_000
MOST_AT_ONCE = 30  # lines a person is shown of one moment; the rest is counted

_OF_ACTORS = ("ACTOR_", "SCHEDULE_", "SERVICE_", "SPAWNED_", "PROCESS_SPAWNED", "PROCESS_DIED")
# A failure is told with the last state of its run.
SHOWN_EVENTS = frozenset(kind for kind in EventKind if kind.name.startswith(_OF_ACTORS)) - {EventKind.ACTOR_FAILED}


class Lines:
    """Filled by the host's thread, printed by another one: a slow terminal holds up no actor."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._waiting: deque[tuple[datetime, Done | Event]] = deque()
        self._left_out = 0
        self._ends: Counter[str] = Counter()

    def on_done(self, done: Done) -> None:
        if done.planned is None:
            self._ends["failed" if _failure(done) is not None else "ended"] += 1
        self._add(done)

    def on_event(self, event: Event) -> None:
        if event.kind in SHOWN_EVENTS:
            self._add(event)

    def _add(self, what: Done | Event) -> None:
        if len(self._waiting) < MOST_KEPT:
            self._waiting.append((datetime.now(UTC), what))
        else:
            self._left_out += 1

    def show(self) -> None:
        """Print what has come since the last time."""
        at = datetime.now(UTC)
        for number in range(len(self._waiting)):
            at, each = self._waiting.popleft()
            if self._as_json:
                print_json({"at": at, **_item(each)})
            elif number < MOST_AT_ONCE:
                _print(at, _words(each))
            else:
                self._left_out += 1
        if self._left_out:
            left_out, self._left_out = self._left_out, 0
            if self._as_json:
                print_json({"at": at, "kind": "left_out", "count": left_out})
            else:
                _print(at, f"… and {left_out:,} more")

    def show_end(self) -> None:
        self.show()
        if not self._as_json:
            _print(datetime.now(UTC), f"runs here: {self._ends['ended']:,} ended, {self._ends['failed']:,} failed")


def _print(at: datetime, words: str) -> None:
    console().print(f"{at:%H:%M:%S}  {plain(words)}", no_wrap=True, overflow="ellipsis", crop=True)


def _words(what: Done | Event) -> str:
    if isinstance(what, Event):
        return "  ".join(filter(None, (what.subject, what.kind.replace("_", " "), what.why)))
    return f"{what.work.instance.name}  {_turn_words(what)}"


def _turn_words(done: Done) -> str:
    state, planned = done.work.message.function, done.planned
    if planned is None:
        failure = _failure(done)
        return f"failed: {failure}" if failure is not None else f"ended{_result(done)}"
    match planned.phase:
        case Phase.SLEEPING:
            return f"{state} → sleeps, then {planned.function}"
        case Phase.WAITING:
            count = f"{planned.needs} answer{'' if planned.needs == 1 else 's'}"
            return f"{state} → waits for {count}, then {planned.function}"
    why = f" ({last_words(done.reason)})" if done.reason else ""
    return f"{state} → {planned.function}{why}"


def _result(done: Done) -> str:
    result = done.work.message.payload.get("result")
    return "" if result is None else f" with {to_json(result)}"


def _failure(done: Done) -> str | None:
    """Why a run that is over has failed; none when it has not."""
    if done.work.message.function == "Failed":
        return str(done.work.message.payload["reason"])
    return None if done.reason is None else f"its clean-up failed: {last_words(done.reason)}"


def _item(what: Done | Event) -> dict[str, Any]:
    if isinstance(what, Event):
        return {
            "kind": what.kind,
            "subject": what.subject,
            "who": what.who,
            "why": what.why,
            "data": dict(what.data),
        }
    planned = what.planned
    return {
        "kind": "turn",
        "subject": what.work.instance.name,
        "run_id": what.work.instance.run_id,
        "message_id": what.work.message.id,
        "state": what.work.message.function,
        "message_state": what.state,
        "reason": what.reason,
        "next": None if planned is None else planned.function,
        "next_phase": None if planned is None else planned.phase,
    }
