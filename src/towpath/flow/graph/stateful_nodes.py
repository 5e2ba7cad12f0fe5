"""What a flow file says about state: parts of a record, deduplication, stateful steps, and joins.

A `RecordPart` (a header, the key, a field of the document) is that by which a record is known again. `Dedupe` says by
which sender and number duplicates are known, `StatefulStep` which function remembers, `Join` which topics are joined by
position, and `ColumnJoin` which are joined by fields, and how far apart in time. `flow/stateful` does the work; nothing
here needs Spark.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclasses_field
from typing import Any, Literal, TypeAlias, get_args

import orjson

from towpath.errors import BadFlow
from towpath.log.record import Record

_NUMBER = re.compile(rb"-?[0-9]{1,18}")
_PATH = re.compile(r"\$(?:\.[^.\[\]*]+)+")

Late = Literal["error", "drop", "take"]
Missing = Literal["take", "error"]
Unmatched = Literal["wait", "deliver", "error"]  # of a join by position
UnmatchedRule = Literal["drop", "deliver", "error"]  # of a join on columns
WINDOW = 1_000
LAST_MS = 253_402_300_799_999  # of the year 9999
LATE_S = 600.0
MOST_PER_KEY = 10_000


@dataclass(frozen=True, slots=True)
class HeaderPart:
    """The value of the last header of a name."""

    name: str

    def __str__(self) -> str:
        return f"header({self.name!r})"


@dataclass(frozen=True, slots=True)
class KeyPart:
    """The key of the record."""

    def __str__(self) -> str:
        return "key()"


@dataclass(frozen=True, slots=True)
class FieldPart:
    """A text, a whole number, true or false in the JSON document."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"field('{'.'.join(('$', *self.names))}')"


RecordPart: TypeAlias = HeaderPart | KeyPart | FieldPart
Columns = RecordPart | Sequence[RecordPart]
On = Columns | Mapping[str, Columns]  # by input
Time = RecordPart | Mapping[str, RecordPart | None]


def header(name: str) -> HeaderPart:
    """The value of a header; of several with this name, the last."""
    return HeaderPart(name)


def key() -> KeyPart:
    """The key of the record."""
    return KeyPart()


def field(path: str) -> FieldPart:
    """A field of the document: `field("sender")`, or, inside another, `field("$.meta.sender")`."""
    full = path if path.startswith("$") else f"$.{path}"
    if not _PATH.fullmatch(full):
        raise BadFlow(f"field({path!r}) is not a name, nor a path of names like $.meta.sender")
    return FieldPart(tuple(full.split(".")[1:]))


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


@dataclass(frozen=True, eq=False, slots=True)
class StatefulStep:
    """The function and the part of a record by which it has a state; `expire_s` after its last record that is gone.

    `on_wake` is called with the state of a key and the moment when the time has come that the function has asked for.
    """

    name: str
    function: Callable[..., Any] = dataclasses_field(repr=False)
    key: RecordPart
    expire_s: float | None = None
    on_wake: Callable[..., Any] | None = dataclasses_field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.key, RecordPart):
            raise BadFlow(f"stateful {self.name!r}: key is header(…), key() or field(…), not {self.key!r}")
        if self.expire_s is not None and not self.expire_s > 0:
            raise BadFlow(f"stateful {self.name!r}: expire_s must be above 0, not {self.expire_s!r}")
        if len(inspect.signature(self.function).parameters) not in (2, 3):
            raise BadFlow(f"stateful {self.name!r}: the function takes a document and a state, and perhaps the moment")
        if self.on_wake is not None and len(inspect.signature(self.on_wake).parameters) != 2:
            raise BadFlow(f"stateful {self.name!r}: on_wake takes a state and the moment")
        if self.on_wake is not None and not self.wants_moment:
            raise BadFlow(f"stateful {self.name!r}: nobody asks to be woken; the function needs the moment for that")

    @property
    def wants_moment(self) -> bool:
        return len(inspect.signature(self.function).parameters) == 3

    def __str__(self) -> str:
        expires = "" if self.expire_s is None else f", expires after {self.expire_s:g} s"
        wakes = "" if self.on_wake is None else ", wakes"
        return f"state of {self.key}{expires}{wakes}"


@dataclass(slots=True)
class Moment:
    """What a function may ask beside document and state. `now_ms` is the time of the batch, the same on every attempt.

    `is_replay`: the record comes back from the desk. If it had failed in this function, its state knows nothing of it;
    if it had failed behind it, the state knows it already. `due_ms`: when the key is to be woken as yet; for `on_wake`,
    when it was to be. Each key has one alarm: setting it again moves it, and once it has rung it is off.
    """

    key: bytes
    now_ms: int
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    is_replay: bool = False
    due_ms: int | None = None
    next_ms: int | None = dataclasses_field(default=None, repr=False)  # the alarm as the function leaves it
    can_wake: bool = dataclasses_field(default=True, repr=False)

    def wake_at(self, ms: int) -> None:
        """Have `on_wake` called for this key at that time, in ms since 1970, or soon after it."""
        if not self.can_wake:
            raise TypeError("nobody could be woken: give the step on_wake=")
        if type(ms) is not int:
            raise TypeError(f"a time is a whole number of milliseconds since 1970, not {ms!r}")
        if not 0 <= ms <= LAST_MS:
            raise ValueError(f"a time is in milliseconds since 1970, from 0 to {LAST_MS} (the year 9999), not {ms!r}")
        self.next_ms = ms

    def wake_in(self, seconds: float) -> None:
        """The same, so many seconds after the time of the batch."""
        if not abs(seconds) <= LAST_MS:  # also what is no number at all
            raise ValueError(f"nobody can wait for {seconds!r} seconds")
        self.wake_at(self.now_ms + round(seconds * 1000))

    def sleep(self) -> None:
        """Have it called no more, until the next `wake_at` or `wake_in`."""
        self.next_ms = None


class _Inputs:
    """The inputs of a join."""

    __slots__ = ()
    inputs: tuple[tuple[str, str], ...]  # name and topic

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.inputs)

    @property
    def places(self) -> Mapping[str, int]:
        """The place of each topic among the inputs."""
        return {topic: at for at, (_, topic) in enumerate(self.inputs)}


@dataclass(frozen=True, slots=True)
class Join(_Inputs):
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
    def kept(self) -> str:
        """What of it decides which state there is."""
        named = ", ".join(f"{name} {topic}" for name, topic in self.inputs)
        return f"{named}, by position{'' if self.key is None else f' within {self.key}'}"

    def __str__(self) -> str:
        return self.kept + ("" if self.wait_s is None else f", {self.unmatched} after {self.wait_s:g} s")


@dataclass(frozen=True, slots=True)
class ColumnJoin(_Inputs):
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
    unmatched: tuple[UnmatchedRule, ...] = ("error", "error")  # by input
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
        unmatched: UnmatchedRule | Mapping[str, UnmatchedRule] | None = None,
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
            if rule not in get_args(UnmatchedRule):
                raise BadFlow(f"join: unmatched is one of {', '.join(get_args(UnmatchedRule))}, not {rule!r}")
        if self.most_per_key < 1:
            raise BadFlow(f"join: most_per_key counts records, from 1 on, not {self.most_per_key!r}")

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


def part_of(record: Record, part: RecordPart) -> bytes | None:
    """That part of a single record. Workers take it from whole columns, with the same answers."""
    match part:
        case KeyPart():
            return record.key
        case HeaderPart(name):
            values = [value for key, value in record.headers if key == name]
            return values[-1] if values else None
        case FieldPart(names):
            return field_of(document_of(record.value), names)


def whole_number(text: bytes | None) -> int | None:
    """None for what is no whole number that fits 60 bits."""
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def document_of(value: bytes | None) -> Any:
    """None for what is no JSON; reading the record reports that."""
    try:
        return None if value is None else orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


def field_of(document: Any, names: Sequence[str]) -> bytes | None:
    for name in names:
        if not isinstance(document, Mapping) or name not in document:
            return None
        document = document[name]
    match document:
        case str():
            return document.encode()
        case bool() | int():
            return orjson.dumps(document)
    return None


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
