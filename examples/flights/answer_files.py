"""Answers as lines of CSV, so that those of everybody can be compared byte by byte after sorting."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path

from examples.flights.oracle import Row
from examples.flights.queries import QUERIES

SHOWN = 3


def as_lines(rows: Iterable[Row]) -> list[bytes]:
    """Sorted, without line ends."""
    text = StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return sorted(text.getvalue().encode().splitlines())


def batch_lines(directory: Path) -> dict[str, list[bytes]]:
    """What the plain Spark job has written, by query."""
    return {query: _sorted(sorted((directory / query).glob("part-*.csv"))) for query in QUERIES}


def _sorted(files: Iterable[Path]) -> list[bytes]:
    return sorted(line for file in files for line in file.read_bytes().splitlines())


def differences(expected: Mapping[str, list[bytes]], found: Mapping[str, list[bytes]]) -> list[str]:
    """What is wrong, a sentence for each query; nothing: all lines are equal, and each is there as often."""
    told = []
    for query, lines in expected.items():
        if lines != found.get(query):
            told.append(f"{query}: {_told(lines, found.get(query, []))}")
    return told


def _told(expected: list[bytes], found: list[bytes]) -> str:
    missing, foreign = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    text = f"{len(expected):,} rows expected, {len(found):,} found; {len(missing):,} missing, {len(foreign):,} foreign"
    shown = [f"- {line.decode(errors='replace')}" for line in missing[:SHOWN]]
    shown += [f"+ {line.decode(errors='replace')}" for line in foreign[:SHOWN]]
    return "; ".join([text, *shown])
