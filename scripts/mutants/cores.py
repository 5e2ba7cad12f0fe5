"""The pure cores: which sources belong to each, and which unit tests have to notice a fault in them.

This is the one place that says so. A core has no database, no Spark, no process and no clock of its own, so hundreds of
faults a minute can be tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOAL = 0.80  # of the faults in each core, not on average


@dataclass(frozen=True, slots=True)
class Core:
    """Sources below src/towpath, and tests below tests/unit."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def source_paths(self) -> tuple[Path, ...]:
        return tuple(ROOT / "src" / "towpath" / name for name in self.sources)

    @property
    def test_paths(self) -> tuple[Path, ...]:
        return tuple(ROOT / "tests" / "unit" / name for name in self.tests)


CORES = (
    Core("queue moves", ("queue/state.py",), ("test_states.py",)),
    Core(
        "pilot",
        ("flow/pilot/state.py", "flow/pilot/pilot.py", "flow/pilot/telling.py", "flow/pilot/waits.py"),
        ("test_flow_pilot.py", "test_flow_pilot_walks.py"),
    ),
    Core("judge", ("flow/judge.py",), ("test_flow_judge.py",)),
    Core(
        "policies",
        ("policy.py", "delays.py", "desk/policies.py", "desk/decision.py"),
        ("test_policy.py", "test_policy_delays.py", "test_desk_policies.py"),
    ),
    Core(
        "election",
        (
            "supervision/messages.py",
            "supervision/role.py",
            "supervision/timing.py",
            "supervision/election.py",
            "supervision/tenure.py",
        ),
        ("test_election.py", "test_supervision_roles.py", "test_tenure.py"),
    ),
    Core("watch", ("supervision/watch.py",), ("test_watch.py",)),
    Core(
        "packets",
        ("supervision/codec.py", "supervision/packet.py", "supervision/replays.py"),
        ("test_packets.py",),
    ),
    Core(
        "delivery ids",
        ("flow/delivery.py", "flow/delivered.py"),
        ("test_flow_delivery.py", "test_flow_delivered.py"),
    ),
    Core(
        "ledger",
        ("flow/ledger_row.py", "flow/batch_counts.py", "flow/units.py"),
        ("test_flow_ledger_rows.py",),
    ),
    Core("positions", ("flow/positions.py",), ("test_flow_positions.py",)),
    Core("expression", ("expression.py", "expression_parser.py"), ("test_policy_expression.py",)),
)
