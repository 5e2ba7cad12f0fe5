"""The plan of the flights chaos: a seed decides it, and everybody is struck."""

from __future__ import annotations

from soak.flights.plan import Plan, Target


def test_the_same_seed_strikes_the_same() -> None:
    assert Plan(40, 7).strikes() == Plan(40, 7).strikes()
    assert Plan(40, 7).strikes() != Plan(40, 8).strikes()


def test_everybody_is_struck() -> None:
    assert {each.target for each in Plan(len(Target), 1).strikes()} == set(Target)
    assert len(Plan(40, 1).strikes()) == 40


def test_clients_send_for_most_of_the_kills() -> None:
    plan = Plan(40, 1, rows=100_000, pause_s=6.0)
    sending_s = 100_500 * 32 / plan.bytes_per_s
    assert 0.7 * 240 < sending_s < 0.8 * 240
