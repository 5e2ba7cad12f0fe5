"""What an operator with state says about a record, in a column beside it: null is nothing.

The column lives from the operator to the worker that reads the records, within one batch; nobody keeps it.
"""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

from towpath.flow.failure import Failure

VERDICT = "_verdict"
UNMATCHED = "Unmatched"  # the name of a failure: a join has kept its record, which an earlier batch has read


class Verdict(NamedTuple):
    """The place in which the record is from now on; why it failed; or the documents that were made of it.

    `moves`: how many other records have come to a place with it, or left it. `value` and `header` are for the record
    itself, when it goes on as another one than it came. `due`: when something of a shard is due, by operator and shard;
    it rides on some record of the shard. `by`: of a tick, the source that has taken it. `seen`: the latest event
    times of a shard, by input of a join. `left`: records that leave the state with it; on their own verdicts `is_again`
    says that an earlier batch has read them. `was_read`: the value is made of others that were read, and may be longer.
    `rule`: the number of the block rule that has said this.
    """

    place: str | None = None
    failure: Failure | None = None
    given: list[dict[str, Any]] | None = None  # None: the record's own
    moves: dict[str, int] | None = None
    value: bytes | None = None
    header: tuple[str, bytes] | None = None
    due: dict[str, list[int]] | None = None
    by: str | None = None
    seen: dict[str, int] | None = None
    is_again: bool = False
    was_read: bool = False
    left: tuple[Any, ...] | None = None
    rule: int | None = None

    def encode(self) -> bytes:
        failure = self.failure and tuple(self.failure)
        return pickle.dumps((self.place, failure, self.given, self.moves, self.due, self.by, *self[8:11], self.rule))

    def after(self, before: bytes | None) -> Verdict:
        """It takes the place of what an operator before has said; what that one has told of its shard stays."""
        if before is None:
            return self
        told = Verdict.decode(before)
        due, seen = {**(told.due or {}), **(self.due or {})}, {**(told.seen or {}), **(self.seen or {})}
        return self._replace(due=due or None, seen=seen or None)

    @classmethod
    def decode(cls, text: bytes) -> Verdict:
        # Written by a worker of the same job.
        place, failure, given, moves, due, by, seen, is_again, was_read, rule = pickle.loads(text)  # noqa: S301
        return cls(
            place,
            failure and Failure(*failure),
            given,
            moves,
            due=due,
            by=by,
            seen=seen,
            is_again=is_again,
            was_read=was_read,
            rule=rule,
        )


def is_settled(text: bytes | None) -> bool:
    """Whether an operator before has said that the record goes no further."""
    if text is None:
        return False
    verdict = Verdict.decode(text)
    return verdict.place is not None or verdict.failure is not None
