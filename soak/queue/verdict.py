"""Do the books balance? What producers and workers wrote down, against the complete tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from soak.queue.drill import Outcome
from soak.queue.plan import PRODUCERS, Plan, handled_journal, sent_journal
from towpath.core.events import EventKind
from towpath.queue import MessageState
from towpath.queue.states import TERMINAL
from towpath.testing.queue_ledger import Entry, entries, handled_again, problems


@dataclass(frozen=True)
class Verdict:
    """Rows for people, and what is wrong."""

    rows: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.problems


def judge(plan: Plan, home: Path, outcome: Outcome) -> Verdict:
    said = [entry for slot in range(PRODUCERS) for entry in entries(sent_journal(home, slot))]
    intended = {entry["id"]: entry for entry in said if entry["did"] == "intend"}
    sent = {entry["id"] for entry in said if entry["did"] == "sent"}
    ended = Counter(entry["id"] for entry in said if entry["did"] in ("answered", "died"))
    handled = Counter(e["id"] for slot in range(plan.workers) for e in entries(handled_journal(home, slot)))
    crew, ledger = outcome.crew, outcome.ledger
    gone = crew.killed | crew.gave_up
    wrong = [
        *problems(ledger, sent, handled, gone),
        *(f"message {id_} was intended and never known to be sent" for id_ in intended.keys() - sent),
        *(f"message {m.id} is in the table and was never intended" for m in ledger.asked if m.id not in intended),
        *(f"request {i} has no end for its sender" for i, e in intended.items() if e["request"] and not ended[i]),
        *(f"process {pid} was alive and was declared dead" for pid in sorted(crew.declared_dead)),
    ]
    terminal = sum(message.state in TERMINAL for message in ledger.asked)
    if outcome.schema:
        wrong.append(outcome.schema)
    if outcome.read_again and plan.database == "sqlite":
        wrong.append(f"{outcome.read_again} answers were fetched and still waited")
    if terminal < plan.messages:
        wrong.append(f"only {terminal:,} messages came to an end; {plan.messages:,} were asked for")
    return Verdict(_rows(said, sent, handled, outcome, terminal), tuple(wrong))


def _rows(
    said: list[Entry], sent: set[str], handled: Counter[str], outcome: Outcome, terminal: int
) -> tuple[tuple[str, str], ...]:
    ledger, crew = outcome.ledger, outcome.crew
    again = handled_again(handled)
    freed = ledger.count(EventKind.CLAIM_FREED)
    states = Counter(message.state for message in ledger.asked)
    did = Counter(entry["did"] for entry in said)
    found = sum(entry.get("found", 0) for entry in said)
    return (
        ("sent, by the producers' journals", f"{len(sent):,}"),
        ("in a terminal state, by the tables", f"{terminal:,}"),
        ("states", ", ".join(f"{state} {states[state]:,}" for state in MessageState if states[state])),
        ("sends cut off / found written when sent again", f"{did['cut off']:,} / {found:,}"),
        ("requests answered / died, by the producers", f"{did['answered']:,} / {did['died']:,}"),
        ("answers in the tables / read again after a crash", f"{len(ledger.answers):,} / {outcome.read_again:,}"),
        ("handled once, by the workers' journals", f"{len(handled) - len(again):,}"),
        ("handled more than once", f"{len(again):,}, of which {len(again.keys() & freed.keys()):,} with a freed claim"),
        ("claims freed / given up", f"{freed.total():,} / {ledger.count(EventKind.MESSAGE_GIVEN_UP).total():,}"),
        ("killed", ", ".join(f"{count} {role}s" for role, count in crew.kills.items()) or "nobody"),
        ("of these killed with claims / before they had a row", _how_killed(outcome)),
        ("ended by themselves", f"{len(crew.gave_up)}"),
        ("deaths recorded / processes dead", f"{len(ledger.of_kind(EventKind.PROCESS_DIED))} / {len(ledger.dead)}"),
        ("alive but declared dead", f"{len(crew.declared_dead)}"),
        ("database", "; ".join(outcome.faults)),
        ("duration", f"{outcome.duration_s:.0f} s"),
    )


def _how_killed(outcome: Outcome) -> str:
    """Producers never have a row, and a worker may be killed before it has one."""
    ledger, killed = outcome.ledger, outcome.crew.killed
    holders = {event.data["owner"] for event in ledger.of_kind(EventKind.CLAIM_FREED)}
    known = {process.pid for process in ledger.processes}
    return f"{len(holders)} / {len(killed - known)}"
