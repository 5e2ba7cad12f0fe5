"""Every kind of service is started and stopped many times by several threads at once."""

from __future__ import annotations

import inspect
import random
import tempfile
import threading
from collections.abc import Callable
from typing import cast

import pytest
from tests.support.actors import Counter
from tests.support.peers import open_udp
from tests.support.quiet import Quiet

import towpath.runtime
import towpath.supervision.supervisor  # noqa: F401 - with the runtime it loads every module that defines a service
from towpath.access.service import AccessJanitor
from towpath.actors.engine.host import Host
from towpath.actors.engine.recovery import ActorJanitor
from towpath.actors.schedules.scheduler import Scheduler
from towpath.catalog.complaints.service import ComplaintJanitor
from towpath.catalog.data_sets.service import DataSetJanitor
from towpath.core.clock import SystemClock
from towpath.core.events import Event, EventKind
from towpath.core.service import Service
from towpath.db.processes import Heartbeat
from towpath.desk.background import DeskWatch, open_case_janitor, open_intake
from towpath.desk.intake.service import DeskIntake
from towpath.desk.janitor import BulkJanitor, CaseJanitor, DeskUpkeep
from towpath.desk.replay.outbox import ReplayContext
from towpath.desk.replay.relay import Relay
from towpath.desk.replay.replayer import Replayer
from towpath.gateway.completion.closer import Closer
from towpath.gateway.completion.tracker import PassTracker
from towpath.gateway.factory import open_gateway, open_upload_services
from towpath.gateway.janitor import GatewayCaretaker, UploadJanitor
from towpath.log import Log, open_log
from towpath.log.sqlite.log import LogJanitor, SqliteLog
from towpath.notify.courier import Collector
from towpath.queue.consumers import AsynchronousInbox, SynchronousInbox
from towpath.queue.janitor import Caretaker, Janitor
from towpath.settings import GatewaySettings, LogSettings
from towpath.supervision.coordinator.coordinator import Coordinator
from towpath.supervision.duties.process_control import ExitWatch, StoppedWatch
from towpath.supervision.peers.node import PeerNode, PeerRows, PingResponder, RefusedPackets, TermService
from towpath.supervision.peers.socket import UdpSocket
from towpath.testing.clock import wait_until


def own_log(quiet: Quiet) -> Log:
    """A log in a file of its own, whichever the database is."""
    log = open_log(LogSettings(url=f"sqlite:///{tempfile.mkdtemp()}/topics.db"), quiet.database)
    quiet.closed_with_it.append(log)
    return log


def sending_parts(quiet: Quiet) -> ReplayContext:
    runtime = quiet.runtime
    common = (runtime.settings, runtime.database, runtime.events, runtime.event_log)
    return ReplayContext(*common, log=own_log(quiet), process=lambda: quiet.process, blob=lambda name: b"")


def intake(quiet: Quiet) -> DeskIntake:
    runtime, log = quiet.runtime, own_log(quiet)
    common = (runtime.settings, runtime.database, lambda: log, runtime.events, runtime.event_log)
    return open_intake(*common, runtime.notify.notices)


def case_janitor(quiet: Quiet) -> CaseJanitor:
    runtime = quiet.runtime
    return open_case_janitor(runtime.settings, runtime.database, runtime.events, runtime.event_log)


def data_set_janitor(quiet: Quiet) -> DataSetJanitor:
    runtime = quiet.runtime
    return DataSetJanitor(runtime.data_sets, runtime.settings.catalog, runtime.events)


def desk_upkeep(quiet: Quiet) -> DeskUpkeep:
    runtime = quiet.runtime
    return DeskUpkeep(runtime.database, runtime.settings.desk, runtime.events)


def bulk_janitor(quiet: Quiet) -> BulkJanitor:
    runtime = quiet.runtime
    return BulkJanitor(runtime.database, runtime.settings.desk, runtime.events)


def log_janitor(quiet: Quiet) -> LogJanitor:
    return LogJanitor(cast(SqliteLog, own_log(quiet)), quiet.runtime.events, lambda tx, event: None)


def gateway_caretaker(quiet: Quiet) -> GatewayCaretaker:
    runtime = quiet.runtime
    common = (runtime.settings, runtime.database, runtime.events, runtime.event_log)
    log = own_log(quiet)
    gateway = open_gateway(*common, lambda: log, SystemClock())
    return GatewayCaretaker(gateway, runtime.settings.gateway, runtime.events)


def upload_service(kind: type[Service]) -> Callable[[Quiet], Service]:
    """One of those that bring uploads to their end."""

    def make(quiet: Quiet) -> Service:
        runtime, log = quiet.runtime, own_log(quiet)
        plain = GatewaySettings.model_validate({"directory": tempfile.mkdtemp(), "streams": {"plain": {}}})
        settings = runtime.settings.model_copy(update={"gateway": plain})
        common = (settings, runtime.database, runtime.events, runtime.event_log)
        return next(each for each in open_upload_services(*common, lambda: log) if isinstance(each, kind))

    return make


def host(quiet: Quiet) -> Host:
    quiet.runtime.actors.register(Counter)
    return quiet.runtime.actors.host()


def collector(quiet: Quiet) -> Collector:
    return quiet.runtime.notify.collector()


def watch(quiet: Quiet) -> DeskWatch:
    runtime = quiet.runtime
    return DeskWatch(runtime.database, runtime.notify.notices, runtime.settings.notify, runtime.events)


def udp(quiet: Quiet) -> UdpSocket:
    made = open_udp("peer-1", quiet.runtime.events)
    quiet.closed_with_it.append(made)
    return made


def of_a_peer(kind: type[Service]) -> Callable[[Quiet], Service]:
    """One of the services of a peer."""

    def make(quiet: Quiet) -> Service:
        services = quiet.runtime.supervisor(1, udp(quiet))._services
        return next(service for service in services if isinstance(service, kind))

    return make


MAKERS: dict[type[Service], Callable[[Quiet], Service]] = {
    AccessJanitor: lambda quiet: quiet.runtime.access.janitor(),
    BulkJanitor: bulk_janitor,
    DeskUpkeep: desk_upkeep,
    CaseJanitor: case_janitor,
    Collector: collector,
    ComplaintJanitor: lambda quiet: quiet.runtime.complaints.janitor(),
    Coordinator: of_a_peer(Coordinator),
    ExitWatch: of_a_peer(ExitWatch),
    PeerNode: of_a_peer(PeerNode),
    PeerRows: lambda quiet: PeerRows(quiet.database, 3, quiet.runtime.events),
    PingResponder: lambda quiet: PingResponder(udp(quiet), 1, quiet.runtime.events),
    RefusedPackets: of_a_peer(RefusedPackets),
    StoppedWatch: of_a_peer(StoppedWatch),
    TermService: of_a_peer(TermService),
    DataSetJanitor: data_set_janitor,
    GatewayCaretaker: gateway_caretaker,
    Closer: upload_service(Closer),
    PassTracker: upload_service(PassTracker),
    UploadJanitor: upload_service(UploadJanitor),
    DeskWatch: watch,
    Heartbeat: lambda quiet: Heartbeat(quiet.process, quiet.runtime.events),
    Caretaker: lambda quiet: quiet.queue.caretaker(),
    Janitor: lambda quiet: quiet.queue.janitor(),
    LogJanitor: log_janitor,
    Host: host,
    DeskIntake: intake,
    Relay: lambda quiet: Relay(sending_parts(quiet)),
    Replayer: lambda quiet: Replayer(sending_parts(quiet)),
    Scheduler: lambda quiet: host(quiet).scheduler,
    ActorJanitor: lambda quiet: host(quiet).janitor,
    SynchronousInbox: lambda quiet: quiet.queue.synchronous("work"),
    AsynchronousInbox: lambda quiet: quiet.queue.asynchronous("work", workers=2),
}


def concrete(kind: type[Service]) -> set[type[Service]]:
    below = {found for child in kind.__subclasses__() for found in concrete(child)}
    ours = kind.__module__.startswith("towpath.") and not inspect.isabstract(kind)
    return below | ({kind} if ours else set())


def test_every_service_is_stressed_here() -> None:
    assert concrete(Service) == set(MAKERS)  # type: ignore[type-abstract]


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@pytest.mark.part("matrix")
@pytest.mark.parametrize("kind", MAKERS, ids=lambda kind: kind.__name__)
def test_started_and_stopped_many_times_at_once(quiet: Quiet, kind: type[Service]) -> None:
    service = MAKERS[kind](quiet)
    failed: list[Event] = []
    quiet.runtime.events.subscribe(lambda e: failed.append(e) if e.kind is EventKind.SERVICE_FAILED else None)
    errors: list[BaseException] = []

    def hammer(seed: int) -> None:
        choice = random.Random(seed)
        try:
            for _ in range(25):
                choice.choice((service.start, service.stop))()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=hammer, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    service.stop()
    assert errors == []
    assert failed == []
    assert names().count(service.name) == 0
    service.start()
    wait_until(lambda: names().count(service.name) == 1)
    service.stop()
    assert not service.is_running
