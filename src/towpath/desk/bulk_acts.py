"""What a bulk job does to each of its cases, from its kind and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from towpath.desk.desk_parts import DeskParts
from towpath.desk.job import Job
from towpath.desk.job_state import JobKind
from towpath.desk.operating_acts import Abandon, Act, Assign, Open, Regroup, Replay, Resend
from towpath.errors import BadValue


def act_of(parts: DeskParts, job: Job) -> Act:
    """The act of a job that is in the table."""
    return make_act(parts, job.kind, job.arguments)


def make_act(parts: DeskParts, kind: JobKind, arguments: Mapping[str, Any]) -> Act:
    """Raises `BadValue` for arguments that the act does not take."""
    match kind:
        case JobKind.REPLAY:
            return Replay(parts.sends, parts.edits, arguments.get("delay_s"))
        case JobKind.RESEND:
            return Resend(parts.sends, parts.edits)
        case JobKind.ABANDON:
            return Abandon(parts.cases, parts.parking)
        case JobKind.OPEN:
            return Open(parts.cases)
        case JobKind.ASSIGN:
            return Assign(parts.cases, parts.history, arguments.get("assignee"))
        case JobKind.REGROUP:
            return Regroup(parts.cases, parts.history, int(arguments["group"]))
        case JobKind.CORRECT:
            made = parts.makers.get(kind)
            if made is None:
                raise BadValue("nothing here knows how to apply corrections")
            return made(arguments)
