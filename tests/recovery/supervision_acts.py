"""What child processes of the tests of supervision do: `python -m tests.recovery.supervision_acts '{…}'`."""

from __future__ import annotations

import towpath
from towpath.core.logs import configure
from towpath.settings import LoggingSettings
from towpath.supervision.duties import process_control as stopped_watch
from towpath.testing.processes import leave_with_parent, order

LONGEST_S = 300.0


def main() -> None:
    """Coordinate, as `towpath up` does while there is no peer, until this process is killed."""
    leave_with_parent()
    # A coordinator that stands still itself counts silence anew; the watch, which does not, would be faster then.
    stopped_watch.LEASES = 1_000
    configure(LoggingSettings(level="warning"))
    with towpath.connect(**order()["sections"]) as runtime:
        runtime.steward().work(lambda: False, LONGEST_S, lambda: True)


if __name__ == "__main__":
    main()
