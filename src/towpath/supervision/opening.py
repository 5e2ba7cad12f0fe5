"""Makes the parts of supervision from settings and connects them, for the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from towpath.clock import Clock
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.db.processes import ProcessStore
from towpath.events import Events
from towpath.notify.notice import Teller
from towpath.queue import Queue
from towpath.service import Service
from towpath.settings import Settings, SupervisionSettings
from towpath.supervision.agent import Agent
from towpath.supervision.coordinator import Coordinator
from towpath.supervision.coordinator_parts import CoordinatorParts, Ping
from towpath.supervision.death import DeathStore
from towpath.supervision.duty_cache import DutyCache
from towpath.supervision.duty_store import DutyStore
from towpath.supervision.exit_watch import ExitWatch
from towpath.supervision.freeing import Freeing
from towpath.supervision.hands import Hands
from towpath.supervision.host import peer_name, this_host
from towpath.supervision.launchers.docker_container import DockerOptions
from towpath.supervision.launchers.docker_engine import DockerEngine
from towpath.supervision.launchers.docker_launcher import DockerLauncher
from towpath.supervision.launchers.launcher import Launcher
from towpath.supervision.launchers.subprocess_launcher import SubprocessLauncher
from towpath.supervision.messages import Pong
from towpath.supervision.peer_node import PeerNode
from towpath.supervision.peer_rows import PeerRows
from towpath.supervision.reach import Reach
from towpath.supervision.refused_packets import RefusedPackets
from towpath.supervision.steward import Steward
from towpath.supervision.stopped_watch import StoppedWatch
from towpath.supervision.supervisor import Supervisor
from towpath.supervision.term_keeper import TermKeeper
from towpath.supervision.term_service import TermService
from towpath.supervision.timing import Timing
from towpath.supervision.udp import Address, UdpSocket


@dataclass(frozen=True, slots=True)
class Opening:
    """What the runtime gives."""

    settings: Settings
    database: Database
    events: Events
    event_log: EventLog
    queue: Queue
    teller: Teller
    hands: Hands
    process_id: str
    number: int

    @property
    def host(self) -> str:
        return this_host(self.settings.supervision)


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


def open_supervisor(opening: Opening, number: int, udp: UdpSocket, launch: int, clock: Clock) -> Supervisor:
    """A peer with all its services."""
    supervision, events = opening.settings.supervision, opening.events
    timing = timing_of(supervision)
    listening: list[Coordinator] = []

    def on_pong(name: str, pong: Pong) -> None:
        for each in listening:
            each.pong(name, pong)

    names = {each: peer_name(each) for each in range(1, supervision.peers + 1)}
    addresses = PeerRows(opening.database, supervision.peers, events)
    node = PeerNode(number, names, udp, addresses, timing, events, clock, launch, on_pong)
    parts = _parts(opening, clock, node.ping)
    terms = TermService(parts.terms, node, timing, clock, events)
    coordinator = Coordinator(parts, lambda: terms.number, clock)
    listening.append(coordinator)
    refused = RefusedPackets(udp, opening.database, opening.event_log, events)
    return Supervisor(node, terms, coordinator, parts.reach, [refused, *_local(opening, parts.cache, clock)])


def open_steward(opening: Opening, clock: Clock) -> Steward:
    """Who coordinates without peers; it has no socket, so processes are judged by their beats alone."""
    parts = _parts(opening, clock, _no_ping)
    return Steward(parts, _local(opening, parts.cache, clock), clock)


def _no_ping(name: str, address: Address, nonce: int) -> None:
    pass


def _local(opening: Opening, duties: DutyCache, clock: Clock) -> list[Service]:
    """What every peer does for its own host."""
    common = duties, opening.host, opening.hands
    exits = [ExitWatch(*common, launcher, opening.events) for launcher in opening.hands.launchers]
    stopped = StoppedWatch(*common, opening.settings.process.lease_s, opening.events, clock)
    return [stopped, *exits, Agent(opening.database, opening.queue, opening.host, opening.hands).inbox()]


def _parts(opening: Opening, clock: Clock, ping: Ping) -> CoordinatorParts:
    supervision, database = opening.settings.supervision, opening.database
    return CoordinatorParts(
        settings=supervision,
        lease_s=opening.settings.process.lease_s,
        database=database,
        events=opening.events,
        event_log=opening.event_log,
        terms=TermKeeper(database, opening.event_log, opening.process_id, opening.number, supervision.lease_s),
        duties=DutyStore(database),
        cache=DutyCache(database, clock),
        deaths=DeathStore(database),
        processes=ProcessStore(database),
        freeing=Freeing(database, opening.event_log, opening.queue.caretaker()),
        reach=Reach(opening.host, opening.hands, opening.queue, clock),
        teller=opening.teller,
        ping=ping,
    )
