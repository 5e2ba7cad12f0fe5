"""What a flow says about a join on columns: which topics, by which fields, and how far apart in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from towpath.errors import BadFlow
from towpath.flow.stateful.dedupe import Late
from towpath.flow.stateful.record_part import RecordPart

Unmatched = Literal["drop", "deliver", "error"]
Columns = RecordPart | Sequence[RecordPart]
On = Columns | Mapping[str, Columns]  # by input
Time = RecordPart | Mapping[str, RecordPart | None]
LATE_S = 600.0
MOST_PER_KEY = 10_000


@dataclass(frozen=True, slots=True)
class ColumnJoin:
    """Every record of one input with every record of the other that has equal columns and is near enough in time.

    `time`: None is the timestamp of the record. `late`: what becomes of a record that is behind the watermark when it
    arrives. `unmatched`, by input: what becomes of one that the watermark has passed without a partner.
    """

    inputs: tuple[tuple[str, str], ...]  # name and topic
    on: tuple[tuple[RecordPart, ...], ...]  # by input
    time: tuple[RecordPart | None, ...]  # by input
    within_ms: int
    late_ms: int
    late: Late = "error"
    unmatched: tuple[Unmatched, ...] = ("error", "error")  # by input
    most_per_key: int = MOST_PER_KEY

    @classmethod
    def of(
        cls,
        inputs: Iterable[tuple[str, str]],
        *,
        on: On | None,
        within_s: float | None,
        time: Time | None = None,
        late_s: float = LATE_S,
        late: Late = "error",
        unmatched: Unmatched | Mapping[str, Unmatched] | None = None,
        most_per_key: int = MOST_PER_KEY,
    ) -> ColumnJoin:
        """As a flow file has it: what differs between the inputs is said by name."""
        found = tuple(inputs)
        names = tuple(name for name, _ in found)
        if len(found) != 2 or found[0][1] == found[1][1]:
            raise BadFlow("a join on columns has two inputs of different topics; join a third one in a stage behind it")
        return cls(
            found,
            tuple(map(_columns, _by_input(names, "on", on))),
            tuple(map(_time, _by_input(names, "time", time))),
            _milliseconds("within_s", within_s),
            _milliseconds("late_s", late_s),
            late,
            tuple(_by_input(names, "unmatched", "error" if unmatched is None else unmatched)),
            most_per_key,
        )

    def __post_init__(self) -> None:
        if len(set(map(len, self.on))) > 1:
            raise BadFlow("join: on= has as many columns for the one input as for the other")
        if self.late not in get_args(Late):
            raise BadFlow(f"join: late is one of {', '.join(get_args(Late))}, not {self.late!r}")
        for rule in self.unmatched:
            if rule not in get_args(Unmatched):
                raise BadFlow(f"join: unmatched is one of {', '.join(get_args(Unmatched))}, not {rule!r}")
        if self.most_per_key < 1:
            raise BadFlow(f"join: most_per_key counts records, from 1 on, not {self.most_per_key!r}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.inputs)

    @property
    def places(self) -> Mapping[str, int]:
        """The place of each topic among the inputs."""
        return {topic: at for at, (_, topic) in enumerate(self.inputs)}

    @property
    def kept(self) -> str:
        """What the state is about. Limits may change: what is kept stays what it was."""
        sides = [
            f"{name} {topic} on {', '.join(map(str, on))} at {time or 'its timestamp'}"
            for (name, topic), on, time in zip(self.inputs, self.on, self.time, strict=True)
        ]
        return "; ".join(sides)

    def __str__(self) -> str:
        return (
            f"{self.kept}; within {self.within_ms / 1000:g} s, late after {self.late_ms / 1000:g} s: {self.late}, "
            f"unmatched {'/'.join(self.unmatched)}, at most {self.most_per_key} of a key"
        )


def _by_input(names: tuple[str, ...], what: str, said: Any) -> list[Any]:
    if not isinstance(said, Mapping):
        return [said] * len(names)
    if set(said) != set(names):
        raise BadFlow(f"join: {what}= names each of {', '.join(names)}, or is the same for all")
    return [said[name] for name in names]


def _columns(said: Any) -> tuple[RecordPart, ...]:
    parts = tuple(said) if isinstance(said, tuple | list) else (said,)
    if not parts or not all(isinstance(part, RecordPart) for part in parts):
        raise BadFlow(f"join: on= is field(…), key() or header(…), or several of them, not {said!r}")
    return parts


def _time(said: Any) -> RecordPart | None:
    if said is None or isinstance(said, RecordPart):
        return said
    raise BadFlow(f"join: time= is field(…), key() or header(…), or None for the record's timestamp, not {said!r}")


def _milliseconds(what: str, seconds: float | None) -> int:
    if seconds is None or not 0 <= seconds < 1e12:
        raise BadFlow(f"join: {what}= is a number of seconds, from 0 on, not {seconds!r}")
    return round(seconds * 1000)
