"""The plain Spark job of the flights example, beside the oracle: byte by byte after sorting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from examples.flights import batch_job
from examples.flights.answer_files import as_lines, batch_lines, differences
from examples.flights.oracle import answers, read_airports, read_itineraries
from examples.flights.world.airport import all_airports, write_airports
from examples.flights.world.amounts import Amounts
from examples.flights.world.itineraries import write_itineraries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.part("matrix")
def test_the_batch_job_gives_the_answers_of_the_oracle(spark: SparkSession, tmp_path: Path) -> None:
    airports, itineraries = tmp_path / "airports.csv", tmp_path / "itineraries.csv"
    world = all_airports()
    write_airports(airports, world)
    write_itineraries(itineraries, 11, Amounts.of(20_000), world)
    batch_job.run(spark, airports, itineraries, tmp_path / "found")
    expected = answers(read_airports(airports), read_itineraries(itineraries).good)
    lines = {query: as_lines(rows) for query, rows in expected.rows.items()}
    assert differences(lines, batch_lines(tmp_path / "found")) == []
    assert all(len(rows) > 100 for rows in lines.values())
