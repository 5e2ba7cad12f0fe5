"""How long peers wait for each other. The defaults give a new coordinator within 3 s of the old one's death."""

from __future__ import annotations

from dataclasses import dataclass


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
