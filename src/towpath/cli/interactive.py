"""Following a table as it grows, and editing a text in the person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from towpath.cli.context import say
from towpath.core.exact_json import to_json
from towpath.errors import BadPayload, DatabaseUnavailable, NotInstalled, Refused
from towpath.queue.payload import from_json
from towpath.runtime import Runtime

ROUND_S = 0.3
# On PostgreSQL numbers are given before the commit, so that a lower one can appear after a higher one.
LATE_COMMIT_S = 2.0


class NumberedRow(Protocol):
    """A row with a number that grows."""

    @property
    def seq(self) -> int:
        """Its number."""


Row = TypeVar("Row", bound=NumberedRow)


def follow(
    runtime: Runtime, read: Callable[[int], Iterable[Row]], start: int, wakeup: str | None = None
) -> Iterator[Row]:
    """Each row after `start` once, without end; waits while the database is away. A ring of `bell` ends a pause."""
    pause = _pause_until(runtime, wakeup)
    late_s = LATE_COMMIT_S if runtime.database.dialect == "postgres" else 0.0
    low = mark = start  # all up to `low` is settled; `mark` will be when enough time has passed
    marked_at = time.monotonic()
    seen: set[int] = set()
    reader = _PatientReader()
    while True:
        for row in reader.read(read, low):
            if row.seq not in seen:
                seen.add(row.seq)
                yield row
        if time.monotonic() - marked_at >= late_s:
            low, mark, marked_at = mark, max(seen, default=mark), time.monotonic()
            seen = {seq for seq in seen if seq > low}
        pause(ROUND_S)


@contextmanager
def edited_parts(payload: Any, headers: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Payload and headers as the person left them, both read exactly. See `edited_text`."""
    before = {"payload": payload, "headers": headers}
    with edited_text(f"{to_json(before, indent='  ')}\n".encode()) as after:
        yield _parts(after)


@contextmanager
def edited_text(text: bytes) -> Iterator[bytes]:
    """A text as the person left it. What they typed is kept in a file if the block fails."""
    handle, name = tempfile.mkstemp(prefix="towpath-edit-", suffix=".json")
    file = Path(name)
    os.write(handle, text)
    os.close(handle)
    try:
        _open_editor(file)
        after = file.read_bytes()
        if after == text:
            raise Refused("nothing was changed in the editor, so nothing is written")
        yield after
    except BaseException:
        if file.read_bytes() == text:
            file.unlink()
        else:
            say(f"what you typed is kept in {file}")
        raise
    file.unlink()


class _PatientReader:
    """Says once that the database is away, and once that it is back."""

    def __init__(self) -> None:
        self._is_away = False

    def read(self, read: Callable[[int], Iterable[Row]], low: int) -> list[Row]:
        """All that comes after `low`, however many pages that takes."""
        rows: list[Row] = []
        try:
            while page := list(read(rows[-1].seq if rows else low)):
                rows += page
        except DatabaseUnavailable as error:
            if not self._is_away:
                say(f"waiting: {error}")
            self._is_away = True
            return []
        if self._is_away:
            say("the database is back")
            self._is_away = False
        return rows


def _pause_until(runtime: Runtime, ring_of: str | None) -> Callable[[float], object]:
    if ring_of is None:
        return time.sleep
    wakeup = runtime.database.wakeups.hang(ring_of)

    def until_rung(seconds: float) -> None:
        wakeup.wait(seconds)
        wakeup.clear()

    return until_rung


def _open_editor(file: Path) -> None:
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        ended = subprocess.run([*command, str(file)], check=False)
    except FileNotFoundError as error:
        raise NotInstalled(f"the editor {command[0]}", "set the variable EDITOR to one that is") from error
    if ended.returncode != 0:
        raise Refused(f"the editor {command[0]} ended with code {ended.returncode}, so nothing is written")


def _parts(after: bytes) -> tuple[Any, dict[str, Any]]:
    try:
        document = from_json(after.decode(), "edited text")
    except UnicodeDecodeError as error:
        raise BadPayload(f"the edited text is not UTF-8: {error}") from error
    match document:
        case {"payload": payload, "headers": dict(headers), **rest} if not rest:
            return payload, headers
    raise BadPayload('the edited text must be {"payload": …, "headers": {…}} and nothing else')
