"""Is every answer what it must be? What was received beside the oracle's, and the books of the flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from examples.flights.answer_files import as_lines, differences
from examples.flights.client import Client
from examples.flights.oracle import Answers, Read
from examples.flights.station import FLOW, CommandFailed, Station

from towpath.desk.cases.model import CaseSelection
from towpath.runtime import Runtime

PAGE = 1000
UNKNOWN_AIRPORT = "unplaced"  # the step in which an itinerary with an unknown airport fails


@dataclass
class Verdict:
    """Rows for people, and sentences about what is wrong."""

    rows: list[tuple[str, str, int, int]] = field(default_factory=list)  # client, query, expected, received
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems


def judge(station: Station, clients: Sequence[Client]) -> Verdict:
    """Answers of all clients, cases of the desk, and the balance of the flow."""
    verdict = Verdict()
    told = {client.name: client.expected() for client in clients}
    for client in clients:
        _answers(client, told[client.name][1], verdict)
    with station.connect() as runtime:
        verdict.problems += _cases(runtime, [*told.values()])
    verdict.problems += audit(station)
    return verdict


def _answers(client: Client, expected: Answers, verdict: Verdict) -> None:
    lines = {query: as_lines(rows) for query, rows in expected.rows.items()}
    received = client.received()
    verdict.rows += [(client.name, query, len(rows), len(received[query])) for query, rows in lines.items()]
    verdict.problems += [f"{client.name}: {each}" for each in differences(lines, received)]


def _cases(runtime: Runtime, told: Sequence[tuple[Read, Answers]]) -> list[str]:
    """Every line that is no itinerary is a case, and every one with an unknown airport: no more and no fewer."""
    found = cases_by_step(runtime)
    unplaced = found.pop(UNKNOWN_AIRPORT, 0)
    expected = sum(read.refused + read.implausible for read, _ in told)
    problems = []
    if found.total() != expected:
        problems.append(f"{expected:,} lines are no good itineraries, and {found.total():,} are cases: {dict(found)}")
    if unplaced != (wanted := sum(answers.unplaced for _, answers in told)):
        problems.append(f"{wanted:,} itineraries have an unknown airport, and {unplaced:,} are cases for that")
    return problems


def cases_by_step(runtime: Runtime, flow: str = "flights") -> Counter[str]:
    found: Counter[str] = Counter()
    before = None
    while True:
        page = runtime.desk.cases.page(CaseSelection(flow=flow), limit=PAGE, before=before)
        found.update(case.step or "" for case in page.cases)
        if page.next is None:
            return found
        before = page.next


def audit(station: Station) -> list[str]:
    """What `towpath audit` finds wrong."""
    try:
        said = station.json("audit", "flights", "--deep", FLOW)
    except CommandFailed as error:
        return [str(error)]
    found = [f"audit: {each['kind']} in {each['stage']}: {each['found']}" for each in said["problems"]]
    return found if said["is_balanced"] or found else ["audit: the flow does not balance"]
