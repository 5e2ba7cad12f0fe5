"""What a server refuses, as the command would have said it here, and what to do about it."""

from __future__ import annotations

from towpath.errors import GatewayRefused, SenderReplaced, ServerRefused

NO_API = "it does not answer commands; `towpath console` and `towpath api run` do, `towpath gateway run` does not"
UNKNOWN_PATH = "not_found"  # of what is there, but not known, the code says what it is: unknown_case


def refused(error: GatewayRefused | SenderReplaced, url: str) -> ServerRefused:
    if isinstance(error, SenderReplaced):
        return ServerRefused(409, "session_replaced", str(error))
    return ServerRefused(error.status, error.code, _told(error, url))


def _told(error: GatewayRefused, url: str) -> str:
    if not error.code:
        return f"{url} {error.message}"
    if error.code == UNKNOWN_PATH:
        return f"{url}: {NO_API}"
    if error.status == 401:
        return f"{url}: {error.message}; the key is that of the variable TOWPATH_KEY or of --key-file"
    if error.code == "not_allowed":
        return f"{error.message}; `towpath key make` makes one, and `towpath user role` gives a role"
    return error.message
