"""What an operator with state says about a record, in a column beside it: null is nothing.

The column lives from the operator to the worker that reads the records, within one batch; nobody keeps it.
"""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

from towpath.flow.failure import Failure

VERDICT = "_verdict"


class Verdict(NamedTuple):
    """The place in which the record is from now on; why it failed; or the documents that were made of it.

    `moves`: how many other records have come to a place with it, or left it. `value` and `header` are for the record
    itself, when it goes on as another one than it came.
    """

    place: str | None = None
    failure: Failure | None = None
    given: list[dict[str, Any]] | None = None  # None: the record's own
    moves: dict[str, int] | None = None
    value: bytes | None = None
    header: tuple[str, bytes] | None = None

    def encode(self) -> bytes:
        return pickle.dumps((self.place, self.failure and tuple(self.failure), self.given, self.moves))

    @classmethod
    def decode(cls, text: bytes) -> Verdict:
        place, failure, given, moves = pickle.loads(text)  # noqa: S301 - written by a worker of the same job
        return cls(place, failure and Failure(*failure), given, moves)


def is_settled(text: bytes | None) -> bool:
    """Whether an operator before has said that the record goes no further."""
    if text is None:
        return False
    verdict = Verdict.decode(text)
    return verdict.place is not None or verdict.failure is not None
