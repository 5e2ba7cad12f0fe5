"""The port that the HTTP interface listens on."""

from __future__ import annotations

import socket
from contextlib import closing

from towpath.settings import ApiSettings
from towpath.web.server import listen


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """Of a connection that somebody has opened: it has it from the port."""
    with (
        closing(listen(ApiSettings(port=0))) as listening,
        closing(socket.create_connection(listening.getsockname()[:2], timeout=10)),
        closing(listening.accept()[0]) as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
