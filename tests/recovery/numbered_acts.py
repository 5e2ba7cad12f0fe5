"""What the children of the recovery tests of dropped duplicates do: run the flow to its end, or until death.

python -m tests.recovery.numbered_acts '{"settings": {…}, "home": "…"}'
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support.numbered import orders

import towpath
from towpath.testing.processes import leave_with_parent


def main() -> None:
    order = json.loads(sys.argv[1])
    leave_with_parent()
    with towpath.connect(**order["settings"]) as runtime:
        run = runtime.flow(orders(Path(order["home"])))
        run.start(until_idle=True)
        run.wait()


if __name__ == "__main__":
    main()
