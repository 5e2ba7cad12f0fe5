"""What a flow says about a join by position: which topics, under which names, and by what key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from towpath.errors import BadFlow
from towpath.flow.stateful.record_part import RecordPart


@dataclass(frozen=True, slots=True)
class Join:
    """The k-th record of each input together, over the whole topic or for each key.

    What comes out is one document with the documents of the inputs under their names. It is the record that has
    completed it, with another value; the others have no life of their own any more.
    """

    inputs: tuple[tuple[str, str], ...]  # name and topic
    key: RecordPart | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise BadFlow("a join has at least two inputs: flow.join(order=topic('orders'), payment=topic('payments'))")
        if len({topic for _, topic in self.inputs}) < len(self.inputs):
            raise BadFlow("a join reads each topic once")
        if self.key is not None and not isinstance(self.key, RecordPart):
            raise BadFlow(f"join: key is header(…), key() or field(…), not {self.key!r}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.inputs)

    @property
    def places(self) -> Mapping[str, int]:
        """The place of each topic among the inputs."""
        return {topic: at for at, (_, topic) in enumerate(self.inputs)}

    def __str__(self) -> str:
        named = ", ".join(f"{name} {topic}" for name, topic in self.inputs)
        return f"{named}, by position{'' if self.key is None else f' within {self.key}'}"
