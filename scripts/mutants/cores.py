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
    without: frozenset[str] = frozenset()  # what stands in these sources and is not pure

    @property
    def source_paths(self) -> tuple[Path, ...]:
        return tuple(ROOT / "src" / "towpath" / name for name in self.sources)

    @property
    def test_paths(self) -> tuple[Path, ...]:
        return tuple(ROOT / "tests" / "unit" / name for name in self.tests)


CORES = (
    Core("queue moves", ("queue/states.py",), ("test_states.py",)),
    Core(
        "stage machine",
        ("flow/stage/states.py", "flow/stage/machine.py"),
        ("test_flow_pilot.py", "test_flow_pilot_walks.py"),
    ),
    Core(
        "outage detector",
        ("flow/run/outage.py",),
        ("test_flow_judge.py",),
        without=frozenset({"Probe", "Outage"}),
    ),
    Core(
        "policies",
        ("policy.py", "desk/policies/rules.py"),
        ("test_policy.py", "test_policy_delays.py", "test_desk_policies.py"),
        without=frozenset({"AutoEdit", "RuleEdit", "AutoEditor", "marked", "salvaged"}),
    ),
    Core(
        "election",
        ("supervision/election/election.py",),
        ("test_election.py", "test_supervision_roles.py", "test_tenure.py"),
    ),
    Core("watch", ("supervision/coordinator/watch.py",), ("test_watch.py",)),
    Core("packets", ("supervision/election/messages.py", "supervision/election/packet.py"), ("test_packets.py",)),
    Core(
        "delivery ids",
        ("flow/delivery/ids.py", "flow/records/errors.py"),
        ("test_flow_delivery.py", "test_flow_delivered.py"),
        without=frozenset(
            {
                *(
                    "Strategy",
                    "PREFIX",
                    "ORDER",
                    "DELIVERED",
                    "BatchName",
                    "ErrorRecord",
                    "error_records",
                    "gap_record",
                ),
                *("names_of", "_failure", "_headers", "own_headers", "ErrorWriter", "in_portions"),
                *("AT_ONCE", "BYTES_AT_ONCE", "BLOB"),
            }
        ),
    ),
    Core(
        "ledger",
        ("flow/delivery/ledger.py", "flow/delivery/places.py"),
        ("test_flow_ledger_rows.py",),
        without=frozenset(
            {
                *("Ledger", "_name", "_first", "_batch", "DIGITS", "hash_of", "HeldKeys"),
                *("RecordPlace", "BY_BATCH", "FailureHoldings", "PlaceSource"),
            }
        ),
    ),
    Core("positions", ("flow/delivery/positions.py",), ("test_flow_positions.py",)),
    Core("expression", ("core/expression.py",), ("test_policy_expression.py",)),
)
