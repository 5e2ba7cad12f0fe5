"""The report, for the terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.queue.findings import Finding

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
MARK = "<!-- What follows is written by `make bench-queue ARGS=--write`. -->"
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
        goals = _table("Goals", HEADINGS)
        for finding in self.findings:
            style = "green" if finding.is_met else "red"
            *cells, result = _cells(finding)
            goals.add_row(*cells, f"[{style}]{result}[/{style}]")
        field = _table("Contenders", FIELD_HEADINGS)
        for row in self.field:
            field.add_row(*row)
        results = _table("All results (medians)", self.result_headings)
        for row in self.results:
            results.add_row(*row)
        for table in (goals, field, results):
            console.print(table)
        for failure in self.failures:
            console.print(f"[red]failed[/red] {failure}", markup=True, highlight=False)
        console.print(self.machine, highlight=False)

    def write(self, page: Path) -> None:
        """Write the tables below the mark in a page of the documentation; what people wrote above it stays."""
        above = page.read_text().split(MARK)[0].rstrip() if page.exists() else "# Benchmarks"
        parts = [
            above,
            "",
            MARK,
            "",
            INTRODUCTION,
            "",
            self.machine,
            "",
            *_markdown("Goals", HEADINGS, [_cells(finding) for finding in self.findings]),
            *_markdown("Contenders", FIELD_HEADINGS, self.field),
            *_markdown("All results", self.result_headings, self.results),
            *(f"- failed: {failure}" for failure in self.failures),
        ]
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("\n".join(parts).rstrip() + "\n")


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


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _markdown(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"## {title}", "", _markdown_row(headings), _markdown_row(["---"] * len(headings))]
    return [*lines, *map(_markdown_row, rows), ""]


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
