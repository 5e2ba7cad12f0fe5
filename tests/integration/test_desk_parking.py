"""Records of a key in their order: what is parked goes on when the one before it is settled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.sent import STAGE, Sent

from towpath.desk.cases.model import CaseState
from towpath.desk.replay.outbox import Parking
from towpath.runtime import Runtime

KEY, OTHER = "a" * 32, "b" * 32


@pytest.fixture
def sent(make_runtime: Callable[..., Runtime], tmp_path: Path) -> Sent:
    made = Sent.on(make_runtime(log={"url": f"sqlite:///{tmp_path}/log.db"}), "shop")
    made.make_topics()
    return made


@pytest.fixture
def chain(sent: Sent) -> list[str]:
    """An open case and three that are parked, one behind the other."""
    cases = sent.make(1, key_hash=KEY)
    for _ in range(3):
        cases += sent.make(1, key_hash=KEY, state=CaseState.PARKED, behind=cases[-1])
    return cases


def settle(sent: Sent, case: str, to: CaseState = CaseState.ABANDONED) -> list[str]:
    with sent.runtime.database.transaction() as tx:
        assert sent.cases.move(tx, [case], to, who="ann", why="done") == [case]
        return Parking(sent.runtime.database).release(tx, [case])


def behind(sent: Sent, *key_hashes: str) -> dict[tuple[str, str], str]:
    with sent.runtime.database.read() as tx:
        return Parking(sent.runtime.database).behind(tx, "shop", key_hashes)


def test_the_last_of_a_key_is_found(sent: Sent, chain: list[str]) -> None:
    other = sent.make(1, key_hash=OTHER)
    sent.make(1)
    assert behind(sent, KEY, OTHER, "nobody's") == {(STAGE, KEY): chain[-1], (STAGE, OTHER): other[0]}
    assert behind(sent) == {}
    settle(sent, other[0])
    assert behind(sent, OTHER) == {}


def test_one_after_the_other_goes_on(sent: Sent, chain: list[str]) -> None:
    first, *rest = chain
    assert settle(sent, first) == rest[:1]
    assert sent.states() == {"abandoned": 1, "replaying": 1, "parked": 2}
    for number, case in enumerate(rest, 1):
        sent.run_relay()
        assert sent.came_back() == sorted((each, 2) for each in rest[:number]), "the next one has not gone yet"
        assert settle(sent, case, CaseState.RESOLVED) == rest[number : number + 1]


def test_what_is_behind_one_in_the_middle_waits_for_the_one_before(sent: Sent, chain: list[str]) -> None:
    first, second, third, fourth = chain
    assert settle(sent, second) == []
    assert (sent.read(third).state, sent.read(third).behind) == (CaseState.PARKED, first)
    assert sent.read(fourth).behind == third
    assert settle(sent, first) == [third]


def test_a_resend_lets_the_next_go(sent: Sent, chain: list[str]) -> None:
    sent.resend(chain[:1])
    sent.run_relay()
    assert sent.read(chain[0]).state is CaseState.RESENT
    assert sent.read(chain[1]).state is CaseState.REPLAYING
    assert sent.came_back() == [(chain[1], 2)]
