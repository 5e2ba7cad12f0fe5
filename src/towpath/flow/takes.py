"""What a step takes of all that comes to it: by topic, by type, or everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from towpath.errors import BadFlow

TYPE_FIELD = "type"


@dataclass(frozen=True, slots=True)
class Takes:
    """The topics and types that a step takes; None: all of them. What it does not take is filtered by it.

    The type is the text in one field of the document that comes to the step. Without that field, or with anything but
    text in it, a document is of no type.
    """

    topics: frozenset[str] | None = None
    types: frozenset[str] | None = None
    type_field: str = TYPE_FIELD

    @classmethod
    def of(cls, step: str, topics: Iterable[str] | None, types: Iterable[str] | None, type_field: str) -> Takes:
        return cls(_named(step, "topics", topics), _named(step, "types", types), type_field)

    @property
    def is_everything(self) -> bool:
        return self.topics is None and self.types is None

    def has(self, topic: str, document: Mapping[str, Any]) -> bool:
        """Whether the step takes this document of a record of this topic."""
        if self.topics is not None and topic not in self.topics:
            return False
        if self.types is None:
            return True
        type = document.get(self.type_field)
        return isinstance(type, str) and type in self.types

    def __str__(self) -> str:
        return ", ".join(sorted(self.topics or ()) + sorted(self.types or ()))


EVERYTHING = Takes()


def _named(step: str, option: str, names: Iterable[str] | None) -> frozenset[str] | None:
    if names is None:
        return None
    named = frozenset() if isinstance(names, str) else frozenset(names)
    if not named or not all(isinstance(name, str) for name in named):
        raise BadFlow(f'step {step!r}: {option}= is one or several names: {option}=("a", "b"), not {names!r}')
    return named
