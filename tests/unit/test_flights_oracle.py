"""The oracle of the flights example on cases that can be worked out by hand, and rules that hold for all."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from math import cos, isclose, pi, radians

import pytest
from examples.flights import distance, queries
from examples.flights.itinerary import Itinerary, count_stops, path_of
from examples.flights.money import is_above_mean, mean_text
from examples.flights.oracle import answers, read_lines
from hypothesis import given
from hypothesis import strategies as st

QUARTER_KM = pi / 2 * distance.EARTH_KM
# On the equator, on the other side of it, and at the pole.
PLACES = {"AAA": (0.0, 0.0), "BBB": (0.0, 1.0), "CCC": (0.0, 90.0), "PPP": (90.0, 0.0)}


def flight(id: int, stops: str = "", duration: int = 60, fare: int = 100, route: str = "AAA-BBB") -> Itinerary:
    origin, _, destination = route.partition("-")
    return Itinerary(id, origin, destination, stops, duration, fare)


def rows(query: str, *flights: Itinerary) -> list[tuple[str | int, ...]]:
    return answers(PLACES, flights).rows[query]


# What a line is


def test_a_line_that_does_not_fit_the_columns_is_refused() -> None:
    lines = [b"1,AAA,BBB,,60\n", b"1,AAA,BBB,,60,100,7\n", b"x,AAA,BBB,,60,100\n", b"1,AAA,BBB,,6.0,100\n"]
    lines += [b"1,AAA,BBB,,60,\n", b"1,A\xff,BBB,,60,100\n", b"\n", b"9223372036854775808,AAA,BBB,,60,100\n"]
    found = read_lines(lines)
    assert (found.refused, found.good, found.duplicates) == (len(lines), [], 0)


def test_of_the_lines_with_one_id_the_first_counts() -> None:
    found = read_lines([b"7,AAA,BBB,,60,100\n", b"8,AAA,BBB,,60,100\n", b"7,AAA,BBB,,60,999\n"])
    assert [each.fare for each in found.good] == [100, 100]
    assert found.duplicates == 1


def test_a_line_that_was_refused_is_not_the_first_of_its_id() -> None:
    assert [each.id for each in read_lines([b"7,AAA,BBB,,60,much\n", b"7,AAA,BBB,,60,100\n"]).good] == [7]


def test_an_implausible_line_is_the_first_of_its_id_and_takes_no_part() -> None:
    found = read_lines([b"7,AAA,BBB,,0,100\n", b"7,AAA,BBB,,60,100\n", b"8,AAA,BBB,,60,-1\n"])
    assert (found.implausible, found.duplicates, found.good) == (2, 1, [])


# Stops


@pytest.mark.parametrize(("stops", "count"), [("", 0), ("AAA", 1), ("AAA|BBB|CCC", 3)])
def test_stops_are_counted(stops: str, count: int) -> None:
    assert count_stops(stops) == count
    assert len(path_of(flight(1, stops)._asdict())) == count + 2


def test_three_stops_are_many_and_two_are_not() -> None:
    assert [row[0] for row in rows(queries.STOPS, flight(1, "CCC|CCC"), flight(2, "CCC|CCC|CCC"))] == [2]


# Detours


def test_distances_on_great_circles() -> None:
    assert isclose(distance.between(PLACES["AAA"], PLACES["CCC"]), QUARTER_KM)
    assert isclose(distance.between(PLACES["AAA"], PLACES["PPP"]), QUARTER_KM)
    assert isclose(distance.between((0.0, 0.0), (0.0, 180.0)), 2 * QUARTER_KM)
    assert distance.between(PLACES["BBB"], PLACES["BBB"]) == 0


@given(st.floats(-89, 89), st.floats(-180, 180), st.floats(-180, 180))
def test_a_way_along_a_parallel_is_no_shorter_than_the_great_circle(latitude: float, one: float, other: float) -> None:
    along = distance.EARTH_KM * cos(radians(latitude)) * min(abs(one - other), 360 - abs(one - other)) * pi / 180
    found = distance.between((latitude, one), (latitude, other))
    assert 0 <= found <= along + 1e-6
    assert isclose(found, distance.between((latitude, other), (latitude, one)), abs_tol=1e-9)


def test_a_detour_is_over_four_times_the_direct_way() -> None:
    """By degrees on the equator: 3 × 1 is none, 5 × 1 is one."""
    assert rows(queries.DETOURS, flight(1, "BBB|AAA")) == []
    [row] = rows(queries.DETOURS, flight(2, "BBB|AAA|BBB|AAA"))
    assert row == (2, "AAA", "BBB", "BBB|AAA|BBB|AAA", 556, 111)


def test_over_is_strict() -> None:
    assert distance.detour([(0.0, 0.0), (0.0, 0.0)]) is None
    assert distance.detour([(0.0, 0.0), (0.0, 1.0), (0.0, 0.0)]) is not None  # any way is longer than none


def test_an_unknown_airport_takes_no_part_in_detours_only() -> None:
    found = answers(PLACES, [flight(1, "BBB|AAA|BBB|QQQ", fare=500), flight(2)])
    assert (found.rows[queries.DETOURS], found.unplaced) == ([], 1)
    assert [row[0] for row in found.rows[queries.STOPS]] == [1]
    assert [row[2] for row in found.rows[queries.FASTEST]] == [1]
    assert found.rows[queries.FARES] == [("AAA", "BBB", "500.00", 500)]


# The fastest


def test_ties_go_to_the_smaller_ids() -> None:
    many = "AAA|BBB|CCC"
    tied = [flight(9, many), flight(3, many), flight(5, many), flight(1, "AAA", duration=1), flight(2, many, 61)]
    assert [row[2] for row in rows(queries.FASTEST, *tied)] == [3, 5]


def test_a_route_with_one_flight_has_one_fastest_and_routes_have_directions() -> None:
    many = "AAA|BBB|CCC"
    found = rows(queries.FASTEST, flight(1, many), flight(2, many, route="BBB-AAA"))
    assert [row[:3] for row in found] == [("AAA", "BBB", 1), ("BBB", "AAA", 2)]


# Fares


def test_fares_above_the_mean_of_all() -> None:
    """The mean of all is 200: 200 is not above it."""
    fares = [flight(1, fare=100), flight(2, fare=200), flight(3, fare=301), flight(4, fare=199, route="CCC-AAA")]
    assert rows(queries.FARES, *fares) == [("AAA", "BBB", "301.00", 301)]


def test_equal_fares_are_not_above_their_mean() -> None:
    assert rows(queries.FARES, flight(1), flight(2)) == []
    assert answers(PLACES, []).rows[queries.FARES] == []


@pytest.mark.parametrize(
    ("total", "count", "text"),
    [
        (1, 8, "0.12"),
        (3, 8, "0.38"),
        (1, 3, "0.33"),
        (2, 3, "0.67"),
        (5, 1, "5.00"),
        (1, 200, "0.00"),
        (3, 200, "0.02"),
    ],
)
def test_means_are_rounded_half_even(total: int, count: int, text: str) -> None:
    assert mean_text(total, count) == text


@given(st.integers(0, 10**15), st.integers(1, 10**7))
def test_means_are_those_of_decimals_with_room_enough(total: int, count: int) -> None:
    exact = Fraction(total, count)
    text = mean_text(total, count)
    assert abs(Fraction(text) - exact) <= Fraction(1, 200)
    if (total * 10**6) % count == 0:  # then a decimal has it without rounding
        whole = Decimal(total * 10**6 // count) / 10**6
        assert text == str(whole.quantize(Decimal("0.01"), ROUND_HALF_EVEN))


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20))
def test_above_the_mean_is_said_without_a_division(fares: list[int]) -> None:
    mean = Fraction(sum(fares), len(fares))
    assert [is_above_mean(fare, sum(fares), len(fares)) for fare in fares] == [fare > mean for fare in fares]


@given(st.permutations([flight(n, "AAA|BBB|CCC", duration=n % 3 + 1, fare=n * 100) for n in range(6)]))
def test_the_order_of_the_lines_decides_nothing(flights: list[Itinerary]) -> None:
    found = answers(PLACES, flights).rows
    expected = answers(PLACES, sorted(flights)).rows
    assert {query: sorted(rows) for query, rows in found.items()} == {
        query: sorted(rows) for query, rows in expected.items()
    }
