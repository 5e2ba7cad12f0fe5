"""The questions that a client asks of a gateway (docs/reference/gateway.md), each until there is an answer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from towpath.client.connection import Answer, Connection, Later
from towpath.client.key import Key
from towpath.client.patience import Patience
from towpath.client.refusal import FAULT, Refusal, check
from towpath.client.told import NewSender, Page, Place, Result, Session, Taken, Upload, understood

T = TypeVar("T")

MOST_FAULTS = 8  # in a row: a fault that stays is told, not waited for
GZIP_LEVEL = 5


class Wire:
    """For one thread: its connection and its patience."""

    def __init__(self, connection: Connection, key: Key, patience: Patience) -> None:
        self._connection = connection
        self._key = key
        self._faults = 0
        self.patience = patience

    # Data in

    def open(self, stream: str, senders: Sequence[NewSender], label: str, upload: str) -> Upload:
        """The id is ours, so that asking twice opens one."""
        body = {"stream": stream, "label": label, "senders": [each.item() for each in senders], "id": upload}
        return self._post(Upload.read, "/uploads", body, {"Idempotency-Key": upload})

    def status(self, upload: str) -> Upload:
        return understood(Upload.read, self._ask("GET", _upload(upload)).body)

    def session(self, upload: str, sender: str) -> Session:
        return self._post(Session.read, f"{_sender(upload, sender)}/session", {})

    def chunk(
        self, upload: str, sender: str, *, session: int, offset: int, sequence: int, data: bytes, last: bool, zip: bool
    ) -> Taken:
        """One try: `Later` when it was not taken, or nobody knows. The next one need not be of the same size."""
        said = {"session": session, "offset": offset, "sequence": sequence, "last": "true" if last else "false"}
        headers = {"Content-Type": "application/octet-stream"} | ({"Content-Encoding": "gzip"} if zip else {})
        body = gzip.compress(data, GZIP_LEVEL, mtime=0) if zip else data
        answer = self._try("POST", f"{_sender(upload, sender)}/chunks?{urlencode(said)}", body, headers)
        return understood(Taken.read, answer.body)

    def skip(self, upload: str, sender: str, **said: Any) -> Place:
        return self._post(Place.read, f"{_sender(upload, sender)}/skip", said)

    def finish(self, upload: str, sender: str, *, session: int, size: int, crc32: int) -> None:
        said = {"session": session, "bytes": size, "crc32": crc32}
        self._post(dict, f"{_sender(upload, sender)}/finish", said)

    def abort(self, upload: str, why: str) -> Upload:
        return self._post(Upload.read, f"{_upload(upload)}/abort", {"why": why})

    # Results out

    def results(self, upload: str) -> list[Result]:
        answer = self._ask("GET", f"{_upload(upload)}/results")
        return understood(lambda found: [Result.read(each) for each in found["items"]], answer.body)

    def page(self, upload: str, query: str, cursor: str | None, form: str) -> Page:
        said = {"format": form} | ({} if cursor is None else {"cursor": cursor})
        answer = self._ask("GET", f"{_query(upload, query)}?{urlencode(said)}")
        rows = int(answer.headers.get("towpath-rows") or answer.body.count(b"\n"))
        is_end = answer.headers.get("towpath-end") == "true"
        return Page(answer.body, rows, answer.headers.get("towpath-cursor") or cursor, is_end)

    def acknowledge(self, upload: str, query: str, cursor: str) -> None:
        self._post(dict, f"{_query(upload, query)}/acknowledge", {"cursor": cursor})

    # Asking

    def close(self) -> None:
        self._connection.close()

    def _post(
        self,
        read: Callable[[dict[str, Any]], T],
        path: str,
        said: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> T:
        named = {"Content-Type": "application/json", **(headers or {})}
        return understood(read, self._ask("POST", path, json.dumps(said).encode(), named).body)

    def _ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        """Until there is an answer: for requests that do no harm when they are repeated."""
        while True:
            try:
                return self._try(method, path, body, headers or {})
            except Later as error:
                self.patience.wait(str(error), error.at_least_s)

    def _try(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        self.patience.check()
        named = {"Authorization": self._key.header, "User-Agent": "towpath", "Accept-Encoding": "identity", **headers}
        answer = self._connection.ask(method, path, body, named)
        self._faults = self._faults + 1 if answer.status == FAULT else 0
        if self._faults >= MOST_FAULTS:
            raise Refusal.read(answer).error()
        good = check(answer)
        self.patience.worked()
        return good


def _upload(upload: str) -> str:
    return f"/uploads/{quote(upload, safe='')}"


def _sender(upload: str, sender: str) -> str:
    return f"{_upload(upload)}/senders/{quote(sender, safe='')}"


def _query(upload: str, query: str) -> str:
    return f"{_upload(upload)}/results/{quote(query, safe='')}"
