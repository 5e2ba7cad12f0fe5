"""What the gateway puts into the records of a sender: whose they are, and which line each was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from towpath.log.record import Headers


@dataclass(frozen=True, slots=True)
class Stamp:
    """The upload and the sender, and under which names an upload and a line stand in a record."""

    upload: str
    sender: str
    upload_field: str = "upload"
    line_field: str = ""

    @property
    def reserved(self) -> tuple[str, ...]:
        """Names that a line may not have of its own."""
        return tuple(name for name in (self.upload_field, self.line_field) if name)

    def beginning(self, number: int) -> str:
        """How the JSON object of a line begins; the fields of the line follow."""
        line = f",{_spelt(self.line_field)}:{number}" if self.line_field else ""
        return f"{{{_spelt(self.upload_field)}:{_spelt(self.upload)}{line}"

    def headers(self, numbers: Iterable[int]) -> list[Headers]:
        upload, sender = ("upload", self.upload.encode()), ("sender", self.sender.encode())
        return [(upload, sender, ("line", b"%d" % number)) for number in numbers]


def _spelt(text: str) -> str:
    return orjson.dumps(text).decode()
