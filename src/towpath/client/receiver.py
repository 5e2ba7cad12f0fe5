"""Results of an upload, written to files: no row is lost and none comes twice, wherever this is cut off."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from towpath.client.client import FIRST_PAUSE_S, LONGEST_PAUSE_S, Client
from towpath.client.protocol import GatewayProtocol, RowsPage
from towpath.client.state import ReceivedQuery, ReceiveState, StateFile, sync_directory
from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import BadStateFile, BadValue

STATE_FILE = "towpath-receive.json"

OnReceived = Callable[[ReceivedQuery], None]


class ReceiveRun:
    """Used by one thread. The state file is this process's while it runs."""

    def __init__(
        self, client: Client, upload: str, directory: Path, form: str, state: StateFile, on_received: OnReceived
    ) -> None:
        self._client = client
        self._upload = upload
        self._directory = directory
        self._form = form
        self._file = state
        self._on_received = on_received
        found = state.read()
        self._state = ReceiveState(upload, form) if found is None else ReceiveState.read(found)
        self._state.check(upload, form)

    def run(self, queries: Sequence[str], wait: bool) -> list[ReceivedQuery]:
        """Receive what there is of these queries, or of all; with `wait` until they are complete."""
        with self._client.wire() as wire:
            names = self._names(wire, queries)
            for name in names:
                self._recover(wire, name)
            pause_s = FIRST_PAUSE_S
            while left := [name for name in names if not self._of(name).is_acknowledged]:
                taken = [self._take(wire, name) for name in left]
                if any(taken):
                    pause_s = FIRST_PAUSE_S
                elif wait:
                    wire.retries.pause(pause_s)
                    pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
                else:
                    break
        return [self._of(name) for name in names]

    def path(self, query: str) -> Path:
        return self._directory / f"{query}.{self._form}"

    # What was there before

    def _names(self, wire: GatewayProtocol, wanted: Sequence[str]) -> list[str]:
        """Asked once: of an upload whose results are all here the server need not know any more."""
        if not self._state.known:
            self._state = replace(self._state, known=tuple(each.query for each in wire.results(self._upload)))
        unknown = sorted(set(wanted) - set(self._state.known))
        if unknown:
            known = ", ".join(self._state.known) or "none"
            raise BadValue(f"the upload has no query {', '.join(unknown)}; it has: {known}")
        return list(dict.fromkeys(wanted or self._state.known))

    def _recover(self, wire: GatewayProtocol, name: str) -> None:
        """Cut the file back to what the state knows, and acknowledge again what the server may not have heard."""
        if name not in self._state.queries:
            self._begin(name)
        received, path = self._of(name), self.path(name)
        if not path.exists() and received.bytes == 0:
            path.touch()
            sync_directory(self._directory)
        self._cut_back(path, received.bytes)
        self._acknowledge(wire, received)

    def _begin(self, name: str) -> None:
        """Record the query before its file is made: a file without a record is not ours."""
        if self.path(name).exists():
            raise BadValue(f"{self.path(name)} is there already, and not from this; take another directory, or move it")
        self._remember(ReceivedQuery(name))

    def _cut_back(self, path: Path, length: int) -> None:
        try:
            with open(path, "r+b") as file:
                if os.fstat(file.fileno()).st_size < length:
                    raise BadStateFile(
                        f"{path} is shorter than the {length:,} bytes that were written; it was changed since"
                    )
                file.truncate(length)
        except OSError as error:
            raise BadStateFile(f"{path} cannot be gone on with: {error.strerror or error}") from error

    # Rows

    def _take(self, wire: GatewayProtocol, name: str) -> bool:
        """Whether there was something."""
        before = self._of(name)
        page = wire.page(self._upload, name, before.cursor, self._form)
        if not page.lines and not page.is_end:
            return False
        received = self._append(before, page)
        crash.here(CrashPoint.CLIENT_FILE_SYNCED)
        self._remember(received)
        crash.here(CrashPoint.CLIENT_RECEIVED)
        self._acknowledge(wire, received)
        self._on_received(received)
        return True

    def _append(self, before: ReceivedQuery, page: RowsPage) -> ReceivedQuery:
        with open(self.path(before.query), "ab") as file:
            file.write(page.lines)
            file.flush()
            os.fsync(file.fileno())
        length, rows = before.bytes + len(page.lines), before.rows + page.rows
        return ReceivedQuery(before.query, length, rows, page.cursor, is_complete=page.is_end)

    def _acknowledge(self, wire: GatewayProtocol, received: ReceivedQuery) -> None:
        if received.cursor is not None and not received.is_acknowledged:
            wire.acknowledge(self._upload, received.query, received.cursor)
            crash.here(CrashPoint.CLIENT_ACKNOWLEDGED)
        if received.is_complete and not received.is_acknowledged:
            self._remember(replace(received, is_acknowledged=True))

    def _of(self, name: str) -> ReceivedQuery:
        return self._state.queries[name]

    def _remember(self, received: ReceivedQuery) -> None:
        self._state = self._state.after(received)
        self._file.write(self._state.item())
