"""The parts of `make bench-gateway` that decide what is measured, and what it is worth."""

from __future__ import annotations

from bench.findings import Samples
from bench.gateway import goals, roster
from bench.gateway.findings import gateway_finding
from bench.gateway.introduction import introduction
from bench.gateway.lines import Log, Measure, Part, lines
from bench.gateway.sending import rates

EVERYTHING = lines(tuple(Part), tuple(Log), clients=50, rows=1_000_000)


def test_every_measure_is_in_a_row() -> None:
    assert {measure for row in EVERYTHING for measure in row.measures} == set(Measure)


def test_the_goals_are_those_that_were_set() -> None:
    assert goals.MB_PER_MINUTE == {"SQLITE": 100, "KAFKA": 300}
    assert goals.TIMES_THE_BATCH_JOB == 3


def test_a_figure_that_is_missing_is_missed() -> None:
    assert not any(gateway_finding(row, Samples()).is_met for row in EVERYTHING)


def test_rates_are_shown_in_their_unit_and_held_to_their_goal() -> None:
    row = next(row for row in EVERYTHING if row.ours is Measure.ONE_SQLITE)
    for rate, is_met in ((99.0, False), (100.0, True)):
        samples = Samples()
        samples.add(Measure.ONE_SQLITE, [rate])
        found = gateway_finding(row, samples)
        assert (found.towpath, found.is_met) == (f"{rate:.0f} MB/min", is_met)


def test_a_client_that_starves_is_seen() -> None:
    assert rates([0, 10], [1_000_000, 10], 60.0) == (1.0, 0.0)
    assert rates([0, 0], [2_000_000, 1_000_000], 60.0) == (3.0, 0.5)
    row = next(row for row in EVERYTHING if row.ours is Measure.SHARE_KAFKA)
    samples = Samples()
    samples.add(Measure.SHARE_KAFKA, [0.49])
    assert (gateway_finding(row, samples).towpath, gateway_finding(row, samples).is_met) == ("0.49", False)


def test_flights_are_compared_with_the_batch_job_of_the_same_round() -> None:
    [row] = lines((Part.FLIGHTS,), (Log.SQLITE,), 50, 1_000)
    samples = Samples()
    for ours, batch in ((30.0, 10.0), (31.0, 10.0), (62.0, 20.0)):
        samples.add(Measure.FLIGHTS, [ours])
        samples.add(Measure.BATCH_JOB, [batch])
    assert (gateway_finding(row, samples).ratio, gateway_finding(row, samples).is_met) == ("3.10", False)


def test_the_introduction_and_the_roster_say_who_and_how_much() -> None:
    assert "50 such processes" in introduction(5, 2_000_000, 50, 30.0, 1_000_000)
    assert [row[0] for row in roster.rows(tuple(Part), {"Apache Kafka": "4.3.1"})] == [
        "Towpath",
        "plain Spark job",
        "Apache Kafka",
    ]
