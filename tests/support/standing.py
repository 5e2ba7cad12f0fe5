"""A child that stands where a driver would: says that it is active, and waits for SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from towpath.testing.clock import wait_for_handler
from towpath.testing.processes import leave_with_parent, order


def main() -> None:
    leave_with_parent()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    told = order()
    # As Spark's Java process, a child of its own that ends when its standard input does.
    subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    Path(told["active"], str(os.getpid())).touch()
    wait_for_handler(stop)


if __name__ == "__main__":
    main()
