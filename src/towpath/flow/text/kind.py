"""What a kind of column is: how JSON values become its Arrow array, and what does not fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from towpath.flow.failure import bounded

FOUND_CHARACTERS = 60


class Misfit(ValueError):
    """A value does not fit into its column. The text names field, expected type and what was found."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(bounded(f"field {path}: expected {expected}, found {found}"))


class Kind(ABC):
    """A type of column. Kinds are values: equal if they are declared alike.

    `array` is the fast way: a whole column at once, and None as soon as anything in it needs a closer look. `fit` is
    the exact way: one value, or `Misfit`. Arrow by itself is too lenient for either (it reads 1.5 as the integer 1,
    "abc" as a list of three strings, 1 as a day of 1970), so types are looked at before it is asked.
    """

    @property
    @abstractmethod
    def ddl(self) -> str:
        """How the type is written in a schema."""

    @property
    @abstractmethod
    def arrow(self) -> pa.DataType:
        """The type in Arrow, as Spark wants it."""

    @property
    @abstractmethod
    def spark(self) -> Any:
        """The type as Spark writes it in JSON."""

    @abstractmethod
    def array(self, values: list[Any]) -> pa.Array | None:
        """All values as an array; None if one does not fit, or fits only on a closer look."""

    @abstractmethod
    def fit(self, value: Any, path: str) -> Any:
        """A value that is not null as Arrow takes it without changing it, or `Misfit`."""

    def outside(self, value: Any, path: str) -> Iterator[str]:
        """The paths of fields in a value that are not declared."""
        return iter(())

    def misfit(self, value: Any, path: str, why: str = "") -> Misfit:
        return Misfit(path, self.ddl, described(value) + why)


def plain_array(values: list[Any], allowed: frozenset[type], arrow: pa.DataType) -> pa.Array | None:
    """The values as an array if all are of the allowed types and Arrow takes them."""
    if not allowed.issuperset(map(type, values)):
        return None
    try:
        return pa.array(values, arrow)
    except (pa.ArrowException, OverflowError):
        return None


def described(value: Any) -> str:
    """A value as it is named in a message: what it is in JSON, and its beginning."""
    if value is None:
        return "null"
    if value is True or value is False:
        return f"boolean {str(value).lower()}"
    if isinstance(value, str):
        return f'string "{bounded(value, FOUND_CHARACTERS)}"'
    if isinstance(value, int | float | Decimal):
        return f"number {_printed(value)}"
    return "an object" if isinstance(value, dict) else "an array" if isinstance(value, list) else type(value).__name__


def _printed(value: int | float | Decimal) -> str:
    return bounded(str(Decimal(value) if isinstance(value, int) else value), FOUND_CHARACTERS)
