"""What a flow says about duplicates from outside: by what senders and their numbers are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from towpath.errors import BadFlow
from towpath.flow.stateful.record_part import RecordPart

Late = Literal["error", "drop", "take"]
Missing = Literal["take", "error"]
WINDOW = 1_000


@dataclass(frozen=True, slots=True)
class Dedupe:
    """Drop what a sender has sent before: the same number of the same sender.

    `window`: how far behind the highest number of its sender one may be that was not seen yet. `late`: what becomes of
    one that is further behind, or of an earlier epoch. The default is the error topic, where it is neither lost nor
    doubled, and a replay takes it. `missing`: what becomes of a record without sender, number or epoch. `epoch`: a
    number that grows whenever a sender begins to count anew. `forget_after_s`: a sender is forgotten so long after its
    last record was read; what it sends then is new, whatever its number. None: never.
    """

    sender: RecordPart
    sequence: RecordPart
    epoch: RecordPart | None = None
    window: int = WINDOW
    late: Late = "error"
    missing: Missing = "take"
    forget_after_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("sender", "sequence", "epoch"):
            part = getattr(self, name)
            if not isinstance(part, RecordPart) and not (name == "epoch" and part is None):
                raise BadFlow(f"dedupe: {name} is header(…), key() or field(…), not {part!r}")
        if self.window < 0:
            raise BadFlow(f"dedupe: window counts numbers, from 0 on, not {self.window!r}")
        if self.late not in get_args(Late):
            raise BadFlow(f"dedupe: late is one of {', '.join(get_args(Late))}, not {self.late!r}")
        if self.missing not in get_args(Missing):
            raise BadFlow(f"dedupe: missing is one of {', '.join(get_args(Missing))}, not {self.missing!r}")
        if self.forget_after_s is not None and not self.forget_after_s > 0:
            raise BadFlow(f"dedupe: forget_after_s must be above 0, not {self.forget_after_s!r}")

    def __str__(self) -> str:
        epoch = f", epoch {self.epoch}" if self.epoch is not None else ""
        forgets = f", forgets after {self.forget_after_s:g} s" if self.forget_after_s is not None else ""
        return (
            f"sender {self.sender}, sequence {self.sequence}{epoch}, window {self.window}, late {self.late}, "
            f"missing {self.missing}{forgets}"
        )
