"""The report of a benchmark with rows of one kind, for the terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.findings import Finding
from bench.page import write_section
from bench.tables import markdown, table

HEADINGS = ("operation", "where", "Towpath", "peer", "ratio", "goal", "result")
PEER_HEADINGS = ("who", "version", "settings and contract")


@dataclass(frozen=True)
class Report:
    """What was found, by whom and on what machine."""

    title: str
    command: str
    findings: Sequence[Finding]
    peers: Sequence[Sequence[str]]
    failures: Sequence[str]
    introduction: str
    machine: str

    @property
    def is_met(self) -> bool:
        """Whether every figure is reached."""
        return not self.failures and all(finding.is_met for finding in self.findings)

    def print(self, console: Console) -> None:
        """Show the tables in a terminal."""
        goals = table(self.title, HEADINGS)
        for finding in self.findings:
            style = "green" if finding.is_met else "red"
            *cells, result = _cells(finding)
            goals.add_row(*cells, f"[{style}]{result}[/{style}]")
        peers = table("Who took part", PEER_HEADINGS)
        for row in self.peers:
            peers.add_row(*row)
        for shown in (goals, peers):
            console.print(shown)
        for failure in self.failures:
            console.print(f"[red]failed[/red] {failure}", highlight=False)
        console.print(self.machine, highlight=False)

    def write(self, page: Path) -> None:
        """Write the tables into a page of the documentation."""
        first, *rest = markdown(self.title, HEADINGS, [_cells(finding) for finding in self.findings])
        lines = [
            *(first, "", self.introduction, "", self.machine, *rest),
            *markdown(f"{self.title}: who took part", PEER_HEADINGS, self.peers),
            *(f"- failed: {failure}" for failure in self.failures),
        ]
        write_section(page, self.command, lines)


def _cells(finding: Finding) -> list[str]:
    result = "met" if finding.is_met else "missed"
    if finding.goal == "none":
        result = "measured" if finding.is_met else "failed"
    return [finding.operation, finding.place, finding.towpath, finding.peer, finding.ratio, finding.goal, result]
