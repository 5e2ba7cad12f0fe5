"""What people see of duties and ask of them: what `runtime.duties` is. The coordinator carries it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from towpath.core.clock import to_micros
from towpath.core.events import Event, EventKind
from towpath.db import Database, Queries, Transaction
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.db.processes import ProcessRow, ProcessStore
from towpath.errors import BadSettings, LauncherError, Refused, UnknownDuty
from towpath.supervision.duties.model import BELL, Duty, DutyState, NewDuty
from towpath.supervision.duties.process_control import ProcessControl
from towpath.supervision.duties.store import Death, DeathStore, DutyStore
from towpath.supervision.term import Term, TermStore

HOLDINGS = ("instances", "stages", "lanes")  # of actors, of flows, of the desk
T = TypeVar("T")
ALL = 1_000_000
NOT_NAMED = "it is not in the settings any more"


class DutyService:
    """Reads duties, and records what people want; the coordinator carries it out."""

    def __init__(
        self, database: Database, event_log: EventLog, host: str, control: Callable[[], ProcessControl]
    ) -> None:
        self._database = database
        self._event_log = event_log
        self._host = host
        self._control = control
        self._duties = DutyStore(database)
        self._deaths = DeathStore(database)
        self._processes = ProcessStore(database)
        self._terms = TermStore(database)

    @property
    def host(self) -> str:
        """This machine."""
        return self._host

    def overview(self) -> Overview:
        with self._database.read() as tx:
            duties, term = self._duties.all(tx), self._terms.read(tx)
        with self._database.beats.read() as tx:
            processes = {row.id: row for row in self._processes.all(tx)}
        return Overview(self._database.now(), term, duties, processes)

    def gone(self, found: Overview) -> frozenset[str]:
        """Names of what should run and does not any more, while nobody coordinates who would write that down.

        Its lease says it, or the kernel of this machine; of what does not report, its launcher.
        """
        if found.has_coordinator:
            return frozenset()
        with self._database.beats.read() as tx:
            missed = set(self._processes.gone(tx, "", ALL))
        return frozenset(duty.name for duty in found.duties if duty.is_running and self._is_gone(found, duty, missed))

    def _is_gone(self, found: Overview, duty: Duty, missed: set[str]) -> bool:
        process = found.processes.get(duty.process_id or "")
        if process is not None:
            is_out_of_lease = to_micros(process.lease_until) < found.now_us
            return process.state != "alive" or is_out_of_lease or process.id in missed
        is_here = duty.host == self._host and duty.handle is not None
        return duty.has_exited or (is_here and not self._runs_here(duty))

    def _runs_here(self, duty: Duty) -> bool:
        try:
            return self._control().look(duty).is_running
        except (LauncherError, Refused, BadSettings):
            return True  # nobody can know

    def show(self, name: str, deaths: int = 10) -> DutyView:
        """One of them; raises `UnknownDuty`."""
        with self._database.read() as tx:
            duty = self._duties.read(tx, name)
            died = self._deaths.page(tx, limit=deaths, duty=name)
        with self._database.beats.read() as tx:
            process = self._processes.find(tx, duty.process_id) if duty.process_id else None
        return DutyView(duty, process, died)

    def find(self, name: str) -> DutyView | ProcessRow:
        """What has to run under that name, or else the process of that id or name; raises `UnknownDuty`."""
        try:
            return self.show(name)
        except UnknownDuty:
            with self._database.beats.read() as tx:
                row = self._processes.find(tx, name)
            if row is None:
                raise
            return row

    def processes(self) -> list[ProcessRow]:
        """All rows of processes, the newest first; those that have ended stay for a while."""
        with self._database.beats.read() as tx:
            return self._processes.all(tx)

    def held(self, process_id: str) -> dict[str, int]:
        """How many instances, stages and lanes are a process's own."""
        return holdings(self._database, process_id)

    def deaths(self, *, limit: int = 100, duty: str | None = None, before: int | None = None) -> list[Death]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        with self._database.glance() as tx:
            return self._deaths.page(tx, limit=limit, duty=duty, before=before)

    def want(self, wanted: list[NewDuty], *, who: str, why: str) -> list[str]:
        """All this is to run, and nothing else that was wanted before; returns the names of what is to stop."""
        check_who(who)
        check_why(why)
        return self._by_hand(lambda tx: self._want(tx, wanted, who, why))

    def stop(self, *names: str, who: str, why: str) -> list[Duty]:
        """They are not to run any more."""
        check_who(who)
        check_why(why)
        return self._by_hand(lambda tx: [self._stop(tx, name, who, why) for name in names])

    def restart(self, *names: str, who: str, why: str) -> list[Duty]:
        """What runs of them makes way for a new start; what does not run is started."""
        check_who(who)
        check_why(why)
        return self._by_hand(lambda tx: [self._restart(tx, name, who, why) for name in names])

    def logs(self, name: str, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """What its process, or its last one, has written; raises `Refused` when that cannot be read on this host."""
        duty = self.show(name, 1).duty
        if duty.host != self._host:
            raise Refused(f"{name} runs on {duty.host}, and its log is there; this is {self._host}")
        try:
            return self._control().logs(duty, tail=tail, follow=follow)
        except BadSettings as error:
            raise Refused(str(error)) from error

    def _by_hand(self, act: Callable[[Transaction], T]) -> T:
        done = commit_by_hand(self._database, act)
        self._database.wakeups.ring([BELL])
        return done

    def _want(self, tx: Transaction, wanted: list[NewDuty], who: str, why: str) -> list[str]:
        known = {duty.name: duty for duty in self._duties.all(tx)}
        for each in wanted:
            before = known.get(each.name)
            after = self._duties.want(tx, each, who, why)
            if before is None or not before.is_wanted or after.is_replaced or after.state is not before.state:
                self._record(tx, each.name, who, why, "wanted")
        left = sorted(known.keys() - {each.name for each in wanted})
        for name in left:
            if known[name].is_wanted:
                self._stop(tx, name, who, NOT_NAMED)
            self._duties.forget(tx, name)
        return left

    def _stop(self, tx: Transaction, name: str, who: str, why: str) -> Duty:
        duty = self._duties.stop(tx, name, who, why)
        self._record(tx, name, who, why, "stop")
        return duty

    def _restart(self, tx: Transaction, name: str, who: str, why: str) -> Duty:
        duty = self._duties.restart(tx, name, who, why)
        self._record(tx, name, who, why, "restart")
        return duty

    def _record(self, tx: Transaction, name: str, who: str, why: str, what: str) -> None:
        self._event_log.record(tx, Event(EventKind.DUTY_CHANGED_BY_HAND, name, who=who, why=why, data={"what": what}))


@dataclass(frozen=True, slots=True)
class DutyView:
    """A duty with its process, and how its last processes died."""

    duty: Duty
    process: ProcessRow | None
    deaths: list[Death]


@dataclass(frozen=True, slots=True)
class Overview:
    """All duties with their processes, and who coordinates."""

    now_us: int
    term: Term
    duties: list[Duty]
    processes: dict[str, ProcessRow]  # by id

    @property
    def coordinator(self) -> ProcessRow | None:
        """The peer whose term lasts."""
        return None if self.term.is_over(self.now_us) else self.processes.get(self.term.holder or "")

    @property
    def has_coordinator(self) -> bool:
        return not self.term.is_over(self.now_us)

    @property
    def is_all_ready(self) -> bool:
        """Whether all that is to run does, and somebody sees to it."""
        wanted = [duty for duty in self.duties if duty.is_wanted]
        return bool(wanted) and self.has_coordinator and all(duty.state is DutyState.READY for duty in wanted)


def holdings(database: Database, process_id: str) -> dict[str, int]:
    """How much is a process's own besides claimed messages, by kind. Others take it over once the process is dead."""
    sql = Queries("towpath.supervision", "holdings", database.dialect)
    with database.glance() as tx:
        counts = tx.rows(sql["held_by"], {"process_id": process_id})[0]
    return dict(zip(HOLDINGS, counts, strict=True))
