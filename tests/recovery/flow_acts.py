"""What the children of the flow's recovery tests do: run one flow until there is nothing more to read, or until death.

python -m tests.recovery.flow_acts '{"settings": {…}, "home": "…"}'
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import towpath
from towpath import Flow, expect, files, table, topic
from towpath.testing.processes import leave_with_parent

GOOD, FILTERED, UNMET, RAISING = "good", "filtered", "unmet", "raising"


def orders(home: Path) -> Flow:
    """Two outputs, so that a crash may come between them; schema, expectation, DataFrame step and each step."""
    flow = Flow("orders")

    @flow.step(topic("orders"), schema="n int, kind string")
    @expect("is met", f"kind <> '{UNMET}'")
    def wanted(rows: Any) -> Any:
        return rows.where(f"kind <> '{FILTERED}'")

    @flow.each(wanted)
    def priced(order: dict[str, Any]) -> dict[str, Any]:
        if order["kind"] == RAISING:
            raise ValueError("no price")
        return {**order, "price": 2 * order["n"]}

    flow.load(priced, table("orders", url=f"sqlite:///{home}/out.db"), name="table")
    flow.load(priced, files(str(home / "out")), name="files")
    return flow


def main() -> None:
    order = json.loads(sys.argv[1])
    leave_with_parent()
    with towpath.connect(**order["settings"]) as runtime:
        run = runtime.flow(orders(Path(order["home"])))
        run.start(until_idle=True)
        run.wait()


if __name__ == "__main__":
    main()
