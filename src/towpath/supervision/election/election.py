"""Who coordinates: the invitation algorithm, as pure code; and the term as an elected peer may use it.

Peers form groups. Each group has a leader; a leader invites peers that are not in its group; of two leaders that meet
the lower one surrenders with its whole group (`Rank`), so that all who can hear each other end in one group. A peer
that starts again is invited into the group that is there, and nothing is elected anew.

The machine is driven by messages and by readings of a clock, and says what to send. It knows nothing of sockets,
threads or the database; `report` tells it under which term this peer acts. docs/explanation/supervision.md tells why it
does what it does; the chart of roles in docs/reference/supervision-states.md is held equal to `MOVES`.

`Tenure` says what to ask the database about the term and when, and until when an answer counts. The lease goes by the
database's time. The local clock only makes a peer stop sooner: it counts the lease from before the question, and takes
a tenth off for clocks that do not run alike.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from towpath.supervision.election.messages import (
    Accept,
    Invite,
    LeaderChange,
    MemberHeartbeat,
    Message,
    Ok,
    Rank,
    Reject,
    Send,
)

QUESTIONS_KEPT = 8  # for each peer: the newest ones may still be answered
CLOCKS_DIFFER = 0.1  # part of the lease


class PeerRole(StrEnum):
    """What a peer is in its group."""

    ELECTING = "electing"  # it invites the others, and leads whoever has accepted so far
    MEMBER = "member"  # it follows a leader and asks it for signs of life
    COORDINATOR = "coordinator"  # it leads a group, and acts while it holds the term


class RoleMove(StrEnum):
    """What can happen to a peer. The value is the label of its arrow in the chart."""

    LEAD = "all have answered or had their time"
    SURRENDER = "met a higher rank"
    FOLLOW = "sent to another leader"
    MISS = "leader silent or leads no more"
    RESIGN = "cannot act and another could"


@dataclass(frozen=True, slots=True)
class RoleArrow:
    """One move: from which roles, to which."""

    sources: tuple[PeerRole, ...]
    target: PeerRole


_ELECTING, _MEMBER, _COORDINATOR = PeerRole


MOVES: dict[RoleMove, RoleArrow] = {
    RoleMove.LEAD: RoleArrow((_ELECTING,), _COORDINATOR),
    RoleMove.SURRENDER: RoleArrow((_ELECTING, _COORDINATOR), _MEMBER),
    RoleMove.FOLLOW: RoleArrow((_MEMBER,), _MEMBER),
    RoleMove.MISS: RoleArrow((_MEMBER,), _ELECTING),
    RoleMove.RESIGN: RoleArrow((_COORDINATOR,), _ELECTING),
}


class Election:
    """One peer's part in the election."""

    def __init__(self, me: int, peers: Collection[int], timing: Timing, rng: random.Random, now: float) -> None:
        """A peer that has just started; `peers` are the numbers of all of them."""
        self.me = me
        self.peers = frozenset(peers) - {me}
        self.role = PeerRole.ELECTING
        self.term = 0  # under which this peer acts, or its coordinator does
        self.is_fit = True
        self._timing = timing
        self._rng = rng
        self._acting = 0
        self._leader: int | None = None
        self._followers: dict[int, float] = {}  # who follows me, and when I heard from it
        self._asked: dict[int, tuple[int, float]] = {}  # question: whom and when
        self._question = rng.getrandbits(32)  # an answer to a question before the restart is not one to ours
        self._alive_at = now  # my leader was alive then
        self._patience_s = 0.0
        self._tries = 0
        self._next = now

    @property
    def coordinator(self) -> int | None:
        """Whom this peer follows, itself if it leads; none while it elects."""
        return self._leader

    @property
    def members(self) -> frozenset[int]:
        """Who is in the group that this peer leads, itself among them; of others' groups it knows the leader only."""
        if self.role is PeerRole.MEMBER:
            return frozenset({self.me} if self._leader is None else {self.me, self._leader})
        return frozenset({self.me, *self._followers})

    @property
    def rank(self) -> Rank:
        return Rank(self._acting, self.is_fit, 1 + len(self._followers), self.me)

    def report(self, term: int, is_fit: bool) -> None:
        """Say under which term this peer acts (0: none), and whether it could: whether it reaches the database."""
        self._acting = term
        self.is_fit = is_fit
        if self.role is PeerRole.COORDINATOR:
            self.term = term

    def next_tick(self, now: float) -> float:
        """When `tick` is due."""
        return max(now, self._next)

    def tick(self, now: float) -> list[Send]:
        """What time has brought: to be called when due; calls before do no harm."""
        if now < self._next:
            return []
        if self.role is PeerRole.MEMBER:
            return self._tick_member(now)
        if self.role is PeerRole.ELECTING:
            return self._tick_electing(now)
        return self._tick_coordinator(now)

    def receive(self, sender: int, message: Message, now: float) -> list[Send]:
        """What another peer has said, and what to answer. Who is no peer is not listened to."""
        if sender not in self.peers:
            return []
        match message:
            case Invite():
                return self._invited(sender, message, now)
            case Accept():
                return self._accepted(sender, message, now)
            case Reject():
                return self._rejected(sender, message, now)
            case LeaderChange():
                return self._told_of_change(sender, message, now)
            case MemberHeartbeat():
                return self._asked_for_life(sender, message, now)
            case Ok():
                return self._heard_life(sender, message)
        return []

    def leave(self) -> list[Send]:
        """This peer stops: its followers need not wait until they miss it. They follow the highest of them."""
        if not self._followers:
            return []
        heir = max(self._followers)
        return [Send(peer, LeaderChange(heir)) for peer in self._followers]

    # Each handler below answers one kind of message, in every role.

    def _invited(self, sender: int, invite: Invite, now: float) -> list[Send]:
        if self.role is PeerRole.MEMBER:
            if sender == self._leader:  # it has lost sight of me
                return [self._ask(sender, now, accept=())]
            return [Send(sender, Reject(invite.question, self._leader))]
        self._followers.pop(sender, None)  # one that invites follows nobody
        if self._is_above_me(invite.rank):
            return self._surrender(sender, now)
        return [Send(sender, Reject(invite.question, self.me, self.rank))]

    def _accepted(self, sender: int, accept: Accept, now: float) -> list[Send]:
        if self.role is PeerRole.MEMBER:
            return [Send(sender, Reject(accept.question, self._leader))]
        for peer in (sender, *accept.members):
            if peer in self.peers:
                self._followers[peer] = now
        if self.role is PeerRole.ELECTING and len(self._followers) == len(self.peers):
            return self._lead(now)
        return []

    def _rejected(self, sender: int, reject: Reject, now: float) -> list[Send]:
        asked = self._asked.get(reject.question)
        if asked is None or asked[0] != sender:
            return []
        if self.role is PeerRole.MEMBER:
            return self._sent_away(sender, reject.leader, now)
        if reject.leader == sender:
            if reject.rank is not None and self._is_above_me(reject.rank):
                return self._surrender(sender, now)
            return []
        if reject.leader in self.peers and reject.leader not in self._followers:
            return self._invite_unless_asked(reject.leader, now)
        return []

    def _told_of_change(self, sender: int, change: LeaderChange, now: float) -> list[Send]:
        if self.role is not PeerRole.MEMBER or sender != self._leader:
            return []
        self._alive_at = now
        return self._sent_away(sender, change.leader, now)

    def _asked_for_life(self, sender: int, heartbeat: MemberHeartbeat, now: float) -> list[Send]:
        if self.role is PeerRole.MEMBER:
            return [Send(sender, Reject(heartbeat.question, self._leader))]
        if self.role is PeerRole.COORDINATOR and not self._acting and not self.is_fit and heartbeat.is_fit:
            return [Send(sender, Reject(heartbeat.question, None)), *self._resign(now)]
        if self.role is PeerRole.ELECTING and sender not in self._followers:  # it follows what I was before
            return [Send(sender, Reject(heartbeat.question, None))]
        self._followers[sender] = now
        return [Send(sender, Ok(heartbeat.question, self._acting))]

    def _heard_life(self, sender: int, ok: Ok) -> list[Send]:
        asked = self._asked.get(ok.question)
        if self.role is PeerRole.MEMBER and sender == self._leader and asked is not None and asked[0] == sender:
            self._alive_at = max(self._alive_at, asked[1])  # an answer proves life at the time of its question
            self.term = ok.term
        return []

    # What time brings, by role.

    def _tick_electing(self, now: float) -> list[Send]:
        if self._tries >= self._timing.invite_tries:
            return self._lead(now)
        self._tries += 1
        self._next = now + self._spread(self._timing.invite_s)
        return self._invite_strangers(now)

    def _tick_member(self, now: float) -> list[Send]:
        if now - self._alive_at > self._patience_s:
            return self._miss(now)
        return self._ask_leader(now)

    def _tick_coordinator(self, now: float) -> list[Send]:
        for peer, heard_at in list(self._followers.items()):
            if now - heard_at > self._timing.election_timeout_s:
                del self._followers[peer]
        self._next = now + self._spread(self._timing.reinvite_s)
        return self._invite_strangers(now)

    # The moves of `MOVES`.

    def _move(self, move: RoleMove) -> None:
        assert self.role in MOVES[move].sources, f"{move} is no move of {self.role}"  # noqa: S101 - a bug, not input
        self.role = MOVES[move].target

    def _lead(self, now: float) -> list[Send]:
        self._move(RoleMove.LEAD)
        self._leader = self.me
        self.term = self._acting
        self._followers = dict.fromkeys(self._followers, now)
        self._next = now + self._spread(self._timing.reinvite_s)
        return []

    def _surrender(self, to: int, now: float) -> list[Send]:
        """Join another's group with all who follow me; each of them is told, in every surrender."""
        self._move(RoleMove.SURRENDER)
        mine = tuple(sorted(self._followers.keys() - {to}))
        self._followers = {}
        self._asked = {}
        self._leader = to
        self._alive_at = now
        self._patience_s = self._spread(self._timing.election_timeout_s)
        sends = [self._ask(to, now, accept=mine), *(Send(peer, LeaderChange(to)) for peer in mine)]
        return [*sends, *self._ask_leader(now)]

    def _sent_away(self, sender: int, leader: int | None, now: float) -> list[Send]:
        if sender != self._leader:
            return []
        if leader is None or leader not in self.peers:  # none leads, or I am to, or one that I do not know
            return self._miss(now)
        self._move(RoleMove.FOLLOW)
        self._leader = leader
        return self._ask_leader(now)

    def _miss(self, now: float) -> list[Send]:
        self._move(RoleMove.MISS)
        return self._elect(now)

    def _resign(self, now: float) -> list[Send]:
        self._move(RoleMove.RESIGN)
        return self._elect(now)

    def _elect(self, now: float) -> list[Send]:
        self._leader = None
        self._followers = {}
        self._asked = {}
        self._tries = 0
        self._next = now
        return []

    # Questions.

    def _invite_strangers(self, now: float) -> list[Send]:
        return [self._invite(peer, now) for peer in sorted(self.peers - self._followers.keys())]

    def _invite_unless_asked(self, peer: int, now: float) -> list[Send]:
        """Ask a leader of whom another told me, unless I have just done so."""
        if any(to == peer and now - at < self._timing.invite_s for to, at in self._asked.values()):
            return []
        return [self._invite(peer, now)]

    def _invite(self, peer: int, now: float) -> Send:
        return Send(peer, Invite(self._new_question(peer, now), self.rank))

    def _ask(self, peer: int, now: float, accept: tuple[int, ...]) -> Send:
        return Send(peer, Accept(self._new_question(peer, now), accept))

    def _ask_leader(self, now: float) -> list[Send]:
        assert self._leader is not None  # noqa: S101 - a member has a leader
        self._next = now + self._spread(self._timing.heartbeat_s)
        return [Send(self._leader, MemberHeartbeat(self._new_question(self._leader, now), self.is_fit))]

    def _new_question(self, peer: int, now: float) -> int:
        self._question = (self._question + 1) & 0xFFFFFFFF
        self._asked[self._question] = (peer, now)
        if len(self._asked) > QUESTIONS_KEPT * len(self.peers):
            del self._asked[next(iter(self._asked))]
        return self._question

    def _is_above_me(self, rank: Rank) -> bool:
        """Overridden by a broken twin of the simulation, which must be caught."""
        return rank > self.rank

    def _spread(self, seconds: float) -> float:
        part = self._timing.jitter
        return seconds * self._rng.uniform(1 - part, 1 + part)


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of the election and of the term; every wait is spread by `jitter`, so that peers do not move in step."""

    election_timeout_s: float = 1.0  # a member elects when its coordinator has proved no life for this long
    heartbeat_s: float = 0.25  # how often a member asks its coordinator
    invite_s: float = 0.1  # an electing peer asks again who has not answered
    invite_tries: int = 3  # and so often in all, then it leads whoever has accepted
    reinvite_s: float = 0.5  # a coordinator asks again who is not in its group
    lease_s: float = 2.0  # of the term, by the database's time
    renew_s: float = 0.4  # how often the coordinator renews it, or tries to take it
    jitter: float = 0.2  # part of a wait by which it is longer or shorter

    def __post_init__(self) -> None:
        if self.election_timeout_s < 3 * self.heartbeat_s:
            raise ValueError(
                "election_timeout_s must be at least three heartbeats, or one lost packet starts an election"
            )
        if self.lease_s < 3 * self.renew_s:
            raise ValueError("lease_s must be at least three times renew_s, or one slow statement loses the term")
        if not 0 <= self.jitter < 1:
            raise ValueError("jitter is a part of a wait: from 0 to less than 1")


class Ask(Enum):
    """What a peer has to ask the database about the term."""

    TAKE = auto()
    RENEW = auto()
    RELEASE = auto()  # it has surrendered to another, which need not wait for the end of the lease
    READ = auto()  # it is a member, and wants to know whether it could act


class Tenure:
    """Which term this peer holds, by what the database has answered."""

    def __init__(self, timing: Timing, now: float) -> None:
        self._timing = timing
        self._role = PeerRole.ELECTING
        self._term = 0
        self._until = now
        self._next = now
        self._reached_at = now

    def term(self, now: float) -> int:
        """The term under which this peer may act; 0: none."""
        return self._term if now < self._until else 0

    def is_fit(self, now: float) -> bool:
        """Whether it reaches the database: it has had an answer within the last lease."""
        return now - self._reached_at < self._timing.lease_s

    def due(self, role: PeerRole, now: float) -> Ask | None:
        """What to ask now; a new role is a reason not to wait."""
        if role is not self._role:
            self._role, self._next = role, now
        if now < self._next:
            return None
        if role is PeerRole.COORDINATOR:
            return Ask.RENEW if self.term(now) else Ask.TAKE
        return Ask.RELEASE if self.term(now) else Ask.READ

    def granted(self, term: int, asked_at: float) -> None:
        """Taken or renewed, by a statement that was begun at `asked_at`."""
        self._term = term
        self._until = asked_at + self._timing.lease_s * (1 - CLOCKS_DIFFER)
        self._answered(asked_at, self._timing.renew_s)

    def refused(self, asked_at: float) -> None:
        """Another holds it, or the lease was over, or it is released now."""
        self._term = 0
        self._answered(asked_at, self._timing.renew_s / 2)

    def read(self, asked_at: float) -> None:
        """The database has answered a member."""
        self._answered(asked_at, self._timing.lease_s / 2)

    def not_reached(self, now: float) -> None:
        """No answer came; the term is kept as long as its lease lasts."""
        self._next = now + self._timing.renew_s / 2

    def _answered(self, asked_at: float, rest_s: float) -> None:
        self._reached_at = max(self._reached_at, asked_at)
        self._next = asked_at + rest_s
