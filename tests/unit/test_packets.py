"""Packets: what is sealed opens once, for whom it is meant; anything else is dropped, with the reason."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.supervision import packet as packets
from towpath.supervision.codec import Malformed, decode_message, encode_message
from towpath.supervision.messages import Accept, Change, Heartbeat, Invite, Message, Ok, Ping, Pong, Rank, Reject
from towpath.supervision.packet import LONGEST_PACKET, VERSION, Letter, Opener, Refusal, Sealer
from towpath.supervision.replays import MOST_SENDERS, QUIET_S, WINDOW, Replays

SECRET = "a secret of many letters"  # noqa: S105 - of no system
CLUSTER = "barges"

u16, u32, u64 = st.integers(1, 0xFFFF), st.integers(0, 0xFFFFFFFF), st.integers(0, 2**64 - 1)
ranks = st.builds(Rank, u64, st.booleans(), st.integers(0, 0xFFFF), u16)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Invite, u32, ranks),
    st.builds(Accept, u32, st.lists(u16, max_size=255).map(tuple)),
    st.builds(Reject, u32, st.none() | u16, st.none() | ranks),
    st.builds(Change, u16),
    st.builds(Heartbeat, u32, st.booleans()),
    st.builds(Ok, u32, u64),
    st.builds(Ping, u64),
    st.builds(Pong, u64, u64),
)
names = st.text(min_size=1, max_size=25).filter(lambda name: not any(0xD800 <= ord(c) < 0xE000 for c in name))


def sealer(me: str = "peer-1", boot: int = 1, secret: str = SECRET, cluster: str = CLUSTER) -> Sealer:
    return Sealer(secret, cluster, me, boot)


def opener(me: str = "peer-2") -> Opener:
    return Opener(SECRET, CLUSTER, me)


@given(message=messages, sender=names, receiver=names)
def test_what_is_sealed_opens_once(message: Message, sender: str, receiver: str) -> None:
    packet = sealer(sender).seal(receiver, message)
    opening = opener(receiver)
    assert opening.open(packet, 0.0) == Letter(sender, message)
    assert opening.open(packet, 0.0) is Refusal.REPLAYED
    assert len(packet) <= LONGEST_PACKET


@given(data=st.binary(max_size=2 * LONGEST_PACKET))
def test_no_bytes_of_others_are_ever_taken(data: bytes) -> None:
    assert isinstance(opener().open(data, 0.0), Refusal)


@given(message=messages, data=st.data())
def test_a_packet_that_was_changed_anywhere_is_dropped(message: Message, data: st.DataObject) -> None:
    packet = bytearray(sealer().seal("peer-2", message))
    packet[data.draw(st.integers(0, len(packet) - 1))] ^= data.draw(st.integers(1, 255))
    assert isinstance(opener().open(bytes(packet), 0.0), Refusal)


@given(message=messages, data=st.data())
def test_a_truncated_packet_is_dropped(message: Message, data: st.DataObject) -> None:
    packet = sealer().seal("peer-2", message)
    cut = packet[: data.draw(st.integers(0, len(packet) - 1))]
    assert opener().open(cut, 0.0) is Refusal.TRUNCATED


@given(message=messages, tail=st.binary(min_size=1, max_size=LONGEST_PACKET))
def test_an_oversized_packet_is_dropped(message: Message, tail: bytes) -> None:
    assert opener().open(sealer().seal("peer-2", message) + tail, 0.0) is Refusal.OVERSIZED


@given(kind=st.integers(0, 255), body=st.binary(max_size=200))
def test_a_body_is_a_message_or_malformed(kind: int, body: bytes) -> None:
    """Also one that whoever knows the secret has made; and what can be read is written in one way only."""
    try:
        message = decode_message(kind, body)
    except Malformed:
        return
    assert encode_message(message) == (kind, body)


@pytest.mark.parametrize(
    ("packet", "refusal"),
    [
        (sealer(secret=SECRET[::-1]).seal("peer-2", Ping(1)), Refusal.SECRET),
        (sealer(cluster="ships").seal("peer-2", Ping(1)), Refusal.CLUSTER),
        (sealer().seal("peer-3", Ping(1)), Refusal.RECEIVER),
        (b"GET / HTTP/1.1\r\n\r\n" + bytes(60), Refusal.MALFORMED),
        (b"", Refusal.TRUNCATED),
    ],
)
def test_each_wrong_packet_has_its_reason(packet: bytes, refusal: Refusal) -> None:
    assert opener().open(packet, 0.0) is refusal


def test_another_version_is_told_before_anything_else_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a later version we know no more than where its number is."""
    monkeypatch.setattr(packets, "VERSION", VERSION + 1)
    packet = sealer().seal("peer-2", Ping(1)) + b"what later versions have"
    monkeypatch.undo()
    assert opener().open(packet, 0.0) is Refusal.VERSION


UNFIT = [b"", b"\x00", b"\x05abc", b"\x02ab", b"\x02ab\x00", b"\xc8" + b"a" * 200, b"\x01\xff\x01a"]


@pytest.mark.parametrize("rest", UNFIT)
def test_names_that_do_not_fit_are_malformed_also_under_a_right_tag(rest: bytes) -> None:
    key, cluster = packets._key(SECRET, CLUSTER), packets._cluster_id(CLUSTER)
    length = packets._HEAD.size + len(rest) + packets.TAG_LENGTH
    head = packets._HEAD.pack(packets.MAGIC, VERSION, 7, length, cluster, 1, 1)
    refusal = opener().open(head + rest + packets._tag(key, head + rest), 0.0)
    assert refusal in (Refusal.MALFORMED, Refusal.TRUNCATED)


def test_a_peer_without_number_and_a_doubtful_truth_are_malformed() -> None:
    for kind, body in [
        (4, struct.pack("!H", 0)),
        (5, struct.pack("!IB", 1, 2)),
        (2, struct.pack("!IH", 1, 0)),
        (9, b""),
    ]:
        with pytest.raises(Malformed):
            decode_message(kind, body)


@pytest.mark.parametrize("secret", ["", "short"])
def test_a_short_secret_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="at least 16"):
        Sealer(secret, CLUSTER, "peer-1", 1)


@pytest.mark.parametrize("name", ["", "x" * 101])
def test_a_name_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 100 bytes"):
        sealer(name)


def test_an_earlier_life_of_a_sender_is_a_replay() -> None:
    opening = opener()
    old, new = sealer(boot=1), sealer(boot=2)
    recorded = [old.seal("peer-2", Ping(number)) for number in range(3)]
    assert isinstance(opening.open(recorded[0], 0.0), Letter)
    assert isinstance(opening.open(new.seal("peer-2", Ping(9)), 1.0), Letter)
    assert opening.open(recorded[1], 2.0) is Refusal.REPLAYED


def test_a_sender_whose_clock_was_set_back_is_heard_again_after_a_while() -> None:
    replays = Replays()
    assert replays.is_new("peer-1", boot=20, counter=1, now=0.0)
    assert not replays.is_new("peer-1", boot=10, counter=1, now=QUIET_S - 1)
    assert replays.is_new("peer-1", boot=10, counter=2, now=QUIET_S + 1)


@given(order=st.permutations(range(1, 60)), again=st.lists(st.integers(1, 59), max_size=30))
def test_packets_may_overtake_each_other_and_count_once(order: list[int], again: list[int]) -> None:
    replays = Replays()
    assert all(replays.is_new("peer-1", 1, counter, 0.0) for counter in order)
    assert not any(replays.is_new("peer-1", 1, counter, 0.0) for counter in [*again, *order])


def test_what_is_far_behind_is_dropped() -> None:
    replays = Replays()
    assert replays.is_new("peer-1", 1, 10 * WINDOW, 0.0)
    assert replays.is_new("peer-1", 1, 9 * WINDOW + 1, 0.0)
    assert not replays.is_new("peer-1", 1, 9 * WINDOW, 0.0)
    assert replays.is_new("peer-1", 1, 100 * WINDOW, 0.0)
    assert not replays.is_new("peer-1", 1, 10 * WINDOW + 1, 0.0)


def test_senders_are_forgotten_before_they_fill_the_memory() -> None:
    replays = Replays()
    for number in range(MOST_SENDERS + 10):
        replays.is_new("steady", 1, number + 1, 0.0)
        assert replays.is_new(f"process-{number}", 1, 1, 0.0)
    assert not replays.is_new("steady", 1, 1, 0.0)
    assert len(replays._seen) == MOST_SENDERS
