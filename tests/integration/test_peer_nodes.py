"""Peers over real UDP with the term in a real database: one acts, another takes over, who comes back joins."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.support.peers import CLOCK, SECRET, Peers, open_udp, peers_of

from towpath.core.events import Event, EventKind, Events
from towpath.errors import BadSettings
from towpath.runtime import Runtime
from towpath.supervision.election import packet as packets
from towpath.supervision.election.election import PeerRole
from towpath.supervision.election.messages import Ping, Pong
from towpath.supervision.election.packet import PacketOpener, PacketRefusal, PacketSealer
from towpath.supervision.peers.node import PingResponder, RefusedPackets
from towpath.supervision.peers.socket import ReceivedMessage, UdpSocket
from towpath.testing.clock import wait_until


@pytest.fixture
def peers(runtime: Runtime) -> Iterator[Peers]:
    with peers_of(runtime, 3) as made:
        yield made


@pytest.mark.realtime
def test_one_of_three_acts_and_the_others_know(peers: Peers) -> None:
    leader = peers.wait_for_one_group()
    assert peers.acting() == [leader]
    moves = [event.data["role"] for event in leader.told if event.kind is EventKind.PEER_ROLE_CHANGED]
    assert moves[-1] == PeerRole.COORDINATOR


@pytest.mark.realtime
def test_another_takes_over_when_the_coordinator_is_killed(peers: Peers) -> None:
    old = peers.remove(peers.wait_for_one_group())
    term = old.terms.number
    old.die()
    new = peers.wait_for_one_group()
    assert new.terms.number == term + 1


@pytest.mark.realtime
def test_another_takes_over_when_the_coordinator_stops(peers: Peers) -> None:
    old = peers.remove(peers.wait_for_one_group())
    term = old.terms.number
    old.stop()
    assert old.terms.number == 0
    assert peers.wait_for_one_group().terms.number == term + 1


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_a_coordinator_that_cannot_give_the_term_back_stops_all_the_same(peers: Peers) -> None:
    old = peers.remove(peers.wait_for_one_group())
    old.line.is_cut = True
    old.stop()
    assert peers.wait_for_one_group() is not old


@pytest.mark.realtime
@pytest.mark.parametrize("killed", [1, 2])
def test_members_that_come_back_join_with_coordinator_and_term_unchanged(peers: Peers, killed: int) -> None:
    """Also when both were killed: two that came back together must not vote the living coordinator out."""
    leader = peers.wait_for_one_group()
    term = leader.terms.number
    members = [stand for stand in peers.living.values() if stand is not leader][:killed]
    for stand in members:
        peers.remove(stand).die()
    for stand in members:
        peers.start(stand.number)
    assert peers.wait_for_one_group() is leader
    assert leader.terms.number == term


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_a_coordinator_that_loses_the_database_makes_way(peers: Peers) -> None:
    old = peers.wait_for_one_group()
    old.line.is_cut = True
    new = wait_until(lambda: next((each for each in peers.acting() if each is not old), None), 30.0, "another acts")
    assert old.terms.number == 0
    assert peers.wait_for_one_group() is new


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_a_database_that_hangs_does_not_make_a_peer_silent(peers: Peers) -> None:
    """And a lease that ends while its holder waits for an answer is over."""
    old = peers.wait_for_one_group()
    old.line.passes.clear()
    wait_until(lambda: [each for each in peers.acting() if each is not old], 30.0, "another acts")
    assert old.terms.number == 0
    old.line.passes.set()
    peers.wait_for_one_group()


def test_processes_are_pinged_through_the_node(peers: Peers) -> None:
    leader = peers.wait_for_one_group()
    udp = open_udp("orders", Events())
    responder = PingResponder(udp, 7, Events())
    responder.start()
    try:
        leader.node.ping("orders", udp.address, 4711)
        assert wait_until(lambda: leader.pongs) == [("orders", Pong(4711, 7))]
        other = next(stand for stand in peers.living.values() if stand is not leader)
        leader.node.ping(f"peer-{other.number}", other.udp.address, 4712)  # a peer answers, too
        assert wait_until(lambda: leader.pongs[1:]) == [(f"peer-{other.number}", Pong(4712, 1))]
    finally:
        responder.stop()
        udp.close()


# The socket itself: what it drops, counts and tells.


@dataclass
class Listening:
    """A socket of peer 2, and what it has told."""

    udp: UdpSocket
    told: list[Event]


@pytest.fixture
def listening() -> Iterator[Listening]:
    events, told = Events(), list[Event]()
    events.subscribe(told.append)
    udp = open_udp("peer-2", events)
    yield Listening(udp, told)
    udp.close()


def sent(sender: UdpSocket, to: str, listening: Listening) -> None:
    sender.send(to, listening.udp.address, Ping(1))
    sender.close()


@pytest.mark.parametrize(
    "reason", [PacketRefusal.SECRET, PacketRefusal.CLUSTER, PacketRefusal.RECEIVER, PacketRefusal.VERSION]
)
def test_what_somebody_has_to_set_right_is_told_once(
    listening: Listening, reason: PacketRefusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        with monkeypatch.context() as changed:
            if reason is PacketRefusal.VERSION:
                changed.setattr(packets, "VERSION", packets.VERSION + 1)
            secret = SECRET[::-1] if reason is PacketRefusal.SECRET else SECRET
            cluster = "ships" if reason is PacketRefusal.CLUSTER else "barges"
            sender = open_udp("peer-1", Events(), secret=secret, cluster=cluster)
            sent(sender, "peer-3" if reason is PacketRefusal.RECEIVER else "peer-2", listening)
    wait_until(lambda: listening.udp.receive(0.1) == [] and listening.udp.counts[reason.value] == 3)
    [event] = listening.told
    assert (event.kind, event.subject, event.data["reason"]) == (EventKind.PACKETS_REFUSED, "127.0.0.1", reason.value)
    assert "127.0.0.1" in event.why


def test_what_a_peer_has_refused_is_kept(runtime: Runtime, listening: Listening) -> None:
    refused = RefusedPackets(listening.udp, runtime.database, runtime.event_log, runtime.events)
    sent(open_udp("peer-1", Events(), cluster="ships"), "peer-2", listening)
    wait_until(lambda: listening.udp.receive(0.1) == [] and listening.udp.counts[PacketRefusal.CLUSTER.value])
    assert refused.run_once().done == 1
    assert refused.run_once().done == 0
    with runtime.database.glance() as tx:
        [kept] = runtime.event_log.page(tx, limit=10, kind=EventKind.PACKETS_REFUSED)
    assert (kept.subject, kept.data["reason"]) == ("127.0.0.1", "other cluster")


def test_rubbish_is_dropped_and_counted_and_told_to_nobody(listening: Listening) -> None:
    recorder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    recorder.bind(("127.0.0.1", 0))
    recorder.settimeout(10.0)
    sender = open_udp("peer-1", Events())
    sender.send("peer-2", recorder.getsockname(), Ping(1))
    packet = recorder.recv(2000)
    for data in (packet, packet, packet[:-1], packet + b"x", b"x" * 60, b"x" * 9000):
        recorder.sendto(data, listening.udp.address)
    received: list[ReceivedMessage] = []

    def are_all_here() -> bool:
        received.extend(listening.udp.receive(0.1))
        return sum(listening.udp.counts.values()) == 6

    wait_until(are_all_here)
    assert [each.message for each in received] == [Ping(1)]
    assert listening.udp.counts == {"received": 1, "replayed": 1, "truncated": 1, "oversized": 2, "malformed": 1}
    assert listening.told == []
    recorder.close()
    sender.close()


def test_a_closed_port_on_the_other_side_harms_nobody(listening: Listening) -> None:
    gone = open_udp("peer-1", Events())
    address = gone.address
    gone.close()
    for _ in range(3):
        listening.udp.send("peer-1", address, Ping(1))
        assert listening.udp.receive(0.01) == []


def test_a_wait_for_packets_ends_when_woken(listening: Listening) -> None:
    listening.udp.wake()
    assert listening.udp.receive(60.0) == []


def test_what_cannot_be_sent_is_counted(listening: Listening) -> None:
    listening.udp.send("peer-1", ("255.255.255.255", 9), Ping(1))  # the kernel wants to be asked for broadcasts
    assert listening.udp.counts == {"unsent": 1}


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1", "no-such-host.invalid"])
def test_where_one_cannot_listen_is_told_with_what_to_do(listening: Listening, host: str) -> None:
    """A port that is taken, an address of another machine, a name that nobody knows."""
    taken = listening.udp.address[1]
    with pytest.raises(BadSettings, match=rf"{host}:{taken} \(UDP\)"):
        UdpSocket(
            (host, taken), PacketSealer(SECRET, "barges", "x", 1), PacketOpener(SECRET, "barges", "x"), Events(), CLOCK
        )
