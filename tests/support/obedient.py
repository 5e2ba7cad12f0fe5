"""A child that does what its order says, for tests of how children are started and how they end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.testing.clock import wait_for_handler
from towpath.testing.processes import leave_with_parent, order


def main() -> None:
    told = order()
    if "leave" in told:
        leave_with_parent()
    said = (os.getcwd(), os.environ.get("TOWPATH_LOG__URL"), os.environ.get("COLOUR"), __name__)
    sys.stdout.write(" ".join(map(str, said)) + "\n")
    sys.stdout.flush()
    match told["act"]:
        case "end":
            sys.exit(told["code"])
        case "raise":
            raise ValueError("as told")
        case "pass":
            crash.here(CrashPoint.BATCH_LOADED)
        case "wait":
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
            signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored below a shell's background job
            Path(told["ready"]).touch()
            wait_for_handler(threading.Event())


if __name__ == "__main__":
    main()
