"""The server of `--remote`: a question to its API, and the answer to it.

A connection that is cut leaves open whether a change was made. The same question is asked again, and what would change
something carries an idempotency key: the server does it once and gives the same answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode
from uuid import uuid4

from towpath.cli.failures import UsageError, say
from towpath.cli.given import Given
from towpath.cli.remote.refusals import refused
from towpath.cli.remote.times import spelled
from towpath.client.address import Address
from towpath.client.connection import Answer, Connection, Later, Unreachable
from towpath.client.key import Key, find_key
from towpath.client.refusal import FAULT, Refusal, check
from towpath.errors import BadValue, GatewayRefused, SenderReplaced, ServerAway
from towpath.exact_json import read_exactly, to_json

API = "/api/v1"
GATEWAY = "/gateway/v1"
WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0)  # before each further try


class Server:
    """Asks one server in the name of one key."""

    def __init__(self, address: Address, key: Key) -> None:
        self._url = address.url
        self._connection = Connection(address)
        self._key = key

    @classmethod
    def of(cls, given: Given) -> Server:
        try:
            address = Address(given.remote or "", given.ca_file, given.plain_http, prefix="")
        except BadValue as error:
            raise UsageError(f"--remote: {error}") from None
        return cls(address, find_key(given.key_file))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def look(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """What is there, with every number as it is written."""
        return _read(self.fetch(path, query))

    def fetch(self, path: str, query: Mapping[str, Any] | None = None) -> bytes:
        """What is there, as it is."""
        return self._ask("GET", _asked(path, query), b"", {}).body

    def count(self, path: str, body: Mapping[str, Any]) -> Any:
        """A question that needs a body, and changes nothing."""
        return _read(self._post(path, body, {}))

    def change(self, path: str, body: Mapping[str, Any]) -> Any:
        """Do something, once."""
        return _read(self._post(path, body, {"Idempotency-Key": str(uuid4())}))

    def _post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
        named = {"Content-Type": "application/json", **headers}
        return self._ask("POST", _asked(path, None), to_json(dict(body)).encode(), named).body

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        named = {"Authorization": self._key.header, "User-Agent": "towpath", "Accept-Encoding": "identity", **headers}
        is_asked = False  # a server that was never there is told at once
        for wait_s in (*WAITS_S, None):
            try:
                return _checked(self._connection.ask(method, path, body, named))
            except (GatewayRefused, SenderReplaced) as error:
                raise refused(error, self._url) from None
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


def _checked(answer: Answer) -> Answer:
    """A fault of the server is told at once: a person waits, and it would come again."""
    if answer.status == FAULT:
        raise Refusal.read(answer).error()
    return check(answer)


def told(answer: Any, name: str) -> Any:
    """An answer that says this. After a crash of the server it may know that the change was made, and nothing more."""
    if answer.get(name) is None:
        raise ServerAway("the change was made, and what came of it is not known any more: look at it")
    return answer


def path_of(template: str, options: Mapping[str, Any]) -> str:
    """`/users/{user}` with what was typed in place of the names."""
    return template.format_map({name: quote(str(value), safe="") for name, value in options.items()})


def _asked(path: str, query: Mapping[str, Any] | None) -> str:
    full = path if path.startswith(GATEWAY) else f"{API}{path}"
    said = {name: value for name, value in (query or {}).items() if value is not None}
    return f"{full}?{urlencode(said, doseq=True)}" if said else full


def _read(body: bytes) -> Any:
    return spelled(read_exactly(body.decode()))
