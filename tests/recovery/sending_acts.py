"""What the children of the tests of relay and replayer do: `python -m tests.recovery.sending_acts '{…}'`."""

from __future__ import annotations

from tests.support.sent import Sent

import towpath
from towpath.core.logs import configure
from towpath.desk.replay import outbox as sending_parts
from towpath.desk.replay import replayer as lane_run
from towpath.settings import LoggingSettings
from towpath.testing.clock import wait_until
from towpath.testing.processes import leave_with_parent, order

SETTLE_S = 45.0
PORTION = 4


def main() -> None:
    """Send all that is to be sent, and release all that is due."""
    leave_with_parent()
    configure(LoggingSettings(level="warning"))
    told = order()
    # Small portions, so that a handful of records passes a point more than once.
    sending_parts.SMALL_PORTION = sending_parts.LARGE_PORTION = lane_run.PORTION = PORTION
    with towpath.connect(**told["sections"]) as runtime:
        sent = Sent.on(runtime, told["flow"])
        wait_until(lambda: _has_nothing_left(sent), SETTLE_S, "nothing to send and nothing due")
        sent.relay.on_stop()
        sent.replayer.on_stop()


def _has_nothing_left(sent: Sent) -> bool:
    """All lanes are this process's, the dead one's too, and there is nothing to do, also once all of it is seen."""
    if sent.work() or sent.outbox() or len(sent.replayer.lanes) < len(sent.runtime.lanes.list(sent.flow)):
        return False
    sent.settle()  # not sooner: what the dead one has left open is settled by whoever opens its producers
    return not sent.work()


if __name__ == "__main__":
    main()
