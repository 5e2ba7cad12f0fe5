"""Whether a record was sent before: what its sender says about it and what was seen until now in, verdict out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure, bounded
from towpath.flow.place import Place
from towpath.flow.stateful.dedupe import Dedupe
from towpath.flow.stateful.keeper import ShardState
from towpath.flow.stateful.verdict import Verdict
from towpath.flow.stateful.window import Seen, Window

DUPLICATE = Verdict(Place.DUPLICATE)


class Numbered(NamedTuple):
    """A record as its sender knows it."""

    sender: bytes | None
    sequence: int | None
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    """How the records of some topics are known again. `scope` keeps the senders of two rules apart."""

    source: str
    scope: bytes
    dedupe: Dedupe

    @classmethod
    def of(cls, source: str, topics: Sequence[str], dedupe: Dedupe) -> Rule:
        return cls(source, "+".join(topics).encode(), dedupe)

    def key(self, sender: bytes) -> bytes:
        return self.scope + b"\n" + sender

    def decide(self, record: Numbered, state: ShardState) -> Verdict | None:
        """None: it is taken. Pure, and the audit's as well."""
        dedupe = self.dedupe
        sender, sequence, epoch = record
        if sender is None or sequence is None or epoch is None:
            return None if dedupe.missing == "take" else self._missing(record)
        key = self.key(sender)
        kept = state.get(key)
        window = Window() if kept is None else Window.from_value(kept)
        seen = window.see(sequence, epoch, dedupe.window)
        if seen is Seen.LATE and dedupe.late == "take" and epoch == window.epoch:
            window.add(sequence, dedupe.window)
            seen = Seen.NEW
        state[key] = window.to_value()
        if seen is Seen.BEFORE or (seen is Seen.LATE and dedupe.late == "drop"):
            return DUPLICATE
        return self._late(record, window) if seen is Seen.LATE and dedupe.late == "error" else None

    def _missing(self, record: Numbered) -> Verdict:
        what = ", ".join(name for name, value in record._asdict().items() if value is None)
        return self._failed("NotNumbered", f"it has no {what}; {self.dedupe}")

    def _late(self, record: Numbered, window: Window) -> Verdict:
        if record.epoch != window.epoch:
            return self._failed("Late", f"its sender has begun to count anew: epoch {record.epoch} is over")
        return self._failed(
            "Late",
            f"number {record.sequence} is more than {self.dedupe.window} behind {window.edges[-1] - 1}, the highest of "
            "its sender; nobody can say any more whether it was taken",
        )

    def _failed(self, name: str, message: str) -> Verdict:
        return Verdict(failure=Failure(ErrorCode.NOT_VALID, self.source, name, bounded(message)))
