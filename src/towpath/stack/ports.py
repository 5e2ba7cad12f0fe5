"""Ports on the loopback interface."""

from __future__ import annotations

import secrets
import socket

from towpath.errors import ServerFailed

HOST = "127.0.0.1"
LOWEST, HIGHEST = 15_000, 32_000
TRIES = 100


def free_port(*but: int) -> int:
    """A port that nobody uses now, and that stays free while its server is down for a moment; none of `but`.

    The ports that the system itself gives out (from 32768 on Linux) do not: any client of anything takes one of them
    for its end of a connection.
    """
    for _ in range(TRIES):
        port = LOWEST + secrets.randbelow(HIGHEST - LOWEST)
        if port not in but and _is_free(port):
            return port
    raise ServerFailed(f"no free port was found between {LOWEST} and {HIGHEST}")


def require_free(name: str, port: int) -> None:
    """Raise `ServerFailed` when somebody else listens on the port that a server is to have."""
    try:
        _try(port)
    except PermissionError as error:
        raise ServerFailed(f"{name}: port {port} needs root; choose one above 1023: --port {name}=N") from error
    except OSError as error:
        raise ServerFailed(
            f"{name}: port {port} is in use by another program; choose another: --port {name}=N (0: any free one)"
        ) from error


def _is_free(port: int) -> bool:
    try:
        _try(port)
    except OSError:
        return False
    return True


def _try(port: int) -> None:
    with socket.socket() as probe:
        # Without it a port counts as used for a minute after its last connection has ended.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
