"""The launch of a duty, on both sides: what a launcher starts, and how the started process makes itself known.

The fence keeps a process from working whose launch is not the current one. The coordinator takes each launch in the
database before it tells anybody to start a process, and a process shows its launch there before it does anything. So of
all the processes that a paused coordinator, a repeated request or a split network may have brought up, one can work;
the others leave.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from towpath.core import crash
from towpath.core.clock import Clock
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import Service
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.db.processes import Identity, Process
from towpath.errors import BadSettings, CommitUnknown, DatabaseError, DatabaseUnavailable
from towpath.settings import ProcessSettings, Settings
from towpath.supervision.duties.model import BELL, Duty
from towpath.supervision.duties.store import DeathStore, DutyStore
from towpath.supervision.launchers.launcher import LAUNCH_VARIABLE, LaunchSpec, ProcessLimits
from towpath.supervision.peers.node import PingResponder
from towpath.supervision.peers.socket import UdpSocket, open_ping_socket, told_address

logger = logging.getLogger(__name__)

# What a process starts that has shown its launch belongs to that launch, and has none to show.
SHOWN_VARIABLE = "TOWPATH_LAUNCH_SHOWN"
# A peer's own launch, and where it is to die in a test, are not its children's.
NOT_INHERITED = frozenset({LAUNCH_VARIABLE, SHOWN_VARIABLE, crash.VARIABLE})
EXIT_CODE_REPLACED = 71
ADOPT_WITHIN_S = 30.0
ADOPT_AGAIN_S = 0.2


def leave_replaced() -> None:
    """What a process does whose launch is not the current one: nothing that it has is its own."""
    logger.critical("another start has taken the place of this one; leaving at once")
    os._exit(EXIT_CODE_REPLACED)


def enrol(
    settings: Settings,
    database: Database,
    events: Events,
    event_log: EventLog,
    clock: Clock,
    given: GivenLaunch,
    kind: str,
    pinged_at: str | None = None,
    leave: Callable[[], None] = leave_replaced,
) -> Enrolled:
    """Show the launch, or leave; then register. `pinged_at` is where it answers pings by itself, as peers do."""
    udp: UdpSocket | None = None
    if pinged_at is None:
        udp = open_ping_socket(settings, given.duty, events, clock)
        pinged_at = told_address(settings, udp)
    identity = Identity(kind, given.duty, given.launch, pinged_at)
    process = Process(database, _named(settings.process, given.duty), clock, identity)
    fence = Fence(database, event_log, given, process.id, leave)
    fence.pass_through()
    mark_shown(given)
    process.register()
    process.on_ready = fence.ready
    services: list[Service] = [] if udp is None else [PingResponder(udp, given.launch, events)]

    def close() -> None:
        if udp is not None:
            udp.close()
        mark_shown(None)
        fence.give_back()

    return Enrolled(process, fence, services, close)


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A process that may do its duty."""

    process: Process
    fence: Fence
    services: list[Service]
    close: Callable[[], None]


class Fence:
    """Lets a process work only while its launch is the current one of its duty."""

    def __init__(
        self,
        database: Database,
        event_log: EventLog,
        given: GivenLaunch,
        process_id: str,
        leave: Callable[[], None] = leave_replaced,
    ) -> None:
        self.given = given
        self._database = database
        self._event_log = event_log
        self._process_id = process_id
        self._leave = leave
        self._duties = DutyStore(database)
        self._deaths = DeathStore(database)

    def pass_through(self) -> None:
        """Show the launch, or leave."""
        if not self._adopt():
            self._leave()
        crash.here(CrashPoint.LAUNCH_ADOPTED)

    def _adopt(self) -> bool:
        """Whether it may work. A database that is slow for a while must not look like a start that came to nothing."""
        given, deadline = self.given, time.monotonic() + ADOPT_WITHIN_S
        while True:
            try:
                with self._database.single() as tx:
                    return self._duties.adopt(tx, given.duty, given.launch, given.launch_id, self._process_id)
            except (DatabaseUnavailable, CommitUnknown):
                if time.monotonic() > deadline:
                    raise
            time.sleep(ADOPT_AGAIN_S)

    def check(self) -> None:
        """Leave when another launch has taken the place of this one."""
        with self._database.glance() as tx:
            is_current = self._duties.is_current(tx, self.given.launch_id, self._process_id)
        if not is_current:
            self._leave()

    def ready(self) -> None:
        """The duty is done from now on."""
        with self._database.transaction() as tx:
            duty = self._duties.settle(tx, self.given.launch_id)
            if duty is not None:
                self._deaths.note_back(tx, duty.name)
                self._event_log.record(tx, ready_event(duty))
                tx.after_commit(lambda: self._database.wakeups.ring([BELL]))

    def give_back(self) -> None:
        """This process ends in order; if it was never ready, another of the same launch may do the duty.

        So a script may run one command after the other, of which the last one stays.
        """
        with suppress(DatabaseError), self._database.single() as tx:
            self._duties.give_back(tx, self.given.launch_id, self._process_id)


def ready_event(duty: Duty) -> Event:
    took_s = None if duty.ready_us is None or duty.launched_us is None else (duty.ready_us - duty.launched_us) / 1e6
    data = {"launch": duty.launch, "took_s": took_s, "process": duty.process_id}
    return Event(EventKind.DUTY_READY, duty.name, data=data)


@dataclass(frozen=True, slots=True)
class GivenLaunch:
    """Which start of which duty this process is."""

    duty: str
    launch: int
    launch_id: str

    @classmethod
    def parse(cls, sign: str) -> GivenLaunch:
        duty, _, rest = sign.partition(":")
        number, _, launch_id = rest.partition(":")
        if not duty or not launch_id or not number.isdecimal():
            raise BadSettings(f"{LAUNCH_VARIABLE}={sign!r} is not duty:number:launch id; only launchers set it")
        return cls(duty, int(number), launch_id)


def given_launch() -> GivenLaunch | None:
    """This process's launch; none when it was not started for a duty."""
    sign = os.environ.get(LAUNCH_VARIABLE, "")
    given = GivenLaunch.parse(sign) if sign else None
    is_shown = given is not None and os.environ.get(SHOWN_VARIABLE) == given.launch_id
    return None if is_shown else given


def mark_shown(given: GivenLaunch | None) -> None:
    """Let children see that the launch is shown; none: it is not any more."""
    if given is None:
        os.environ.pop(SHOWN_VARIABLE, None)
    else:
        os.environ[SHOWN_VARIABLE] = given.launch_id


def launch_spec(duty: Duty) -> LaunchSpec:
    """What to start for the present launch of a duty."""
    spec = duty.spec
    if duty.launch_id is None:
        raise ValueError(f"{duty.name} has no launch")
    return LaunchSpec(
        duty=duty.name,
        launch=duty.launch,
        launch_id=duty.launch_id,
        command=spec.command,
        environment=_environment(spec.environment, is_contained=spec.launcher == "docker"),
        directory=Path(spec.directory) if spec.directory else None,
        limits=ProcessLimits(**spec.limits),
        image=spec.image,
        labels={"towpath.kind": duty.kind, "towpath.host": duty.host},
    )


def _environment(own: Mapping[str, str], *, is_contained: bool) -> dict[str, str]:
    """What the peer has, since it was started with the same settings; a container has only what is said of it."""
    if is_contained:
        return dict(own)
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    return {**inherited, "PYTHONUNBUFFERED": "1", **own}


def _named(settings: ProcessSettings, duty: str) -> ProcessSettings:
    """By its duty, unless the settings say another name."""
    is_default = settings.name == ProcessSettings().name
    return settings.model_copy(update={"name": duty}) if is_default else settings
