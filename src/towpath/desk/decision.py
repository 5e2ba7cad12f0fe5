"""What is to be done about one error, as the rules of its flow decide it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Isolate:
    """A case for a person. Without a rule: none has fitted."""

    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Ignore:
    """In front of nobody, by a rule that a person has approved."""

    rule: str
    approved_by: str


@dataclass(frozen=True, slots=True)
class Again:
    """Back into the flow: at once, or after waiting in the lane of that delay."""

    delay_s: float | None
    rule: str
    jitter_s: float = 0.0


AfterMending = Isolate | Ignore | Again


@dataclass(frozen=True, slots=True)
class Correct:
    """A learned correction; when there is none that is sure enough, `then`."""

    then: AfterMending
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Salvage:
    """Back into the flow without these fields; when the record has none of them, `then`."""

    fields: tuple[str, ...]
    rule: str
    then: AfterMending = Isolate()


Decision = Isolate | Ignore | Again | Correct | Salvage
