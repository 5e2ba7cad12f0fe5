"""Errors of the desk: cases, groups, jobs, lanes, policies and learned corrections."""

from __future__ import annotations

from collections.abc import Iterable

from towpath.errors.base import Refused


class BadPolicy(Refused):
    """What a flow or a person says about errors cannot work. The text names the rule and what to write instead."""


class BadExpression(BadPolicy):
    """The expression of a policy cannot be read. `at` is the place in it, counted from 0, where it stops being one."""

    def __init__(self, message: str, text: str, at: int) -> None:
        self.text = text
        self.at = at
        shown = f"{text[max(0, at - 20) : at]}»{text[at : at + 20]}"
        super().__init__(f"{message} at character {at + 1}: {shown}")


class UnknownPolicy(Refused):
    """The flow has no such rule, or no such version of its rules. `towpath desk policy list` shows what there is."""


class UnknownLane(Refused):
    """The flow has no lane of that number. `towpath lane list` shows those there are."""

    def __init__(self, flow: str, partition: int) -> None:
        self.flow = flow
        self.partition = partition
        super().__init__(f"flow {flow!r} has no lane {partition}; `towpath lane list` shows those there are")


class LaneLost(Refused):
    """The lane belongs to another process by now. Nothing was written; its new owner goes on with it."""

    def __init__(self, lane: str, owner: str) -> None:
        self.lane = lane
        self.owner = owner
        super().__init__(f"lane {lane} is not {owner}'s any more, or has gone on without it")


class UnknownJob(Refused):
    """There is no bulk job of that id, or several begin so. `towpath desk job list` shows those there are."""


class IllegalJobMove(Refused):
    """The bulk job is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(
        self, job_id: str, state: str, move: str, allowed: Iterable[str], *, number: int | None = None
    ) -> None:
        self.job_id = job_id
        self.state = state
        self.move = move
        self.allowed = tuple(sorted(allowed))
        only = " or ".join(self.allowed) or "none"
        super().__init__(f"job {number or job_id} is {state}: {move} is possible only from {only}")


class BadEdit(Refused):
    """A changed body cannot go out: it is not JSON, or it does not fit what the flow takes. The text says where."""


class StaleEdit(Refused):
    """Somebody else changed the case since you read it. Look at it again before you change it."""

    def __init__(self, case_id: str, what: str, *, number: int | None = None) -> None:
        self.case_id = case_id
        self.what = what
        super().__init__(f"case {number or case_id} was changed since you read it: {what}; look at it again")


class NeedsAnother(Refused):
    """An edit takes a second person here (`desk.second_person`), and that is not who has made it."""


class FieldsMasked(Refused):
    """Some fields of this flow are masked for your role, so that you may not do this. An admin may."""


class UnknownCase(Refused):
    """No case has that id or number, or several have ids that begin so. `towpath desk list` shows them."""

    def __init__(self, text: str, *, is_ambiguous: bool = False) -> None:
        self.text = text
        self.is_ambiguous = is_ambiguous
        what = "several cases have ids that begin with" if is_ambiguous else "no case has the id or number"
        rest = "write more of it" if is_ambiguous else "never made, or deleted after its retention time"
        super().__init__(f"{what} {text[:60]!r} ({rest})")


class IllegalCaseMove(Refused):
    """The case is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(
        self,
        case_id: str,
        state: str,
        target: str,
        allowed: Iterable[str],
        *,
        number: int | None = None,
        hint: str = "",
    ) -> None:
        self.case_id = case_id
        self.state = state
        self.target = target
        self.allowed = tuple(allowed)
        only = " or ".join(self.allowed) or "no state"
        rest = f"; {hint}" if hint else ""
        super().__init__(f"case {number or case_id} is {state} and cannot become {target}: only from {only}{rest}")


class UnknownRule(Refused):
    """No rule of learned corrections has that number. `towpath desk correct rules` shows those there are."""

    def __init__(self, id: int) -> None:
        self.id = id
        super().__init__(f"there is no rule {id}; `towpath desk correct rules` shows those there are")


class IllegalRuleMove(Refused):
    """The rule is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(self, id: int, state: str, target: str, allowed: Iterable[str]) -> None:
        self.id = id
        self.state = state
        self.target = target
        self.allowed = tuple(allowed)
        super().__init__(f"rule {id} is {state} and cannot become {target}: only from {' or '.join(self.allowed)}")


class CountedAlready(Refused):
    """Somebody else has counted these records at the same time. Nothing was counted twice; learn again later."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} was counted by somebody else at the same time; nothing is counted twice")


class CannotRehearse(Refused):
    """The records of these cases cannot be tried without side effects. The text says which step stands in the way."""


class UnknownRehearsal(Refused):
    """Nobody has asked for such a rehearsal, or it was deleted after the retention time of messages."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"there is no rehearsal {id!r} (never asked for, or deleted after its retention time)")


class UnknownGroup(Refused):
    """No group of cases has that number. `towpath desk groups` shows those there are."""

    def __init__(self, group_id: int) -> None:
        self.group_id = group_id
        super().__init__(f"there is no group {group_id}; `towpath desk groups` shows those there are")


class IllegalGroupMove(Refused):
    """The group is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(self, group_id: int, state: str, target: str, allowed: Iterable[str]) -> None:
        self.group_id = group_id
        self.state = state
        self.target = target
        self.allowed = tuple(allowed)
        shown = " or ".join(self.allowed) or "no state"
        super().__init__(f"group {group_id} is {state} and cannot become {target}: only from {shown}")
