"""How much of everything there is in a file of itineraries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Amounts:
    """Numbers that a test can count on. `rows` are different itineraries; lines come on top of them."""

    rows: int
    malformed: int = 0  # lines that are no itinerary, added
    duplicates: int = 0  # lines with the id of an earlier one, added: every second one differs in its fare
    implausible: int = 0  # rows that take no time
    unknown: int = 0  # rows with a stop at an airport that nobody knows
    ties: int = 0  # groups of three rows with the same route and the same, shortest duration

    def __post_init__(self) -> None:
        special = self.duplicates + self.implausible + self.unknown + self.ties
        if min(self.rows, self.malformed, special) < 0 or special > self.rows // 3:
            raise ValueError(
                f"{self.rows} rows have room for {max(0, self.rows) // 3} duplicates, implausible rows, unknown "
                f"airports and ties, not for {special}"
            )

    @classmethod
    def of(cls, rows: int) -> Amounts:
        """A little of everything: some of each in a thousand."""
        return cls(
            rows,
            malformed=rows // 500,
            duplicates=rows // 250,
            implausible=rows // 1000,
            unknown=rows // 250,
            ties=rows // 250,
        )

    @property
    def lines(self) -> int:
        """Of the file, without its header."""
        return self.rows + self.malformed + self.duplicates

    @property
    def good(self) -> int:
        """Itineraries that take part in the queries."""
        return self.rows - self.implausible
