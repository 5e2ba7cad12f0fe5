"""What a sink has refused of a unit, kept before other outputs are given the rest.

Without it a second attempt might find the sink of another mind: it takes what it has refused, while the other outputs
were given everything else and are done. The record would be in one of them and nowhere else.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure
from towpath.flow.worker.batch_place import BatchPlace

DIRECTORY = "refused"


class RefusedFile:
    """Beside the reports of all attempts at the batch; there is none when nothing was refused or nobody came so far."""

    def __init__(self, batch: BatchPlace, output: str, unit: str) -> None:
        name = sha256(f"{output}\n{unit}".encode()).hexdigest()
        self._path = Path(batch.directory).parent / DIRECTORY / f"{name}.json"
        self.known = self._read()
        self._new = dict(self.known)

    def add(self, delivery_id: bytes, failure: Failure) -> None:
        self._new[delivery_id] = failure

    def write(self) -> None:
        """Make it visible, whole, and keep it over a power cut."""
        if self._new == self.known:
            return
        self._path.parent.mkdir(exist_ok=True)
        aside = self._path.with_suffix(f".{os.getpid()}")
        with aside.open("w", encoding="utf-8") as file:
            json.dump({id.hex(): failure for id, failure in self._new.items()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, self._path)

    def _read(self) -> dict[bytes, Failure]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return {bytes.fromhex(id): Failure(ErrorCode(code), *rest) for id, (code, *rest) in found.items()}
