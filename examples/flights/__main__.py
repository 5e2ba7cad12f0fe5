"""`python -m examples.flights`: clients send flights, get four answers each, and all answers are compared."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from pathlib import Path

from examples.flights.client import Client
from examples.flights.exhibition import everything_up, make_clients, run_all, wait_for_cases
from examples.flights.show import say, table
from examples.flights.station import CommandFailed, Station
from examples.flights.verdict import judge
from examples.flights.world.amounts import Amounts

from towpath.errors import TowpathError

DEFAULT = Path(".flights")
MARK = ".flights-example"
MOST_S = 3_600.0
LOOK_S = 0.5


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 1 when an answer is not what it must be."""
    given = _parser().parse_args(arguments)
    home = given.home.absolute()
    if home.exists() and not (home / MARK).exists():  # it is emptied
        sys.stderr.write(f"{home} is no directory of this example; take another --home\n")
        return 2
    try:
        return _run(home, given)
    except (TowpathError, CommandFailed, TimeoutError) as error:
        sys.stderr.write(f"{error}\nsettings, databases and logs: {home}\n")
        return 1


def _run(home: Path, given: argparse.Namespace) -> int:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / MARK).touch()
    station = Station.make(home, database=given.database or "", log=given.log or "")
    station.towpath("schema", "upgrade")
    amounts = Amounts.of(given.rows)
    say(f"seed {given.seed}: {given.clients} clients with {amounts.lines:,} lines each")
    clients = make_clients(station, given.clients, given.seed, amounts)
    say(f"starting everything in {home}")
    with everything_up(station):
        took_s = run_all(clients, lambda: time.sleep(LOOK_S), MOST_S)
        say(f"all clients have their answers after {took_s:.0f} s; comparing")
        wait_for_cases(station, given.clients * (amounts.malformed + amounts.implausible + amounts.unknown))
        return _tell(station, clients)


def _tell(station: Station, clients: list[Client]) -> int:
    verdict = judge(station, clients)
    say(table(("client", "query", "expected", "received"), verdict.rows))
    for problem in verdict.problems:
        sys.stderr.write(f"✗ {problem}\n")
    if verdict.holds:
        say("✓ all answers equal the oracle's, and every line is in one place")
    return 0 if verdict.holds else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.flights",
        description="Clients send itineraries of flights at the same time and get four answers each.",
    )
    parser.add_argument("--rows", type=int, default=20_000, help="itineraries of each client (%(default)s)")
    parser.add_argument("--clients", type=int, default=3, help="how many at once (%(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="decides all data; printed")  # noqa: S311
    parser.add_argument("--home", type=Path, default=DEFAULT, help="where everything is kept (%(default)s)")
    parser.add_argument("--database", help="elsewhere, such as postgresql://user@host/name")
    parser.add_argument("--log", help="elsewhere, such as kafka://host:9092")
    return parser


if __name__ == "__main__":
    sys.exit(main())
