"""What child processes of tests of the gateway do: `python -m tests.recovery.gateway_acts '{…}'`."""

from __future__ import annotations

from tests.support.sending_clients import Client, connected, opened

import towpath
from towpath.core.logs import configure
from towpath.gateway.service import Gateway
from towpath.settings import LoggingSettings
from towpath.testing.processes import leave_with_parent, order

PIECE = 30  # bytes: a few chunks, cut in the middle of lines
LINES = [b'A%d,"stop %d",%d' % (number, number, number) for number in range(12)]
LINES[5] = b"not,a flight"
DATA = b"\n".join(LINES) + b"\n"


def main() -> None:
    leave_with_parent()
    configure(LoggingSettings(level="warning"))
    told = order()
    with towpath.connect(**told["sections"]) as runtime:
        send_all(runtime.gateway, told["upload"])


def send_all(gateway: Gateway, upload: str) -> Client:
    """From the opening to the end, or from wherever another one has come to."""
    opened(gateway, id=upload)
    client = connected(gateway, upload, DATA)
    client.send_all(PIECE)
    client.finish()
    return client


if __name__ == "__main__":
    main()
