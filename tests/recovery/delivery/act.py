"""What a child does: run the flow of a case until there is nothing more to read, or until death.

python -m tests.recovery.delivery.act '{"settings": {…}, "shape": "single", "strategy": "exactly-once", "target": […]}'
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.recovery.delivery.shapes import BUILT
from tests.recovery.delivery.target import Target
from tests.recovery.delivery.targets import TARGETS

import towpath
from towpath.flow.delivery.ids import Strategy
from towpath.testing.processes import leave_with_parent


def told(target: Target) -> dict[str, Any]:
    """A target as text for a child."""
    values = {name: str(value) if isinstance(value, Path) else value for name, value in vars(target).items()}
    return {"kind": target.kind, **values}


def heard(said: dict[str, Any]) -> Target:
    values = {name: Path(value) if name == "home" else value for name, value in said.items() if name != "kind"}
    return TARGETS[said["kind"]](**values)


def main() -> None:
    order = json.loads(sys.argv[1])
    leave_with_parent()
    flow = BUILT[order["shape"]].build(Strategy(order["strategy"]), heard(order["target"]), heard(order["other"]))
    with towpath.connect(**order["settings"]) as runtime:
        run = runtime.flow(flow)
        run.start(until_idle=True)
        run.wait()


if __name__ == "__main__":
    main()
