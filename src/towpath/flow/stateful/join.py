"""What a flow says about a join by position: which topics, under which names, and by what key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from towpath.errors import BadFlow
from towpath.flow.stateful.record_part import RecordPart

Unmatched = Literal["wait", "deliver", "error"]


@dataclass(frozen=True, slots=True)
class Join:
    """The k-th record of each input together, over the whole topic or for each key.

    What comes out is one document with the documents of the inputs under their names. It is the record that has
    completed it, with another value; the others have no life of their own any more.

    `unmatched`: what becomes of those whose partner has not come after `wait_s`. They wait on; they are delivered, with
    null in place of what is missing; or they go to the error topic.
    """

    inputs: tuple[tuple[str, str], ...]  # name and topic
    key: RecordPart | None = None
    wait_s: float | None = None
    unmatched: Unmatched = "wait"

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise BadFlow("a join has at least two inputs: flow.join(order=topic('orders'), payment=topic('payments'))")
        if len({topic for _, topic in self.inputs}) < len(self.inputs):
            raise BadFlow("a join reads each topic once")
        if self.key is not None and not isinstance(self.key, RecordPart):
            raise BadFlow(f"join: key is header(…), key() or field(…), not {self.key!r}")
        if self.unmatched not in get_args(Unmatched):
            raise BadFlow(f"join: unmatched is one of {', '.join(get_args(Unmatched))}, not {self.unmatched!r}")
        if self.wait_s is not None and not self.wait_s > 0:
            raise BadFlow(f"join: wait_s must be above 0, not {self.wait_s!r}")
        if (self.wait_s is None) != (self.unmatched == "wait"):
            raise BadFlow('join: wait_s= is how long, unmatched="deliver" or "error" is what then: say both, or none')

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.inputs)

    @property
    def places(self) -> Mapping[str, int]:
        """The place of each topic among the inputs."""
        return {topic: at for at, (_, topic) in enumerate(self.inputs)}

    @property
    def kept(self) -> str:
        """What of it decides which state there is."""
        named = ", ".join(f"{name} {topic}" for name, topic in self.inputs)
        return f"{named}, by position{'' if self.key is None else f' within {self.key}'}"

    def __str__(self) -> str:
        return self.kept + ("" if self.wait_s is None else f", {self.unmatched} after {self.wait_s:g} s")
