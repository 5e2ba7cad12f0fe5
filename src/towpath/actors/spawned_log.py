"""What a spawned process writes to its standard output and error: one file for each instance, which stays small."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

MOST_BYTES = 4 << 20
KEPT_BYTES = 1 << 20
LOOKED_AT_BYTES = 16 << 10
SHOWN_CHARACTERS = 1_500
LONGEST_NAME = 150

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class SpawnedLog:
    """The file of one instance. Processes append to it, and whoever looks after them cuts it."""

    def __init__(self, directory: str | Path, actor: str, instance: str) -> None:
        self.path = Path(directory).expanduser() / _file_name(actor, instance)

    def open(self, launch_id: str) -> BinaryIO:
        """The file for one more process, whose output stands behind a line that names its launch."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.cut()
        file = self.path.open("ab", buffering=0)
        file.write(f"\n{_mark(launch_id)} at {datetime.now(UTC).isoformat(timespec='seconds')}\n".encode())
        return file

    def cut(self) -> None:
        """Leave the end of it when it has grown too large. Who writes to it meanwhile may lose a few lines."""
        with suppress(OSError):
            if self.path.stat().st_size > MOST_BYTES:
                end = self._end(KEPT_BYTES)
                with self.path.open("r+b") as file:
                    file.truncate(0)
                with self.path.open("ab", buffering=0) as file:
                    file.write(b"... what was written before is cut off\n" + end)

    def tail(self, launch_id: str) -> str:
        """The end of what one launch has written, as text that can be shown; empty when it wrote nothing."""
        try:
            end = self._end(LOOKED_AT_BYTES)
        except OSError:
            return ""
        _, found, after = end.rpartition(_mark(launch_id).encode())
        own = after.partition(b"\n")[2] if found else end
        return shown(own)

    def _end(self, count: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - count))
            return file.read(count)


def shown(output: bytes) -> str:
    """The end of an output as text, whatever it is."""
    text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", output.decode(errors="replace")).strip()
    return text if len(text) <= SHOWN_CHARACTERS else f"…{text[-SHOWN_CHARACTERS:]}"


def _mark(launch_id: str) -> str:
    return f"=== launch {launch_id}"


def _file_name(actor: str, instance: str) -> str:
    """A name that a file can have, whatever the instance is called."""
    name = quote(f"{actor}-{instance}", safe="")
    if len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}-{sha256(name.encode()).hexdigest()[:12]}"
    return f"{name}.log"
