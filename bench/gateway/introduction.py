"""What stands above the table."""

from __future__ import annotations


def introduction(rounds: int, lines: int, clients: int, many_s: float, flights: int) -> str:
    return " ".join(
        [
            f"Medians of {rounds} rounds; each turn has an empty database and log.",
            f"One client: `towpath send` with a CSV file of {lines:,} itineraries, from its start to its end,",
            "when every line is checked and durable in the log; nobody reads it meanwhile.",
            f"Many: {clients} such processes, each with a key and an upload of its own. What each has got in is read",
            f"from the database at the beginning and the end of {many_s:g} s in which all are at work.",
            f"Flights: {flights:,} itineraries and all airports of one client through gateway, log, flow, closing",
            "steps and outlet, from the start of `towpath send` to the end of `towpath receive`, beside the same",
            "queries over the same files; the answers of both are compared.",
            "For both, Spark is up before the clock starts.",
        ]
    )
