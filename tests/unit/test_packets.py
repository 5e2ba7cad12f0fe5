"""Packets: what is sealed opens once, for whom it is meant; anything else is dropped, with the reason."""

from __future__ import annotations

import hashlib
import hmac
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.supervision.election import packet as packets
from towpath.supervision.election.messages import (
    Accept,
    Invite,
    LeaderChange,
    Malformed,
    MemberHeartbeat,
    Message,
    Ok,
    Ping,
    Pong,
    Rank,
    Reject,
    decode_message,
    encode_message,
)
from towpath.supervision.election.packet import (
    LONGEST_PACKET,
    MOST_SENDERS,
    QUIET_S,
    VERSION,
    WINDOW,
    OpenedPacket,
    PacketOpener,
    PacketRefusal,
    PacketSealer,
    ReplayWindow,
)

SECRET = "a secret of many letters"  # noqa: S105 - of no system
CLUSTER = "barges"

u16, u32, u64 = st.integers(1, 0xFFFF), st.integers(0, 0xFFFFFFFF), st.integers(0, 2**64 - 1)
ranks = st.builds(Rank, u64, st.booleans(), st.integers(0, 0xFFFF), u16)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Invite, u32, ranks),
    st.builds(Accept, u32, st.lists(u16, max_size=255).map(tuple)),
    st.builds(Reject, u32, st.none() | u16, st.none() | ranks),
    st.builds(LeaderChange, u16),
    st.builds(MemberHeartbeat, u32, st.booleans()),
    st.builds(Ok, u32, u64),
    st.builds(Ping, u64),
    st.builds(Pong, u64, u64),
)
names = st.text(min_size=1, max_size=25).filter(lambda name: not any(0xD800 <= ord(c) < 0xE000 for c in name))


def sealer(me: str = "peer-1", boot: int = 1, secret: str = SECRET, cluster: str = CLUSTER) -> PacketSealer:
    return PacketSealer(secret, cluster, me, boot)


def opener(me: str = "peer-2") -> PacketOpener:
    return PacketOpener(SECRET, CLUSTER, me)


@given(message=messages, sender=names, receiver=names)
def test_what_is_sealed_opens_once(message: Message, sender: str, receiver: str) -> None:
    packet = sealer(sender).seal(receiver, message)
    opening = opener(receiver)
    assert opening.open(packet, 0.0) == OpenedPacket(sender, message)
    assert opening.open(packet, 0.0) is PacketRefusal.REPLAYED
    assert len(packet) <= LONGEST_PACKET


@given(data=st.binary(max_size=2 * LONGEST_PACKET))
def test_no_bytes_of_others_are_ever_taken(data: bytes) -> None:
    assert isinstance(opener().open(data, 0.0), PacketRefusal)


@given(message=messages, data=st.data())
def test_a_packet_that_was_changed_anywhere_is_dropped(message: Message, data: st.DataObject) -> None:
    packet = bytearray(sealer().seal("peer-2", message))
    packet[data.draw(st.integers(0, len(packet) - 1))] ^= data.draw(st.integers(1, 255))
    assert isinstance(opener().open(bytes(packet), 0.0), PacketRefusal)


@given(message=messages, data=st.data())
def test_a_truncated_packet_is_dropped(message: Message, data: st.DataObject) -> None:
    packet = sealer().seal("peer-2", message)
    cut = packet[: data.draw(st.integers(0, len(packet) - 1))]
    assert opener().open(cut, 0.0) is PacketRefusal.TRUNCATED


@given(message=messages, tail=st.binary(min_size=1, max_size=LONGEST_PACKET))
def test_an_oversized_packet_is_dropped(message: Message, tail: bytes) -> None:
    assert opener().open(sealer().seal("peer-2", message) + tail, 0.0) is PacketRefusal.OVERSIZED


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
        (sealer(secret=SECRET[::-1]).seal("peer-2", Ping(1)), PacketRefusal.SECRET),
        (sealer(cluster="ships").seal("peer-2", Ping(1)), PacketRefusal.CLUSTER),
        (sealer().seal("peer-3", Ping(1)), PacketRefusal.RECEIVER),
        (b"GET / HTTP/1.1\r\n\r\n" + bytes(60), PacketRefusal.MALFORMED),
        (b"", PacketRefusal.TRUNCATED),
    ],
)
def test_each_wrong_packet_has_its_reason(packet: bytes, refusal: PacketRefusal) -> None:
    assert opener().open(packet, 0.0) is refusal


def test_another_version_is_told_before_anything_else_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a later version we know no more than where its number is."""
    monkeypatch.setattr(packets, "VERSION", VERSION + 1)
    packet = sealer().seal("peer-2", Ping(1)) + b"what later versions have"
    monkeypatch.undo()
    assert opener().open(packet, 0.0) is PacketRefusal.VERSION


UNFIT = [b"", b"\x00", b"\x05abc", b"\x02ab", b"\x02ab\x00", b"\xc8" + b"a" * 200, b"\x01\xff\x01a"]


@pytest.mark.parametrize("rest", UNFIT)
def test_names_that_do_not_fit_are_malformed_also_under_a_right_tag(rest: bytes) -> None:
    key, cluster = packets._key(SECRET, CLUSTER), packets._cluster_id(CLUSTER)
    length = packets._HEAD.size + len(rest) + packets.TAG_LENGTH
    head = packets._HEAD.pack(packets.MAGIC, VERSION, 7, length, cluster, 1, 1)
    refusal = opener().open(head + rest + packets._tag(key, head + rest), 0.0)
    assert refusal in (PacketRefusal.MALFORMED, PacketRefusal.TRUNCATED)


@pytest.mark.parametrize("sender", [b"\x00", b"\x65" + b"a" * 101])
def test_a_sender_has_a_name_of_1_to_100_bytes(sender: bytes) -> None:
    """Also one that knows the secret, in a packet that could be read otherwise."""
    key, cluster = packets._key(SECRET, CLUSTER), packets._cluster_id(CLUSTER)
    rest = sender + b"\x06peer-2" + bytes(8)
    head = packets._HEAD.pack(packets.MAGIC, VERSION, 7, packets._HEAD.size + len(rest) + 16, cluster, 1, 1)
    assert opener().open(head + rest + packets._tag(key, head + rest), 0.0) is PacketRefusal.MALFORMED


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
    with pytest.raises(ValueError, match="16"):
        PacketSealer(secret, CLUSTER, "peer-1", 1)


@pytest.mark.parametrize("name", ["", "x" * 101])
def test_a_name_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="100"):
        sealer(name)


def test_an_earlier_life_of_a_sender_is_a_replay() -> None:
    opening = opener()
    old, new = sealer(boot=1), sealer(boot=2)
    recorded = [old.seal("peer-2", Ping(number)) for number in range(3)]
    assert isinstance(opening.open(recorded[0], 0.0), OpenedPacket)
    assert isinstance(opening.open(new.seal("peer-2", Ping(9)), 1.0), OpenedPacket)
    assert opening.open(recorded[1], 2.0) is PacketRefusal.REPLAYED


def test_a_sender_whose_clock_was_set_back_is_heard_again_after_a_while() -> None:
    replays = ReplayWindow()
    assert replays.is_new("peer-1", boot=20, counter=1, now=0.0)
    assert not replays.is_new("peer-1", boot=10, counter=1, now=QUIET_S - 1)
    assert replays.is_new("peer-1", boot=10, counter=2, now=QUIET_S + 1)


@given(order=st.permutations(range(1, 60)), again=st.lists(st.integers(1, 59), max_size=30))
def test_packets_may_overtake_each_other_and_count_once(order: list[int], again: list[int]) -> None:
    replays = ReplayWindow()
    assert all(replays.is_new("peer-1", 1, counter, 0.0) for counter in order)
    assert not any(replays.is_new("peer-1", 1, counter, 0.0) for counter in [*again, *order])


def test_what_is_far_behind_is_dropped() -> None:
    replays = ReplayWindow()
    assert replays.is_new("peer-1", 1, 10 * WINDOW, 0.0)
    assert replays.is_new("peer-1", 1, 9 * WINDOW + 1, 0.0)
    assert not replays.is_new("peer-1", 1, 9 * WINDOW, 0.0)
    assert replays.is_new("peer-1", 1, 100 * WINDOW, 0.0)
    assert not replays.is_new("peer-1", 1, 10 * WINDOW + 1, 0.0)


def test_senders_are_forgotten_before_they_fill_the_memory() -> None:
    replays = ReplayWindow()
    for number in range(MOST_SENDERS + 10):
        replays.is_new("steady", 1, number + 1, 0.0)
        assert replays.is_new(f"process-{number}", 1, 1, 0.0)
    assert not replays.is_new("steady", 1, 1, 0.0)
    assert len(replays._seen) == MOST_SENDERS


# As it is written: other programs and other versions read it.

IN_BYTES = [
    (Invite(1, Rank(2, True, 3, 4)), 1, "00000001 0000000000000002 01 0003 0004"),
    (Accept(1, (2, 3)), 2, "00000001 0002 0003"),
    (Accept(1, ()), 2, "00000001"),
    (Reject(1, 2), 3, "00000001 0002"),
    (Reject(1, None), 3, "00000001 0000"),
    (Reject(1, 2, Rank(3, False, 4, 5)), 3, "00000001 0002 0000000000000003 00 0004 0005"),
    (LeaderChange(7), 4, "0007"),
    (MemberHeartbeat(1, True), 5, "00000001 01"),
    (Ok(1, 2), 6, "00000001 0000000000000002"),
    (Ping(1), 7, "0000000000000001"),
    (Pong(1, 2), 8, "0000000000000001 0000000000000002"),
]


@pytest.mark.parametrize(("message", "kind", "body"), IN_BYTES)
def test_messages_in_bytes(message: Message, kind: int, body: str) -> None:
    assert encode_message(message) == (kind, bytes.fromhex(body))
    assert decode_message(kind, bytes.fromhex(body)) == message


@pytest.mark.parametrize(("kind", "body"), [(kind, body) for _, kind, body in IN_BYTES if kind != 2])
def test_a_body_has_its_length(kind: int, body: str) -> None:
    for wrong in (bytes.fromhex(body)[:-1], bytes.fromhex(body) + b"\x00"):
        with pytest.raises(Malformed):
            decode_message(kind, wrong)


@pytest.mark.parametrize(("kind", "place"), [(1, 12), (3, 14)])
def test_a_rank_is_fit_or_not(kind: int, place: int) -> None:
    body = bytearray(
        encode_message(Invite(1, Rank(2, True, 3, 4)) if kind == 1 else Reject(1, 2, Rank(2, True, 3, 4)))[1]
    )
    assert body[place] == 1
    body[place] = 2
    with pytest.raises(Malformed):
        decode_message(kind, bytes(body))


def test_a_packet_in_bytes() -> None:
    """Made here as the first lines of the module describe it."""
    key = hmac.digest(SECRET.encode(), b"towpath supervision barges", "sha256")
    rest = b"\x06peer-1" + b"\x06peer-2" + bytes(7) + b"\x05"
    cluster = hashlib.sha256(b"barges").digest()[:8]
    sealing = sealer(boot=3)
    for counter in (1, 2):
        head = b"TP" + bytes([1, 7]) + struct.pack("!H", 30 + 22 + 16) + cluster + struct.pack("!QQ", 3, counter)
        assert sealing.seal("peer-2", Ping(5)) == head + rest + hmac.digest(key, head + rest, "sha256")[:16]
    assert sealing.me == "peer-1"


def test_a_packet_is_at_most_so_long_that_one_frame_holds_it() -> None:
    """Whatever is longer is dropped before it is read."""
    key, cluster = packets._key(SECRET, CLUSTER), packets._cluster_id(CLUSTER)

    def packet(length: int) -> bytes:
        head = packets._HEAD.pack(packets.MAGIC, VERSION, 2, length, cluster, 1, 1)
        rest = b"\x06peer-1\x06peer-2" + struct.pack("!I", 1)
        members = b"\x00\x01" * ((length - len(head) - len(rest) - 16) // 2)
        return head + rest + members + packets._tag(key, head + rest + members)

    assert isinstance(opener().open(packet(1200), 0.0), OpenedPacket)
    longer = packet(1202)
    assert len(longer) == 1202
    assert opener().open(longer, 0.0) is PacketRefusal.OVERSIZED
    assert opener().open(longer[:1201], 0.0) is PacketRefusal.OVERSIZED
    assert opener().open(longer[:1200], 0.0) is PacketRefusal.TRUNCATED


def test_a_packet_has_the_length_that_it_says() -> None:
    packet = sealer("a").seal("b", Ping(1))
    assert len(packet) == 30 + 2 + 2 + 8 + 16

    def saying(length: int) -> bytes:
        return packet[:4] + struct.pack("!H", length) + packet[6:]

    assert opener("b").open(saying(57), 0.0) is PacketRefusal.OVERSIZED
    assert opener("b").open(saying(58), 0.0) == OpenedPacket("a", Ping(1))
    assert opener("b").open(saying(59), 0.0) is PacketRefusal.TRUNCATED


def test_the_shortest_packet_is_looked_into() -> None:
    """A head, the lengths of two names and a tag."""
    packet = sealer("a").seal("b", Ping(1))
    assert opener("b").open(packet[:47], 0.0) is PacketRefusal.TRUNCATED
    shortest = packet[:4] + struct.pack("!H", 48) + packet[6:48]
    assert opener("b").open(shortest, 0.0) is PacketRefusal.SECRET
    shorter = packet[:4] + struct.pack("!H", 47) + packet[6:47]
    assert opener("b").open(shorter, 0.0) is PacketRefusal.TRUNCATED


@pytest.mark.parametrize("length", [16, 17, 64])
def test_a_secret_of_sixteen_characters_will_do(length: int) -> None:
    packet = PacketSealer("s" * length, CLUSTER, "peer-1", 1).seal("peer-2", Ping(1))
    assert PacketOpener("s" * length, CLUSTER, "peer-2").open(packet, 0.0) == OpenedPacket("peer-1", Ping(1))


@pytest.mark.parametrize("name", ["x", "x" * 100, "\N{GREEK SMALL LETTER PI}" * 50])
def test_names_of_up_to_a_hundred_bytes(name: str) -> None:
    assert opener(name).open(sealer(name).seal(name, Ping(1)), 0.0) == OpenedPacket(name, Ping(1))


def test_reasons_are_counted_under_these_names() -> None:
    assert [str(each) for each in PacketRefusal] == [
        "truncated",
        "oversized",
        "malformed",
        "other version",
        "other cluster",
        "wrong secret",
        "other receiver",
        "replayed",
    ]


# Limits of replays


def test_a_window_is_1024_packets() -> None:
    replays = ReplayWindow()
    assert replays.is_new("peer-1", 1, 5000, 0.0)
    assert not replays.is_new("peer-1", 1, 5000 - 1024, 0.0)
    assert replays.is_new("peer-1", 1, 5000 - 1023, 0.0)
    assert not replays.is_new("peer-1", 1, 5000 - 1023, 0.0)
    assert replays.is_new("peer-1", 1, 5001, 0.0)
    assert not replays.is_new("peer-1", 1, 5000 - 1022 - 1, 0.0), "it has left the window"
    assert replays.is_new("peer-1", 1, 5000 - 1022, 0.0)
    assert not replays.is_new("peer-1", 1, 5000, 0.0), "it is still known"


@pytest.mark.parametrize("ahead", [1023, 1024, 1025])
def test_a_leap_forgets_what_is_far_behind(ahead: int) -> None:
    replays = ReplayWindow()
    assert replays.is_new("peer-1", 1, 1, 0.0)
    assert replays.is_new("peer-1", 1, 1 + ahead, 0.0)
    assert not replays.is_new("peer-1", 1, 1, 0.0)
    assert not replays.is_new("peer-1", 1, 1 + ahead, 0.0)
    assert replays.is_new("peer-1", 1, ahead, 0.0)


def test_an_older_boot_is_heard_after_thirty_quiet_seconds() -> None:
    replays = ReplayWindow()
    assert replays.is_new("peer-1", 20, 1, 0.0)
    assert replays.is_new("peer-1", 20, 2, 5.0), "it is heard until then"
    assert not replays.is_new("peer-1", 20, 2, 7.0), "a replay is no sign of life"
    assert not replays.is_new("peer-1", 10, 1, 35.0)
    assert replays.is_new("peer-1", 10, 1, 35.01)
    assert not replays.is_new("peer-1", 10, 1, 36.0)
    assert replays.is_new("peer-1", 20, 3, 36.0), "a newer boot is heard at once"


def test_4096_senders_are_known_and_the_longest_silent_is_forgotten() -> None:
    replays = ReplayWindow()
    for number in range(4096):
        assert replays.is_new(f"process-{number}", 1, 1, 0.0)
    assert not replays.is_new("process-0", 1, 1, 0.0), "known, and heard last"
    assert replays.is_new("one more", 1, 1, 0.0)
    assert replays.is_new("process-1", 1, 1, 0.0), "it was forgotten"
    assert not replays.is_new("process-0", 1, 1, 0.0)


def test_a_replay_after_a_long_silence_is_a_replay() -> None:
    replays = ReplayWindow()
    assert replays.is_new("peer-1", 1, 7, 0.0)
    assert not replays.is_new("peer-1", 1, 7, 3600.0)
    assert not replays.is_new("peer-1", 0, 7, 20.0)


def test_the_memory_of_a_sender_is_bounded() -> None:
    replays = ReplayWindow()
    for counter in (*range(1, 3000), 1 << 63):
        assert replays.is_new("peer-1", 1, counter, 0.0)
        assert replays._seen["peer-1"].bits.bit_length() <= 1024
