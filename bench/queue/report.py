"""The report, for the terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.page import write_section
from bench.queue.findings import Finding
from bench.tables import markdown, table

HEADINGS = (
    "operation",
    "store and durability",
    "processes",
    "Towpath",
    "fastest peer",
    "ratio",
    "goal",
    "result",
)
COMMAND = "make bench-queue"
INTRODUCTION = """\
Rates are messages per second, the median of interleaved rounds.
Every contender runs with the same number of processes and the same durability, on a fresh store, with the
same message of about 100 bytes. A drain counts a message when it is claimed and durably acknowledged, and
is checked: nothing may be lost, repeated or left. Round trips start from idle, one request every 200 ms;
for a queue without results they end when the worker sees the message."""
FIELD_HEADINGS = ("contender", "store", "settings", "contract")


@dataclass(frozen=True)
class Report:
    """What was found, by whom and on what machine."""

    findings: Sequence[Finding]
    field: Sequence[Sequence[str]]
    result_headings: Sequence[str]
    results: Sequence[Sequence[str]]
    failures: Sequence[str]
    machine: str

    @property
    def is_met(self) -> bool:
        """Whether every figure is reached."""
        return not self.failures and all(finding.is_met for finding in self.findings)

    def print(self, console: Console) -> None:
        """Show the tables in a terminal."""
        goals = table("Goals", HEADINGS)
        for finding in self.findings:
            style = "green" if finding.is_met else "red"
            *cells, result = _cells(finding)
            goals.add_row(*cells, f"[{style}]{result}[/{style}]")
        field = table("Contenders", FIELD_HEADINGS)
        for row in self.field:
            field.add_row(*row)
        results = table("All results (medians)", self.result_headings)
        for row in self.results:
            results.add_row(*row)
        for shown in (goals, field, results):
            console.print(shown)
        for failure in self.failures:
            console.print(f"[red]failed[/red] {failure}", markup=True, highlight=False)
        console.print(self.machine, highlight=False)

    def write(self, page: Path) -> None:
        """Write the tables into a page of the documentation."""
        parts = [
            INTRODUCTION,
            "",
            self.machine,
            "",
            *markdown("Goals", HEADINGS, [_cells(finding) for finding in self.findings]),
            *markdown("Contenders", FIELD_HEADINGS, self.field),
            *markdown("All results", self.result_headings, self.results),
            *(f"- failed: {failure}" for failure in self.failures),
        ]
        write_section(page, COMMAND, parts)


def _cells(finding: Finding) -> list[str]:
    return [
        finding.operation,
        finding.setting,
        str(finding.processes),
        finding.towpath,
        finding.peer,
        finding.ratio,
        finding.goal,
        "met" if finding.is_met else "missed",
    ]
