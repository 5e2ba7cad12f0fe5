"""The server of `--remote`: a question to its API, and the answer to it.

A connection that is cut leaves open whether a change was made. The same question is asked again, and what would change
something carries an idempotency key: the server does it once and gives the same answer. What it refuses is said as the
command would have said it here. The API writes UTC as `Z` in most of its answers, a command prints `+00:00`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode
from uuid import uuid4

from towpath.cli.context import CliContext, UsageError, say
from towpath.client.connection import (
    FAULT,
    ClientKey,
    Connection,
    HttpAnswer,
    Later,
    ServerAddress,
    ServerRefusal,
    Unreachable,
    check,
    find_key,
)
from towpath.core.exact_json import read_exactly, to_json
from towpath.errors import BadValue, GatewayRefused, SenderReplaced, ServerAway, ServerRefused

API = "/api/v1"
GATEWAY = "/gateway/v1"
WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0)  # before each further try
MOST_AT_ONCE = 1_000  # that the API answers
_ZULU = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
NAMES = frozenset({"at", "since", "until", "first_due", "last_due"})
# What people have sent: it stays as it is.
THEIRS = frozenset({"payload", "headers", "fields", "facts", "data", "value", "template", "rules"})
NO_API = "it does not answer commands; `towpath console` and `towpath api run` do, `towpath gateway run` does not"
UNKNOWN_PATH = "not_found"  # of what is there, but not known, the code says what it is: unknown_case


class RemoteServer:
    """The API of one server, used with one key."""

    def __init__(self, address: ServerAddress, key: ClientKey) -> None:
        self._url = address.url
        self._connection = Connection(address)
        self._key = key

    @classmethod
    def of(cls, given: CliContext) -> RemoteServer:
        try:
            address = ServerAddress(given.remote or "", given.ca_file, given.plain_http, prefix="")
        except BadValue as error:
            raise UsageError(f"--remote: {error}") from None
        return cls(address, find_key(given.key_file))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def look(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Read something; numbers stay as they are written."""
        return _read(self.fetch(path, query))

    def fetch(self, path: str, query: Mapping[str, Any] | None = None) -> bytes:
        """Read something as bytes."""
        return self._ask("GET", _asked(path, query), b"", {}).body

    def count(self, path: str, body: Mapping[str, Any]) -> Any:
        """Ask a question that needs a body and changes nothing."""
        return _read(self._post(path, body, {}))

    def change(self, path: str, body: Mapping[str, Any]) -> Any:
        """Change something, once."""
        return _read(self._post(path, body, {"Idempotency-Key": str(uuid4())}))

    def _post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
        named = {"Content-Type": "application/json", **headers}
        return self._ask("POST", _asked(path, None), to_json(dict(body)).encode(), named).body

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        named = {"Authorization": self._key.header, "User-Agent": "towpath", "Accept-Encoding": "identity", **headers}
        is_asked = False  # a server that was never there is told at once
        for wait_s in (*WAITS_S, None):
            try:
                return _checked(self._connection.ask(method, path, body, named))
            except (GatewayRefused, SenderReplaced) as error:
                raise _refused(error, self._url) from None
            except Later as error:
                is_asked = is_asked or not isinstance(error, Unreachable)
                if wait_s is None or not is_asked:
                    raise self._away(error, is_asked and method != "GET") from None
                say(f"{self._url}: {error}; asking again")
                time.sleep(max(wait_s, min(error.at_least_s, WAITS_S[-1])))
        raise AssertionError  # the last try returns or raises

    def _away(self, error: Later, is_open: bool) -> ServerAway:
        if not is_open:
            return ServerAway(
                f"{self._url} is not there: {error}; does `towpath console` or `towpath api run` run there?"
            )
        return ServerAway(
            f"{self._url} has not answered: {error}; look whether the change was made before you try again"
        )


@dataclass(frozen=True)
class RemotePage:
    """Items, and the cursor of the next page."""

    items: list[Any]
    next: Any


def paged(
    server: RemoteServer, path: str, query: Mapping[str, Any], limit: int | None, by: str, start: Any
) -> RemotePage:
    """As many items as `limit` says, or all."""
    found: list[Any] = []
    cursor = start
    while True:
        some = MOST_AT_ONCE if limit is None else min(MOST_AT_ONCE, limit - len(found))
        answer = server.look(path, {**query, "limit": some, by: cursor})
        found += answer["items"]
        cursor = answer.get("next")
        if cursor is None or (limit is not None and len(found) >= limit):
            return RemotePage(found, cursor)


def told(answer: Any, name: str) -> Any:
    """The answer, if it has that value. After a crash the server may know only that the change was made."""
    if answer.get(name) is None:
        raise ServerAway("the change was made, and what came of it is not known any more: look at it")
    return answer


def path_of(template: str, options: Mapping[str, Any]) -> str:
    """`/users/{user}` with what was typed in place of the names."""
    return template.format_map({name: quote(str(value), safe="") for name, value in options.items()})


def is_time(name: str) -> bool:
    return name.endswith("_at") or name in NAMES


def _spelled(value: Any) -> Any:
    """An answer with its times as a command prints them; what people have sent stays as it is."""
    if isinstance(value, list):
        return [_spelled(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _part(name, each) for name, each in value.items()}


def _part(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return f"{value[:-1]}+00:00" if is_time(name) and _ZULU.fullmatch(value) else value
    return value if name in THEIRS and not isinstance(value, str) else _spelled(value)


def _refused(error: GatewayRefused | SenderReplaced, url: str) -> ServerRefused:
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


def _checked(answer: HttpAnswer) -> HttpAnswer:
    """Raise a server's internal error at once: a person waits, and it would come again."""
    if answer.status == FAULT:
        raise ServerRefusal.read(answer).error()
    return check(answer)


def _asked(path: str, query: Mapping[str, Any] | None) -> str:
    full = path if path.startswith(GATEWAY) else f"{API}{path}"
    said = {name: value for name, value in (query or {}).items() if value is not None}
    return f"{full}?{urlencode(said, doseq=True)}" if said else full


def _read(body: bytes) -> Any:
    return _spelled(read_exactly(body.decode()))
