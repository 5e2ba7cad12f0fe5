"""`towpath demo`, for real: Spark, every kind of fault, and a table from which anybody can tell what happened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT_S = 200

TABLE = """
events of the shop              sent  loaded  filtered  failed  code  what it means
orders and views               1,531   1,531         -       -
heartbeats                     2,000       -     2,000       -
larger than 1 MiB                  2       -         -       2     4  larger than the flow's limit
not UTF-8                         40       -         -      40     7  not UTF-8, or not JSON
JSON that was cut off             60       -         -      60     7  not UTF-8, or not JSON
a field twice                     30       -         -      30     7  not UTF-8, or not JSON
two records in one                30       -         -      30     7  not UTF-8, or not JSON
no value at all                   20       -         -      20     7  not UTF-8, or not JSON
a text where a number belongs     80       -         -      80     8  schema or expectation not met
a field missing                   50       -         -      50     8  schema or expectation not met
a negative quantity               70       -         -      70     8  schema or expectation not met
a product without a price         60       -         -      60     9  a step failed on it
freezes its function               1       -         -       1     9  a step failed on it
kills its worker                   1       -         -       1     9  a step failed on it
a number the sink cannot hold     25       -         -      25    12  refused by the sink
all                            4,000   1,531     2,000     469
"""


@pytest.mark.timeout(TIMEOUT_S + 20)  # a machine that does other things too takes its time
@pytest.mark.part("guides")
def test_every_event_is_in_exactly_one_place(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "towpath", "demo", "--events", "4000", "--keep", str(tmp_path / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    table, _, rest = done.stdout.lstrip("\n").partition("\n\n")
    assert [line.rstrip() for line in table.splitlines()] == TABLE.strip("\n").splitlines()
    assert rest.startswith("✓ ")
