"""How one instance looks: all that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from towpath.actors.actor_json import due_at, parent_of, resume_of
from towpath.actors.phase import Phase
from towpath.cli.actor_view import RESUME, last_words, print_instances
from towpath.cli.event import print_events
from towpath.cli.output import Column, console, plain, pretty, print_fields, print_table, short_time, time_and_age
from towpath.exact_json import read_exactly
from towpath.queue.state import TERMINAL

if TYPE_CHECKING:
    from towpath.actors.browser import Question
    from towpath.actors.known import Known
    from towpath.actors.look import Look
    from towpath.queue import Message

SHOWN_QUESTIONS = 5

_HISTORY = (
    Column("sent (UTC)", whole=True),
    Column("ended", whole=True, from_width=80),
    Column("state"),
    Column("message", whole=True),
    Column("tries", right=True, whole=True, from_width=110),
    Column("id", whole=True, from_width=110),
    Column("reason"),
)


def print_look(look: Look, known: Known | None, now: datetime) -> None:
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
            ("waits for", _waits(look.instance.needs, look.questions)),
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
        _print_part(f"fields of {state.function}", pretty(read_exactly(state.payload_json)))
    if look.failed is not None and "\n" in (look.failed.reason or ""):
        _print_part("trace", "\n".join(map(plain, (look.failed.reason or "").split("\n"))))
    if look.history:
        _print_part("history")
        print_table(_HISTORY, [_cells(each, now) for each in look.history])
    if look.children:
        _print_part("called")
        print_instances(look.children, now, None)
    if look.events:
        _print_part("events")
        print_events(look.events, now, without_subject=True)


def _print_part(title: str, text: str = "") -> None:
    out = console()
    out.print(f"\n{title}", style="bold")
    if text:
        out.print(Text(text), soft_wrap=True)


def _if_it_dies(look: Look, known: Known | None) -> str | None:
    resume = resume_of(look, known)
    if resume is None:
        return None
    does = f"{RESUME.get(resume, resume)} ({resume})"
    return does if look.instance.phase is Phase.RUNNING else f"nothing runs now; once it does: {does}"


def _failed_in(look: Look) -> str | None:
    if look.failed is None:
        return None
    again = f"towpath actor start {look.instance.name} --again --why …"
    return f"{look.failed.function}, message {look.failed.id}; to start it there: {again}"


def _due(look: Look, known: Known | None, now: datetime) -> str | None:
    due = due_at(look.instance)
    if due is None:
        return None
    text = time_and_age(due, now) or ""
    if look.instance.phase is Phase.WAITING:
        return f"{text}, if the answers have not come"
    if known is not None and not known.is_enabled:
        return f"{text}, but {known.name} is disabled"
    return text


def _waits(needs: int, questions: Sequence[Question]) -> str | None:
    if not questions:
        return None
    answered = sum(each.is_answered for each in questions)
    open_ = [each for each in questions if not each.is_answered]
    shown = ", ".join(map(_question, open_[:SHOWN_QUESTIONS]))
    more = f" and {len(open_) - SHOWN_QUESTIONS} more" if len(open_) > SHOWN_QUESTIONS else ""
    missing = max(needs - answered, 0)
    count = f"{missing} more answer{'' if missing == 1 else 's'}"
    return f"{count}, {answered} of {len(questions)} are there; to {shown}{more}"


def _question(question: Question) -> str:
    from towpath.actors.instance import name_of

    whose = "deleted" if question.inbox is None else f"{name_of(question.inbox)}, {question.state}"
    return f"{question.id} ({whose})"


def _untaken(look: Look, known: Known | None, now: datetime) -> str | None:
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
