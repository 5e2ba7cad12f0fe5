"""What a client that receives has to know after its machine restarted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from towpath.errors import BadStateFile, BadValue


@dataclass(frozen=True, slots=True)
class Received:
    """How much of a query is safe in its file."""

    query: str
    bytes: int = 0
    rows: int = 0
    cursor: str | None = None
    is_complete: bool = False  # all rows are here
    is_acknowledged: bool = False  # and the server knows


@dataclass(frozen=True, slots=True)
class ReceiveState:
    """Which upload goes to a directory, in which form, and how far each query has come."""

    upload: str
    form: str
    known: tuple[str, ...] = ()  # all queries of the upload
    queries: Mapping[str, Received] = field(default_factory=dict)

    def item(self) -> dict[str, Any]:
        named = {"kind": "receive", "upload": self.upload, "format": self.form, "known": list(self.known)}
        return named | {"queries": [asdict(each) for each in self.queries.values()]}

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> ReceiveState:
        try:
            queries = [Received(**each) for each in item["queries"]]
            known = tuple(map(str, item["known"]))
            return cls(str(item["upload"]), str(item["format"]), known, {each.query: each for each in queries})
        except (KeyError, TypeError) as error:
            raise BadStateFile(f"the state file is not one of `towpath receive`: {error!r}") from error

    def after(self, *received: Received) -> ReceiveState:
        return replace(self, queries={**self.queries, **{each.query: each for each in received}})

    def knowing(self, known: Iterable[str]) -> ReceiveState:
        return replace(self, known=tuple(known))

    def check(self, upload: str, form: str) -> None:
        if (upload, form) != (self.upload, self.form):
            raise BadValue(
                f"this directory has results of upload {self.upload} as {self.form}; take another one for upload "
                f"{upload} as {form}"
            )
