"""What one peer answers to each message in each role. How many of them behave together is the simulator's business."""

from __future__ import annotations

import random
from dataclasses import asdict

import pytest

from towpath.supervision.election.election import Election, PeerRole, Timing
from towpath.supervision.election.messages import (
    Accept,
    Invite,
    LeaderChange,
    MemberHeartbeat,
    Message,
    Ok,
    Ping,
    Rank,
    Reject,
    Send,
)

TIMING = Timing(jitter=0.0)
NOW = 100.0


def electing(me: int = 2, peers: int = 3) -> Election:
    return Election(me, range(1, peers + 1), TIMING, random.Random(7), NOW)


def coordinator(me: int = 2, peers: int = 3, term: int = 0, followers: tuple[int, ...] = ()) -> Election:
    election = electing(me, peers)
    now = NOW
    while election.role is PeerRole.ELECTING:
        now = election.next_tick(now)
        election.tick(now)
    for follower in followers:
        election.receive(follower, Accept(1, ()), now)
    election.report(term, is_fit=True)
    return election


def member(me: int = 2, leader: int = 3, peers: int = 3) -> Election:
    election = electing(me, peers)
    election.receive(leader, Invite(1, Rank(0, True, 2, leader)), NOW)
    assert (election.role, election.coordinator) == (PeerRole.MEMBER, leader)
    return election


def roles(election: Election, *times: float) -> list[PeerRole]:
    """What it is after each tick."""
    found = []
    for now in times:
        election.tick(now)
        found.append(election.role)
    return found


def only(sends: list[Send], to: int) -> list[Message]:
    return [send.message for send in sends if send.to == to]


def test_a_peer_that_starts_invites_all_others() -> None:
    election = electing()
    sends = election.tick(NOW)
    assert [send.to for send in sends] == [1, 3]
    assert all(isinstance(send.message, Invite) and send.message.rank == Rank(0, True, 1, 2) for send in sends)
    assert (election.role, election.coordinator) == (PeerRole.ELECTING, None)


def test_it_asks_three_times_and_then_leads_whoever_has_accepted() -> None:
    election = electing()
    rounds = [election.tick(NOW)]
    election.receive(3, Accept(1, ()), NOW + 0.01)
    for _ in range(5):
        rounds.append(election.tick(election.next_tick(NOW)))
    assert [[send.to for send in sends] for sends in rounds[:4]] == [[1, 3], [1], [1], []]
    assert (election.role, election.coordinator, election.members) == (PeerRole.COORDINATOR, 2, frozenset({2, 3}))


def test_it_leads_at_once_when_all_have_accepted() -> None:
    election = electing()
    election.tick(NOW)
    election.receive(3, Accept(1, (1,)), NOW + 0.01)
    assert (election.role, election.members) == (PeerRole.COORDINATOR, frozenset({1, 2, 3}))


def test_a_peer_without_others_leads_itself() -> None:
    election = coordinator(me=1, peers=1)
    assert (election.role, election.coordinator, election.members) == (PeerRole.COORDINATOR, 1, frozenset({1}))
    assert election.tick(election.next_tick(NOW)) == []


@pytest.mark.parametrize(
    ("rank", "is_joined"),
    [
        (Rank(0, True, 1, 3), True),  # equal sizes: the higher number
        (Rank(0, True, 1, 1), False),
        (Rank(0, True, 2, 1), True),  # the larger group
        (Rank(0, False, 5, 3), False),  # one that cannot act is no leader, however large its group
        (Rank(4, True, 1, 1), True),  # one that acts is above all that do not
    ],
)
def test_of_two_leaders_the_lower_one_surrenders(rank: Rank, is_joined: bool) -> None:
    for election in (electing(), coordinator()):
        sends = election.receive(rank.peer, Invite(9, rank), NOW + 1)
        if is_joined:
            assert (election.role, election.coordinator) == (PeerRole.MEMBER, rank.peer)
            assert [type(message) for message in only(sends, rank.peer)] == [Accept, MemberHeartbeat]
        else:
            assert election.role is not PeerRole.MEMBER
            assert only(sends, rank.peer) == [Reject(9, 2, election.rank)]


@pytest.mark.parametrize("acting", [True, False])
def test_who_acts_does_not_surrender_to_a_larger_group_that_does_not(acting: bool) -> None:
    """Without this, members that were killed together and came back would vote their living coordinator out."""
    election = coordinator(me=1, term=5 if acting else 0)
    election.receive(3, Invite(9, Rank(0, True, 2, 3)), NOW + 1)
    assert election.role is (PeerRole.COORDINATOR if acting else PeerRole.MEMBER)


def test_a_newer_term_is_above_an_older_one() -> None:
    election = coordinator(term=5, followers=(1, 3))
    election.receive(1, Invite(9, Rank(6, True, 1, 1)), NOW + 1)
    assert election.coordinator == 1


@pytest.mark.parametrize("is_invited", [True, False])
def test_everybody_is_told_of_a_surrender(is_invited: bool) -> None:
    """Whether it was invited, or its own invitation was rejected by a higher leader."""
    election = coordinator(me=2, peers=5, followers=(1, 4))
    above = Rank(0, True, 9, 3)
    if is_invited:
        sends = election.receive(3, Invite(9, above), NOW + 1)
    else:
        asked = election.tick(election.next_tick(NOW))
        question = next(send.message.question for send in asked if send.to == 3 and isinstance(send.message, Invite))
        sends = election.receive(3, Reject(question, 3, above), NOW + 1)
    assert only(sends, 1) == only(sends, 4) == [LeaderChange(3)]
    accept = only(sends, 3)[0]
    assert isinstance(accept, Accept)
    assert accept.members == (1, 4)


def test_a_rejection_by_a_lower_leader_is_no_reason_to_surrender() -> None:
    election = electing()
    asked = election.tick(NOW)
    invite = only(asked, 1)[0]
    assert isinstance(invite, Invite)
    assert election.receive(1, Reject(invite.question, 1, Rank(0, True, 1, 1)), NOW) == []
    assert election.role is PeerRole.ELECTING


def test_a_member_tells_who_leads_and_the_leader_is_invited() -> None:
    assert member().receive(1, Invite(9, Rank(0, True, 7, 1)), NOW) == [Send(1, Reject(9, 3))]
    election = electing(me=1, peers=4)
    asked = election.tick(NOW)
    invite = only(asked, 2)[0]
    assert isinstance(invite, Invite)
    assert election.receive(2, Reject(invite.question, 3), NOW + 0.01) == []  # it was invited a moment ago
    sends = election.receive(2, Reject(invite.question, 3), NOW + 0.2)
    assert [type(message) for message in only(sends, 3)] == [Invite]


def test_a_member_that_its_own_leader_invites_accepts_again() -> None:
    sends = member().receive(3, Invite(9, Rank(0, True, 1, 3)), NOW)
    assert [type(send.message) for send in sends] == [Accept]


def test_who_invites_follows_nobody() -> None:
    """It was started again: its old place in my group says nothing any more, and must not make my group larger."""
    election = coordinator(me=1, followers=(2, 3))
    election.receive(2, Invite(9, Rank(0, True, 1, 2)), NOW + 1)
    assert election.members == {1, 3}


@pytest.mark.parametrize("message", [Accept(9, ()), MemberHeartbeat(9, True)])
def test_who_is_not_coordinator_names_the_leader(message: Message) -> None:
    assert member().receive(1, message, NOW) == [Send(1, Reject(9, 3))]


def test_one_that_was_started_again_sends_its_old_followers_away() -> None:
    election = electing()
    assert election.receive(1, MemberHeartbeat(9, True), NOW) == [Send(1, Reject(9, None))]
    election.receive(1, Accept(1, ()), NOW)
    assert election.receive(1, MemberHeartbeat(10, True), NOW) == [Send(1, Ok(10, 0))]  # it follows me in this election


def test_a_coordinator_answers_heartbeats_with_its_term_and_knows_who_follows() -> None:
    election = coordinator(term=7)
    assert election.receive(3, MemberHeartbeat(9, True), NOW + 1) == [Send(3, Ok(9, 7))]
    assert election.members == {2, 3}


def test_a_follower_that_is_silent_is_invited_again() -> None:
    """Upstream forgot about peers that once did not answer."""
    election = coordinator(followers=(1, 3))
    now = election.next_tick(NOW)
    assert election.tick(now) == []
    now += TIMING.election_timeout_s + 0.1
    assert [type(send.message) for send in election.tick(now)] == [Invite, Invite]
    assert election.members == {2}


def test_a_member_asks_for_life_and_elects_when_its_leader_is_silent() -> None:
    election = member()
    asked, now = 0, NOW
    while election.role is PeerRole.MEMBER:
        now = election.next_tick(now)
        asked += len(election.tick(now))
    assert asked == 4  # every quarter of a second
    assert now - NOW == pytest.approx(TIMING.election_timeout_s + TIMING.heartbeat_s, abs=0.3)
    assert (election.role, election.coordinator) == (PeerRole.ELECTING, None)


def test_an_answer_proves_life_at_the_time_of_its_question() -> None:
    """A late OK must not save a dead coordinator."""
    election = member()
    now = election.next_tick(NOW)
    question = election.tick(now)[0].message
    assert isinstance(question, MemberHeartbeat)
    late = now + TIMING.election_timeout_s + 0.01
    election.receive(3, Ok(question.question, 4), late)
    assert election.term == 4
    election.tick(late)
    assert election.role is PeerRole.ELECTING


@pytest.mark.parametrize(("sender", "is_known"), [(1, True), (3, False)])
def test_an_answer_to_nothing_that_was_asked_counts_for_nothing(sender: int, is_known: bool) -> None:
    election = member()
    now = election.next_tick(NOW)
    question = election.tick(now)[0].message
    assert isinstance(question, MemberHeartbeat)
    election.receive(sender, Ok(question.question if is_known else 12345, 4), now)
    assert election.term == 0


def test_a_member_follows_its_leader_to_another_and_nobody_else() -> None:
    election = member()
    assert election.receive(1, LeaderChange(1), NOW) == []
    assert election.coordinator == 3
    sends = election.receive(3, LeaderChange(1), NOW)
    assert (election.role, election.coordinator) == (PeerRole.MEMBER, 1)
    assert [(send.to, type(send.message)) for send in sends] == [(1, MemberHeartbeat)]


def test_a_member_that_is_sent_round_in_circles_elects_after_its_time() -> None:
    election = member()
    now = NOW
    while election.role is PeerRole.MEMBER:
        now = election.next_tick(now)
        for send in election.tick(now):
            leader = 1 if send.to == 3 else 3
            assert isinstance(send.message, MemberHeartbeat)
            election.receive(send.to, Reject(send.message.question, leader), now)
    assert now - NOW < 2 * TIMING.election_timeout_s


@pytest.mark.parametrize("leader", [None, 2])
def test_a_member_whose_leader_leads_no_more_elects_at_once(leader: int | None) -> None:
    election = member()
    question = election.tick(election.next_tick(NOW))[0].message
    assert isinstance(question, MemberHeartbeat)
    election.receive(3, Reject(question.question, leader), NOW)
    assert election.role is PeerRole.ELECTING


def test_a_coordinator_without_database_makes_way_for_one_that_has_it() -> None:
    election = coordinator(followers=(1, 3))
    election.report(0, is_fit=False)
    assert election.receive(1, MemberHeartbeat(8, is_fit=False), NOW) == [Send(1, Ok(8, 0))]
    assert election.receive(1, MemberHeartbeat(9, is_fit=True), NOW) == [Send(1, Reject(9, None))]
    assert election.role is PeerRole.ELECTING


def test_one_that_leaves_says_whom_to_follow() -> None:
    assert coordinator(followers=(1, 3)).leave() == [Send(1, LeaderChange(3)), Send(3, LeaderChange(3))]
    heir = member(me=3, leader=2)
    heir.receive(2, LeaderChange(3), NOW)
    assert heir.role is PeerRole.ELECTING
    assert coordinator().leave() == []


def test_strangers_and_pings_are_not_listened_to() -> None:
    election = electing()
    assert election.receive(99, Invite(1, Rank(9, True, 9, 99)), NOW) == []
    assert election.receive(1, Ping(1), NOW) == []
    election.receive(3, Accept(1, (1, 99, 2)), NOW)
    assert election.members == {1, 2, 3}


def test_a_tick_before_its_time_does_nothing() -> None:
    election = electing()
    election.tick(NOW)
    assert election.tick(NOW + 0.01) == []


def test_the_first_to_be_invited_by_a_coordinator_waits_its_time() -> None:
    """A coordinator asks strangers every half second, not at once."""
    election = electing()
    election.tick(NOW)
    election.receive(3, Accept(1, (1,)), NOW + 0.01)
    assert election.next_tick(NOW) == pytest.approx(NOW + 0.01 + 0.5)
    now = election.next_tick(NOW)
    election.tick(now)
    assert election.next_tick(now) == pytest.approx(now + 0.5)


def test_an_electing_peer_asks_every_tenth_of_a_second() -> None:
    election = electing()
    assert election.next_tick(NOW - 5) == NOW
    assert election.next_tick(NOW + 5) == NOW + 5
    for number in range(3):
        election.tick(NOW + number * 0.1001)
        assert election.next_tick(NOW) == pytest.approx(NOW + number * 0.1001 + 0.1)
    assert roles(election, NOW + 0.21, NOW + 0.5) == [PeerRole.ELECTING, PeerRole.COORDINATOR]


def test_followers_count_from_the_moment_it_leads() -> None:
    """Whoever accepted early in a long election is not taken for silent at its end."""
    election = electing()
    election.tick(NOW)
    election.receive(3, Accept(1, ()), NOW)
    while election.role is PeerRole.ELECTING:
        election.tick(election.next_tick(NOW))
    led_at = election.next_tick(NOW) - TIMING.reinvite_s
    election.tick(led_at + TIMING.election_timeout_s)
    assert election.members == {2, 3}, "just in time"
    election.tick(led_at + TIMING.election_timeout_s + TIMING.reinvite_s + 0.01)
    assert election.members == {2}


def test_a_heartbeat_keeps_a_follower() -> None:
    election = coordinator(followers=(1, 3))
    now = election.next_tick(NOW)
    election.receive(3, MemberHeartbeat(9, True), now)
    election.tick(now + TIMING.election_timeout_s)
    assert election.members == {2, 3}


def test_a_group_is_as_large_as_its_members() -> None:
    assert coordinator().rank == Rank(0, True, 1, 2)
    assert coordinator(term=4, followers=(1, 3)).rank == Rank(4, True, 3, 2)
    assert member().members == {2, 3}
    assert electing().members == {2}


def test_the_term_is_what_is_reported_while_it_leads() -> None:
    election = electing()
    election.report(6, is_fit=True)
    assert election.term == 0, "it leads nobody"
    election.tick(NOW)
    election.receive(3, Accept(1, (1,)), NOW)
    assert election.term == 6
    election.report(7, is_fit=False)
    assert (election.term, election.is_fit) == (7, False)
    follower = member()
    follower.report(8, is_fit=True)
    assert follower.term == 0, "its coordinator has not told one"


def test_who_has_surrendered_has_no_followers_and_no_open_questions() -> None:
    election = coordinator(me=2, peers=5, followers=(1, 4))
    asked = election.tick(election.next_tick(NOW))
    question = next(send.message.question for send in asked if isinstance(send.message, Invite))
    election.receive(3, Invite(9, Rank(0, True, 9, 3)), NOW + 1)
    assert election.members == {2, 3}
    assert election.leave() == []
    assert election.receive(5, Reject(question, 3), NOW + 1) == []
    assert election.receive(3, Ok(question, 12), NOW + 1) == []
    assert election.term == 0


def test_the_new_leader_is_not_told_of_itself() -> None:
    """It had followed before it was started again."""
    election = coordinator(me=2, followers=(1, 3))
    sends = election.receive(3, Invite(9, Rank(9, True, 1, 3)), NOW + 1)
    assert [type(message) for message in only(sends, 3)] == [Accept, MemberHeartbeat]
    assert only(sends, 1) == [LeaderChange(3)]
    accept = only(sends, 3)[0]
    assert isinstance(accept, Accept)
    assert accept.members == (1,)


def test_a_rejection_without_a_rank_or_of_an_unknown_leader_changes_nothing() -> None:
    election = electing(me=1, peers=4)
    invite = only(election.tick(NOW), 2)[0]
    assert isinstance(invite, Invite)
    later = NOW + 0.5
    assert election.receive(2, Reject(invite.question, 2), later) == []
    assert election.receive(2, Reject(invite.question, None), later) == []
    assert election.receive(2, Reject(invite.question, 99), later) == []
    assert election.receive(3, Reject(invite.question, 4), later) == [], "it was not asked that"
    election.receive(4, Accept(1, ()), later)
    assert election.receive(2, Reject(invite.question, 4), later) == [], "it follows me already"
    assert election.role is PeerRole.ELECTING


def test_a_leader_of_whom_it_is_told_is_asked_after_a_tenth_of_a_second() -> None:
    election = electing(me=1, peers=4)
    invite = only(election.tick(NOW), 2)[0]
    assert isinstance(invite, Invite)
    assert election.receive(2, Reject(invite.question, 3), NOW + 0.0999) == []
    [send] = election.receive(2, Reject(invite.question, 3), NOW + 0.1001)
    assert send.to == 3


def test_who_is_sent_to_a_stranger_or_to_itself_elects() -> None:
    for leader in (2, 99):
        election = member()
        election.receive(3, LeaderChange(leader), NOW)
        assert (election.role, election.coordinator) == (PeerRole.ELECTING, None)


def test_who_is_told_of_a_change_knows_that_its_leader_lived() -> None:
    election = member()
    election.receive(3, LeaderChange(1), NOW + 0.9)
    assert roles(election, NOW + 1.5, NOW + 2.5) == [PeerRole.MEMBER, PeerRole.ELECTING]


def test_who_is_told_of_a_change_by_a_stranger_knows_nothing_of_its_leader() -> None:
    election = member()
    assert election.receive(1, LeaderChange(1), NOW + 0.9) == []
    assert roles(election, NOW + 1.3) == [PeerRole.ELECTING]


def test_who_surrenders_late_waits_as_long_for_its_new_leader() -> None:
    election = coordinator()
    election.receive(3, Invite(9, Rank(0, True, 9, 3)), NOW + 5)
    assert roles(election, NOW + 5.9, NOW + 6.2) == [PeerRole.MEMBER, PeerRole.ELECTING]


def test_a_former_leader_cannot_send_it_away() -> None:
    election = member()
    question = election.tick(election.next_tick(NOW))[0].message
    assert isinstance(question, MemberHeartbeat)
    election.receive(3, LeaderChange(1), NOW + 0.3)
    assert election.receive(3, Reject(question.question, None), NOW + 0.4) == []
    assert (election.role, election.coordinator) == (PeerRole.MEMBER, 1)


def test_an_answer_to_a_question_of_a_member_is_none_when_it_elects() -> None:
    election = member()
    question = election.tick(election.next_tick(NOW))[0].message
    assert isinstance(question, MemberHeartbeat)
    election.receive(3, LeaderChange(2), NOW + 0.3)
    assert election.role is PeerRole.ELECTING
    assert election.receive(3, Reject(question.question, 3, Rank(9, True, 9, 3)), NOW + 0.4) == []
    assert election.coordinator is None


def test_who_resigns_begins_anew() -> None:
    election = coordinator(followers=(1, 3))
    election.report(0, is_fit=False)
    now = NOW + 0.31  # before it would have asked again
    election.receive(1, MemberHeartbeat(9, is_fit=True), now)
    assert election.members == {2}
    assert election.next_tick(now) == now
    asked = []
    while election.role is PeerRole.ELECTING:
        asked.append([send.to for send in election.tick(election.next_tick(now))])
    assert asked == [[1, 3], [1, 3], [1, 3], []]


def test_each_leader_of_whom_it_is_told_has_a_time_of_its_own() -> None:
    timing = Timing(jitter=0.0, invite_s=0.125)
    election = Election(1, range(1, 5), timing, random.Random(7), NOW)
    invite = only(election.tick(NOW), 2)[0]
    assert isinstance(invite, Invite)

    def invited(leader: int, now: float) -> list[int]:
        return [send.to for send in election.receive(2, Reject(invite.question, leader), now)]

    assert invited(3, NOW + 0.0625) == []
    assert invited(3, NOW + 0.125) == [3]
    assert invited(4, NOW + 0.1875) == [4], "that another was asked just now is no matter"
    assert invited(3, NOW + 0.1875) == []


def test_one_that_accepts_is_told_nothing() -> None:
    election = electing()
    assert election.receive(1, Accept(1, ()), NOW) == []
    assert election.receive(3, Accept(1, ()), NOW) == [], "also when it is the last one"


def test_a_leader_that_has_a_database_or_acts_does_not_make_way() -> None:
    for term, is_fit in ((5, False), (5, True), (0, True)):
        election = coordinator(term=term, followers=(1, 3))
        election.report(term, is_fit=is_fit)
        assert election.receive(1, MemberHeartbeat(8, is_fit=True), NOW) == [Send(1, Ok(8, term))]


def test_who_elects_makes_way_for_nobody() -> None:
    election = electing()
    election.report(0, is_fit=False)
    election.receive(1, Accept(1, ()), NOW)
    assert election.receive(1, MemberHeartbeat(8, is_fit=True), NOW) == [Send(1, Ok(8, 0))]


def test_an_old_answer_proves_less_than_a_newer_one() -> None:
    election = member()
    first = election.tick(election.next_tick(NOW))[0].message
    second = election.tick(election.next_tick(NOW))[0].message
    assert isinstance(first, MemberHeartbeat)
    assert isinstance(second, MemberHeartbeat)
    election.receive(3, Ok(second.question, 4), NOW + 0.6)  # asked at half a second
    election.receive(3, Ok(first.question, 4), NOW + 0.6)  # asked at a quarter
    assert roles(election, NOW + 1.45, NOW + 1.75) == [PeerRole.MEMBER, PeerRole.ELECTING]


def test_a_member_waits_exactly_its_time() -> None:
    election = member()
    assert roles(election, NOW + 1.0, NOW + 1.25 + 0.01) == [PeerRole.MEMBER, PeerRole.ELECTING]


def test_an_answer_of_another_is_no_sign_of_life_of_the_leader() -> None:
    election = member(peers=4)
    question = election.tick(election.next_tick(NOW))[0].message
    assert isinstance(question, MemberHeartbeat)
    election.receive(4, Ok(question.question, 9), NOW + 0.3)
    assert election.term == 0


def test_only_the_newest_questions_may_be_answered() -> None:
    """Eight for each other peer: an answer that is later than that is to nothing."""
    election = member()
    questions = []
    now = NOW
    for _ in range(17):
        now = election.next_tick(now)
        message = election.tick(now)[0].message
        assert isinstance(message, MemberHeartbeat)
        questions.append(message.question)
        election.receive(3, Ok(message.question, 1), now)
    assert len(set(questions)) == 17
    election.receive(3, Ok(questions[0], 5), now)
    assert election.term == 1, "forgotten"
    election.receive(3, Ok(questions[1], 6), now)
    assert election.term == 6


def test_questions_begin_elsewhere_after_a_restart_and_stay_32_bits() -> None:
    """So that an answer to a question before the restart is not one to ours."""
    first, second = (Election(2, range(1, 4), TIMING, random.Random(seed), NOW).tick(NOW) for seed in (1, 2))
    asked = [send.message for send in (*first, *second)]
    numbers = [message.question for message in asked if isinstance(message, Invite)]
    assert len(set(numbers)) == 4
    assert max(numbers) > 1 << 16
    assert numbers[1] == numbers[0] + 1


class Last(random.Random):
    """Draws the highest number that there is."""

    def getrandbits(self, k: int) -> int:
        return (1 << k) - 1


def test_after_the_last_question_comes_the_first() -> None:
    asked = Election(2, range(1, 4), TIMING, Last(), NOW).tick(NOW)
    assert [send.message.question for send in asked if isinstance(send.message, Invite)] == [0, 1]


def test_waits_are_spread() -> None:
    waits = []
    for seed in range(200):
        election = Election(2, range(1, 4), Timing(), random.Random(seed), NOW)
        election.tick(NOW)
        waits.append(election.next_tick(NOW) - NOW)
    assert 0.08 <= min(waits) < 0.085
    assert 0.115 < max(waits) <= 0.12


def test_the_times_are_those_of_the_documentation() -> None:
    """A new coordinator within three seconds of the old one's death: a second to miss it, two for its lease."""
    assert asdict(Timing()) == {
        "election_timeout_s": 1.0,
        "heartbeat_s": 0.25,
        "invite_s": 0.1,
        "invite_tries": 3,
        "reinvite_s": 0.5,
        "lease_s": 2.0,
        "renew_s": 0.4,
        "jitter": 0.2,
    }


@pytest.mark.parametrize(
    "right", [{"election_timeout_s": 0.75}, {"renew_s": 0.5, "lease_s": 1.5}, {"jitter": 0.0}, {"jitter": 0.99}]
)
def test_times_that_just_work(right: dict[str, float]) -> None:
    Timing(**right)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"jitter": -0.01},
        {"renew_s": 0.7},
        {"election_timeout_s": 0.74},
        {"heartbeat_s": 0.5},
        {"renew_s": 1.0},
        {"jitter": 1.0},
        {"election_timeout_s": 0.5},
    ],
)
def test_times_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"renew_s|jitter|election_timeout_s"):
        Timing(**wrong)  # type: ignore[arg-type]
