"""The data of the flights example: what the numbers promise is there, and a seed decides all of it."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest
from examples.flights import flow as flow_file
from examples.flights.itinerary import SCHEMA as ITINERARY
from examples.flights.oracle import answers, read_airports, read_itineraries, read_lines
from examples.flights.queries import QUERIES
from examples.flights.station import Station
from examples.flights.world.airport import COLUMNS, SCHEMA, all_airports, write_airports
from examples.flights.world.amounts import Amounts
from examples.flights.world.itineraries import BLOCK, SHORTEST, itinerary_lines, write_itineraries
from examples.flights.world.malformed import MALFORMED

from towpath.settings import load

AIRPORTS = all_airports()
AMOUNTS = Amounts(3_000, malformed=21, duplicates=30, implausible=7, unknown=11, ties=13)


def made(seed: int, amounts: Amounts = AMOUNTS) -> bytes:
    return b"".join(itinerary_lines(seed, amounts, AIRPORTS))


def test_airports_come_through_a_file(tmp_path: Path) -> None:
    write_airports(tmp_path / "airports.csv", AIRPORTS)
    assert read_airports(tmp_path / "airports.csv") == {each.code: each[3:] for each in AIRPORTS}
    assert len(AIRPORTS) > 7_000
    assert all(len(each.code) == 3 for each in AIRPORTS)
    assert any("," in each.name for each in AIRPORTS)  # so quotes are needed
    assert [name for name in COLUMNS if f"{name} " not in SCHEMA] == []


def test_what_was_promised_is_there() -> None:
    found = read_lines(made(1).splitlines(keepends=True))
    assert (found.refused, found.duplicates, found.implausible) == (21, 30, 7)
    assert len(found.good) == AMOUNTS.good == 2_993
    assert made(1).count(b"\n") == AMOUNTS.lines == 3_051
    points = {each.code: each[3:] for each in AIRPORTS}
    assert answers(points, found.good).unplaced == 11
    shortest = Counter(each.route for each in found.good if each.duration == SHORTEST)
    assert sum(shortest.values()) == 3 * 13
    assert all(each.stop_count >= 3 for each in found.good if each.duration == SHORTEST)


def test_every_query_has_something_to_answer() -> None:
    points = {each.code: each[3:] for each in AIRPORTS}
    found = answers(points, read_lines(made(2).splitlines(keepends=True)).good).rows
    assert {query: len(rows) > 100 for query, rows in found.items()} == dict.fromkeys(QUERIES, True)


def test_a_seed_decides_everything() -> None:
    assert made(3) == made(3)
    assert made(3) != made(4)


def test_some_ids_come_before_smaller_ones_and_some_duplicates_differ() -> None:
    lines = made(5).splitlines(keepends=True)
    ids = [each.id for each in read_lines(lines).good]
    assert ids != sorted(ids)
    assert max(abs(id - at) for at, id in enumerate(ids)) < 200
    first: dict[bytes, bytes] = {}
    copies = [line != first.setdefault(line.partition(b",")[0], line) for line in lines if line[0:1].isdigit()]
    assert copies.count(True) == 15


def test_files_of_several_blocks_are_whole(tmp_path: Path) -> None:
    amounts = Amounts.of(BLOCK + 1_000)
    write_itineraries(tmp_path / "itineraries.csv", 6, amounts, AIRPORTS)
    found = read_itineraries(tmp_path / "itineraries.csv")
    assert (len(found.good), found.refused, found.duplicates) == (amounts.good, amounts.malformed, amounts.duplicates)
    with (tmp_path / "itineraries.csv").open(newline="", encoding="latin-1") as file:
        assert next(csv.reader(file)) == ["id", "origin", "destination", "stops", "duration", "fare"]


def test_no_rows_are_a_file_too() -> None:
    assert made(7, Amounts(0)) == b""


def test_every_malformed_line_is_refused() -> None:
    for name, line in MALFORMED.items():
        assert read_lines([line(1)]).refused == 1, name


def test_too_much_of_the_special_is_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match=r"\b30\b.*\b10\b"):
        Amounts(30, ties=11)


def test_the_settings_fit_the_flow(tmp_path: Path) -> None:
    """Schemas and names are said in the settings and in the code: they have to be the same."""
    settings = load(file=Station.make(tmp_path).config)
    stream = settings.gateway.streams["flights"]
    assert tuple(stream.results) == QUERIES
    schemas = {name: " ".join(each.ddl.split()) for name, each in stream.inputs.items()}
    assert schemas == {"airports": SCHEMA, "itineraries": ITINERARY}
    stages = {stage.name for stage in flow_file.flow.stages()}
    assert stages == {"flights.airports", "flights.itineraries", "flights.unplaced"}


def test_the_tutorial_shows_the_flow_and_the_settings_as_they_are() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "tutorial" / "flights.md").read_text(encoding="utf-8")
    for language, file in (("python", "flow.py"), ("toml", "towpath.toml")):
        text = (root / "examples" / "flights" / file).read_text(encoding="utf-8")
        blocks = re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        lines = [line for block in blocks for line in block.splitlines()]
        assert len(lines) > 10
        assert [line for line in lines if line not in text.splitlines()] == []
