"""What a process says it has done, in a file that outlives it: the record against which tables are checked.

Independent of the database on purpose. Any number of processes may write to one journal: each entry is one line,
written by one call at the end of the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class Journal:
    """Appends entries. They survive the death of the writer at any moment, and with `durable` that of the machine."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._durable = durable

    def write(self, **entry: Any) -> None:
        os.write(self._file, json.dumps(entry).encode() + b"\n")
        if self._durable:
            os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


def entries(path: Path) -> list[Entry]:
    """Everything written so far; a last line that is still being written is left out."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
