"""The composition of supervision: opens a peer with all its services, the steward, and the launchers, from settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from towpath.core.clock import Clock
from towpath.core.events import Events
from towpath.core.service import Service
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.db.processes import ProcessStore
from towpath.notify.model import Teller
from towpath.queue import Queue
from towpath.settings import Settings, SupervisionSettings
from towpath.supervision.coordinator.coordinator import Coordinator
from towpath.supervision.coordinator.reach import ClaimRelease, CoordinatorContext, Ping, ProcessReach, request_inbox
from towpath.supervision.duties.process_control import ExitWatch, ProcessControl, StoppedWatch
from towpath.supervision.duties.store import DeathStore, DutyCache, DutyStore
from towpath.supervision.election.election import PeerRole, Timing
from towpath.supervision.election.messages import Pong
from towpath.supervision.launchers.docker import DockerEngine, DockerLauncher, DockerOptions
from towpath.supervision.launchers.launcher import Launcher
from towpath.supervision.launchers.subprocess import SubprocessLauncher
from towpath.supervision.peers.node import PeerNode, PeerRows, RefusedPackets, TermService
from towpath.supervision.peers.socket import UdpSocket, peer_name, this_host
from towpath.supervision.term import TermKeeper
from towpath.supervision.up import Steward


def open_supervisor(context: SupervisionContext, udp: UdpSocket, launch: int, clock: Clock) -> Supervisor:
    """A peer with all its services."""
    supervision, events = context.settings.supervision, context.events
    timing = timing_of(supervision)
    listening: list[Coordinator] = []

    def on_pong(name: str, pong: Pong) -> None:
        for each in listening:
            each.pong(name, pong)

    names = {each: peer_name(each) for each in range(1, supervision.peers + 1)}
    addresses = PeerRows(context.database, supervision.peers, events)
    node = PeerNode(context.number, names, udp, addresses, timing, events, clock, launch, on_pong)
    parts = _parts(context, clock, node.ping)
    terms = TermService(parts.terms, node, timing, clock, events)
    coordinator = Coordinator(parts, lambda: terms.number, clock)
    listening.append(coordinator)
    refused = RefusedPackets(udp, context.database, context.event_log, events)
    return Supervisor(node, terms, coordinator, parts.reach, [refused, *_local(context, parts.cache, clock)])


def open_steward(context: SupervisionContext, clock: Clock) -> Steward:
    """Coordinates without peers. It has no socket, so it judges processes by their beats alone."""
    parts = _parts(context, clock, lambda name, address, nonce: None)
    return Steward(parts, _local(context, parts.cache, clock), clock)


def open_launchers(settings: SupervisionSettings) -> Mapping[str, Launcher]:
    """Those of this host, by name."""
    containers = DockerOptions(
        cluster=settings.cluster,
        network=settings.docker_network,
        mounts=tuple(settings.docker_mounts),
        user=settings.docker_user,
    )
    return {
        "subprocess": SubprocessLauncher(Path(settings.directory)),
        "docker": DockerLauncher(DockerEngine(Path(settings.docker_socket)), containers),
    }


def timing_of(settings: SupervisionSettings) -> Timing:
    """The settings as the election takes them: the other times go with the two that can be set."""
    usual = Timing()
    election, lease = settings.election_s / usual.election_timeout_s, settings.lease_s / usual.lease_s
    return Timing(
        election_timeout_s=settings.election_s,
        heartbeat_s=usual.heartbeat_s * election,
        invite_s=usual.invite_s * election,
        reinvite_s=usual.reinvite_s * election,
        lease_s=settings.lease_s,
        renew_s=usual.renew_s * lease,
    )


@dataclass(frozen=True, slots=True)
class SupervisionContext:
    """What the runtime opens a peer or a steward with."""

    settings: Settings
    database: Database
    events: Events
    event_log: EventLog
    queue: Queue
    teller: Teller
    control: ProcessControl
    process_id: str
    number: int

    @property
    def host(self) -> str:
        return this_host(self.settings.supervision)


class Supervisor:
    """The services of a peer."""

    def __init__(
        self, node: PeerNode, terms: TermService, coordinator: Coordinator, reach: ProcessReach, local: list[Service]
    ) -> None:
        """`local` is what every peer does for its own host."""
        self.node = node
        self.terms = terms
        self._reach = reach
        self._services = [*local, node, terms, coordinator]

    def start(self) -> None:
        for service in self._services:
            service.start()

    def stop(self) -> None:
        """The coordinator first: it must not act any more when the term is given back."""
        with ExitStack() as ending:  # the last one is called first, and each even if another raises
            for service in self._services:
                ending.callback(service.stop)
            ending.callback(self._reach.close)

    @property
    def status(self) -> str:
        """What it is, for people."""
        view = self.node.view()
        if self.terms.number:
            return f"coordinates under term {self.terms.number}"
        if view.role is PeerRole.COORDINATOR:
            return "leads, without the term"
        if view.coordinator is None:
            return "elects"
        return f"follows peer {view.coordinator}"


def _local(context: SupervisionContext, duties: DutyCache, clock: Clock) -> list[Service]:
    """What every peer does for its own host."""
    common = duties, context.host, context.control
    exits = [ExitWatch(*common, launcher, context.events) for launcher in context.control.launchers]
    stopped = StoppedWatch(*common, context.settings.process.lease_s, context.events, clock)
    return [stopped, *exits, request_inbox(context.database, context.queue, context.host, context.control)]


def _parts(context: SupervisionContext, clock: Clock, ping: Ping) -> CoordinatorContext:
    supervision, database = context.settings.supervision, context.database
    return CoordinatorContext(
        settings=supervision,
        lease_s=context.settings.process.lease_s,
        database=database,
        events=context.events,
        event_log=context.event_log,
        terms=TermKeeper(database, context.event_log, context.process_id, context.number, supervision.lease_s),
        duties=DutyStore(database),
        cache=DutyCache(database, clock),
        deaths=DeathStore(database),
        processes=ProcessStore(database),
        freeing=ClaimRelease(database, context.event_log, context.queue.caretaker()),
        reach=ProcessReach(context.host, context.control, context.queue, clock),
        teller=context.teller,
        ping=ping,
    )
