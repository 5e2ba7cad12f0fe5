"""How a message reaches people, and the clock that ends what takes too long."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from towpath.errors import BadSettings
from towpath.notify.digest import Digest


class Channel(Protocol):
    """One way to people."""

    def send(self, message_id: str, found: Digest) -> None:
        """Deliver it, or raise `NotDelivered`; the same id again is the same message."""


@contextmanager
def cut_off_after(seconds: float, sock: Callable[[], socket.socket | None]) -> Iterator[None]:
    """End the connection when its time is over: a socket's own timeout starts anew with each byte that drips in."""
    is_cut = threading.Event()

    def cut() -> None:
        is_cut.set()
        found = sock()
        if found is not None:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if is_cut.is_set():
            raise TimeoutError("cut off") from error
        raise
    finally:
        timer.cancel()
    if is_cut.is_set():
        raise TimeoutError("cut off")  # what was read until then may look like an answer


def tls(ca_file: str) -> ssl.SSLContext:
    """Certificates and names are checked, always."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:  # also a file that holds none
        raise BadSettings(f"notify.ca_file: {ca_file}: {error.strerror or 'holds no certificate'}") from error
