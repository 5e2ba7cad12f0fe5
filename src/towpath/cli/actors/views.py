"""How actor classes and instances look, and what happens to actors in this process, a line each, as it happens."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from towpath.actors.instance import Phase, name_of
from towpath.cli.output import (
    Column,
    age,
    console,
    plain,
    pretty,
    print_fields,
    print_json,
    print_more,
    print_part,
    print_table,
    short_time,
    time_and_age,
)
from towpath.cli.queue.events import print_events
from towpath.core.events import Event, EventKind
from towpath.core.exact_json import read_exactly, to_json
from towpath.operations.actors import due_at, parent_of, resume_of
from towpath.queue.states import TERMINAL

if TYPE_CHECKING:
    from towpath.actors.browser import InstanceView, OpenRequest
    from towpath.actors.engine.run import TurnResult
    from towpath.actors.instance import Instance
    from towpath.actors.registry import KnownClass
    from towpath.queue import Message


RESUME = {
    "retry": "this state runs again",
    "restart": "the run begins anew, with the state that it was started with",
    "fail": "it has failed, and a person decides",
}

SHOWN_QUESTIONS = 5
MOST_KEPT = 10_000
MOST_AT_ONCE = 30  # lines a person is shown of one moment; the rest is counted

_OF_ACTORS = ("ACTOR_", "SCHEDULE_", "SERVICE_", "SPAWNED_", "PROCESS_SPAWNED", "PROCESS_DIED")
# A failure is told with the last state of its run.
SHOWN_EVENTS = frozenset(kind for kind in EventKind if kind.name.startswith(_OF_ACTORS)) - {EventKind.ACTOR_FAILED}

_CLASSES = (Column("actor", whole=True), Column("enabled", whole=True), Column("instances"), Column("about"))
_INSTANCES = (
    Column("instance"),
    Column("phase", whole=True),
    Column("state"),
    Column("for", right=True, whole=True),
    Column("due", right=True, whole=True),
    Column("owner", from_width=100),
    Column("reason"),
)
_STATES = (Column("state", whole=True), Column("if its process dies"), Column("about"))
_HISTORY = (
    Column("sent (UTC)", whole=True),
    Column("ended", whole=True, from_width=80),
    Column("state"),
    Column("message", whole=True),
    Column("tries", right=True, whole=True, from_width=110),
    Column("id", whole=True, from_width=110),
    Column("reason"),
)


def print_classes(classes: Iterable[KnownClass], counts: Mapping[str, Mapping[Phase, int]]) -> None:
    rows = [
        [each.name, "yes" if each.is_enabled else "no", _phases_text(counts.get(each.name, {})), each.about]
        for each in classes
    ]
    print_table(_CLASSES, rows)


def print_class(known: KnownClass, counts: Mapping[Phase, int]) -> None:
    print_fields(
        [
            ("actor", known.name),
            ("about", known.about),
            ("enabled", None if known.is_enabled else "no: nothing of it runs until it is enabled again"),
            ("instances", _phases_text(counts)),
        ]
    )
    console().print()
    rows = [
        [_marked(each, known.shape["first"]), RESUME.get(each["resume"], each["resume"]), each["about"]]
        for each in known.shape["states"]
        if not each["is_terminal"]
    ]
    print_table(_STATES, rows)


def print_instances(instances: Sequence[Instance], now: datetime, cursor: str | None) -> None:
    rows = [
        [
            each.name,
            each.phase,
            each.step,
            age(each.moved_at, now),
            _until(due_at(each), now),
            each.owner,
            each.reason or each.abort,
        ]
        for each in instances
    ]
    print_table(_INSTANCES, rows)
    print_more(cursor)


def print_look(look: InstanceView, known: KnownClass | None, now: datetime) -> None:
    instance = look.instance
    parent = parent_of(instance)
    print_fields(
        [
            ("instance", instance.name),
            ("phase", instance.phase),
            ("state", instance.step),
            ("since", time_and_age(instance.moved_at, now)),
            ("because", instance.reason),
            ("failed in", _failed_in(look)),
            ("to be aborted", instance.abort),
            ("due", _due(look, known, now)),
            ("waits for", _waits(instance.needs, look.questions)),
            ("owner", instance.owner),
            ("if its process dies", _if_it_dies(look, known)),
            ("message", instance.head_id),
            ("run", instance.run_id),
            ("begun anew", f"{instance.restarts} times" if instance.restarts else None),
            ("called by", f"{parent}{', and ends with it' if instance.is_tied else ''}" if parent else None),
            ("not taken", _untaken(look, known, now)),
        ]
    )
    state = look.failed or look.head
    if state is not None:
        print_part(f"fields of {state.function}", pretty(read_exactly(state.payload_json)))
    if look.failed is not None and "\n" in (look.failed.reason or ""):
        print_part("trace", "\n".join(map(plain, (look.failed.reason or "").split("\n"))))
    if look.history:
        print_part("history")
        print_table(_HISTORY, [_cells(each, now) for each in look.history])
    if look.children:
        print_part("called")
        print_instances(look.children, now, None)
    if look.events:
        print_part("events")
        print_events(look.events, now, without_subject=True)


class ActorEventLines:
    """Events and turns as lines. The host's thread adds them, another prints: a slow terminal holds up no actor."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._waiting: deque[tuple[datetime, TurnResult | Event]] = deque()
        self._left_out = 0
        self._ends: Counter[str] = Counter()

    def on_done(self, done: TurnResult) -> None:
        if done.planned is None:
            self._ends["failed" if _failure(done) is not None else "ended"] += 1
        self._add(done)

    def on_event(self, event: Event) -> None:
        if event.kind in SHOWN_EVENTS:
            self._add(event)

    def _add(self, what: TurnResult | Event) -> None:
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
                _print_line(at, _words(each))
            else:
                self._left_out += 1
        if self._left_out:
            left_out, self._left_out = self._left_out, 0
            if self._as_json:
                print_json({"at": at, "kind": "left_out", "count": left_out})
            else:
                _print_line(at, f"… and {left_out:,} more")

    def show_end(self) -> None:
        self.show()
        if not self._as_json:
            _print_line(datetime.now(UTC), f"runs here: {self._ends['ended']:,} ended, {self._ends['failed']:,} failed")


def last_words(reason: str | None) -> str:
    """The exception at the end of a trace; any other reason in full."""
    lines = (reason or "").rstrip().split("\n")
    code = [number for number, line in enumerate(lines) if line.startswith("  ")]
    return " ".join(lines[code[-1] + 1 :] if code and code[-1] + 1 < len(lines) else lines)


def _phases_text(counts: Mapping[Phase, int]) -> str:
    """Counts of the phases that occur, running ones first."""
    return ", ".join(f"{counts[phase]:,} {phase}" for phase in Phase if counts.get(phase)) or "none"


def _marked(state: Mapping[str, Any], first: str) -> str:
    return f"{state['name']}{' (first)' if state['name'] == first else ''}"


def _until(due: datetime | None, now: datetime) -> str:
    if due is None:
        return ""
    return "now" if due <= now else age(due, now)


def _if_it_dies(look: InstanceView, known: KnownClass | None) -> str | None:
    resume = resume_of(look, known)
    if resume is None:
        return None
    does = f"{RESUME.get(resume, resume)} ({resume})"
    return does if look.instance.phase is Phase.RUNNING else f"nothing runs now; once it does: {does}"


def _failed_in(look: InstanceView) -> str | None:
    if look.failed is None:
        return None
    again = f"towpath actor start {look.instance.name} --again --why …"
    return f"{look.failed.function}, message {look.failed.id}; to start it there: {again}"


def _due(look: InstanceView, known: KnownClass | None, now: datetime) -> str | None:
    due = due_at(look.instance)
    if due is None:
        return None
    text = time_and_age(due, now) or ""
    if look.instance.phase is Phase.WAITING:
        return f"{text}, if the answers have not come"
    if known is not None and not known.is_enabled:
        return f"{text}, but {known.name} is disabled"
    return text


def _waits(needs: int, questions: Sequence[OpenRequest]) -> str | None:
    if not questions:
        return None
    answered = sum(each.is_answered for each in questions)
    open_ = [each for each in questions if not each.is_answered]
    shown = ", ".join(map(_question, open_[:SHOWN_QUESTIONS]))
    more = f" and {len(open_) - SHOWN_QUESTIONS} more" if len(open_) > SHOWN_QUESTIONS else ""
    missing = max(needs - answered, 0)
    count = f"{missing} more answer{'' if missing == 1 else 's'}"
    return f"{count}, {answered} of {len(questions)} are there; to {shown}{more}"


def _question(question: OpenRequest) -> str:
    whose = "deleted" if question.inbox is None else f"{name_of(question.inbox)}, {question.state}"
    return f"{question.id} ({whose})"


def _untaken(look: InstanceView, known: KnownClass | None, now: datetime) -> str | None:
    if not look.untaken:
        return None
    start = look.untaken[-1]
    count = "a start" if len(look.untaken) == 1 else f"{len(look.untaken)} starts, the first"
    return f"{count} of {time_and_age(start.created_at, now)}; does a process run this actor? (towpath actor run)"


def _cells(message: Message, now: datetime) -> list[object]:
    function = f"{message.function} (start)" if message.related_id is None else message.function
    sent, ended = short_time(message.created_at, now), short_time(message.updated_at, now)
    is_over = message.state in TERMINAL
    reason = last_words(message.reason)
    return [sent, ended if is_over else None, function, message.state, message.attempts, message.id, reason]


def _print_line(at: datetime, words: str) -> None:
    console().print(f"{at:%H:%M:%S}  {plain(words)}", no_wrap=True, overflow="ellipsis", crop=True)


def _words(what: TurnResult | Event) -> str:
    if isinstance(what, Event):
        return "  ".join(filter(None, (what.subject, what.kind.replace("_", " "), what.why)))
    return f"{what.work.instance.name}  {_turn_words(what)}"


def _turn_words(done: TurnResult) -> str:
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


def _result(done: TurnResult) -> str:
    result = done.work.message.payload.get("result")
    return "" if result is None else f" with {to_json(result)}"


def _failure(done: TurnResult) -> str | None:
    """Why a finished run has failed; None if it has not."""
    if done.work.message.function == "Failed":
        return str(done.work.message.payload["reason"])
    return None if done.reason is None else f"its clean-up failed: {last_words(done.reason)}"


def _item(what: TurnResult | Event) -> dict[str, Any]:
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
