"""Errors of actors, schedules, data sets, complaints and supervision."""

from __future__ import annotations

from collections.abc import Iterable

from towpath.errors.base import Refused, TowpathError


class BadActor(Refused):
    """The class of an actor is declared in a way that cannot work. The text says what to write."""


class BadState(Refused):
    """A state that the actor does not have, or whose fields do not fit. The text says which, and what is wrong."""


class UnknownActor(Refused):
    """No actor or no instance has that name. `towpath actor list` shows what there is."""


class UnknownComplaint(Refused):
    """No complaint has that number. `towpath complaint list` shows those there are."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"there is no complaint {number}; `towpath complaint list` shows those there are")


class IllegalComplaintMove(Refused):
    """The complaint is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(self, number: int, state: str, move: str, allowed: Iterable[str]) -> None:
        self.number = number
        self.state = state
        self.move = move
        self.allowed = tuple(allowed)
        super().__init__(f"complaint {number} is {state}: {move} is allowed only from {' or '.join(self.allowed)}")


class RecordUnknown(Refused):
    """The record behind a complaint is not known, or is not in the log any more. Say which one it is, or dismiss it."""


class UnknownSchedule(Refused):
    """There is no schedule of that name. `towpath actor schedule list` shows those there are."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no schedule {name!r}; `towpath actor schedule list` shows those there are")


class ScheduleExists(Refused):
    """There is a schedule of that name already. Change or remove it, or choose another name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is a schedule {name!r} already; change it, or choose another name")


class NotRunning(Refused):
    """The instance is at rest: there is nothing to abort."""


class NotAsleep(Refused):
    """The instance does not sleep: it runs, waits for answers or is at rest. `towpath actor show` says which."""


class NotFailed(Refused):
    """The instance has not failed, or the state in which it did is not kept any more. Start it with one you name."""


class UnknownDataSet(Refused):
    """No data set has that id. `data_sets.list()` shows those there are."""

    def __init__(self, data_set_id: str) -> None:
        self.data_set_id = data_set_id
        super().__init__(f"no data set has the id {data_set_id!r}")


class UnknownFile(Refused):
    """The data set has no plain file of that path. Links in its directory are not followed."""

    def __init__(self, data_set_id: str, path: str) -> None:
        self.data_set_id = data_set_id
        self.path = path
        super().__init__(f"data set {data_set_id} has no file {path!r}")


class IllegalDataSetMove(Refused):
    """The data set is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(self, data_set_id: str, state: str, move: str, allowed: Iterable[str]) -> None:
        self.data_set_id = data_set_id
        self.state = state
        self.move = move
        self.allowed = tuple(allowed)
        super().__init__(f"data set {data_set_id} is {state}: {move} is allowed only from {' or '.join(self.allowed)}")


class DataSetInUse(Refused):
    """Something is being made from the data set. Wait until that is ready, or delete that first."""

    def __init__(self, data_set_id: str, users: Iterable[str]) -> None:
        self.data_set_id = data_set_id
        self.users = tuple(users)
        super().__init__(f"data set {data_set_id} is in use: {', '.join(self.users)} is being made from it")


class UnknownLaunch(Refused):
    """The launcher keeps no launch of that handle: it was never started on this host, or is forgotten."""


class StillRunning(Refused):
    """The launch runs, so that what is kept of it cannot be deleted. Stop it first."""


class LauncherError(TowpathError):
    """A launcher did not do what was asked."""


class CannotLaunch(LauncherError):
    """It cannot be started as it is told: no such program, directory or image, or a limit that is not allowed.

    Mend what the text names; to start it again as it is would not help. Nothing of it runs.
    """


class LauncherAway(LauncherError):
    """The launcher does not answer, or not in time. Nothing is known; the same call may be made again."""


class EngineRefused(LauncherAway):
    """The Docker Engine refused something, for a reason that nobody has expected; the text ends with its words."""

    def __init__(self, what: str, status: int, says: str) -> None:
        self.status = status
        self.says = says
        super().__init__(f"the Docker Engine answers {what} with {status}: {says}")


class UnknownDuty(Refused):
    """Nothing that has to run has that name. `towpath status` shows what has."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = sorted(known)
        shown = ", ".join(self.known[:10]) or "none yet; `towpath up` makes them from the settings"
        more = f" and {len(self.known) - 10} more" if len(self.known) > 10 else ""
        super().__init__(f"nothing that has to run is named {name!r}; known: {shown}{more}")


class IllegalDutyMove(Refused):
    """The duty is not in a state from which this is allowed, or its launch is another by now. Look at it again."""

    def __init__(self, name: str, state: str, move: str, allowed: Iterable[str]) -> None:
        self.name = name
        self.state = state
        self.move = move
        self.allowed = tuple(allowed)
        super().__init__(f"duty {name} is {state}: {move} is allowed only from {' or '.join(self.allowed)}")


class NotCoordinator(TowpathError):
    """The term under which something was to be done is over, or is another's. Nothing was done; step down."""

    def __init__(self, term: int, holder: str) -> None:
        self.term = term
        self.holder = holder
        super().__init__(f"term {term} is not {holder}'s any more: nothing was done")
