"""What is counted. Everything that is learned is such counts, so that they can be added up piece by piece."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

NO_DECIDER = ""


class Aspect(StrEnum):
    """What about a field a count is of."""

    RECORDS = "records"  # that were looked at; of the field with the empty name
    TYPE = "type"  # what it is in JSON, or `missing`
    VALUE = "value"  # which value it has
    LAYOUT = "layout"  # how its text is laid out, if that is a date or a number
    WIDTH = "width"  # whether days and months have a leading zero
    DECIMALS = "decimals"
    SCALE = "scale"  # its power of ten
    SIGN = "sign"  # -1 for what is below zero, 1 for all else
    YEAR = "year"  # of a date
    DECIDED = "decided"  # which value it has, where others have the given ones
    MEANT = "meant"  # which value an operator has put where the given one stood
    ORDER = "order"  # of day and month, or the mark of decimals, in texts that leave no doubt


class Count(NamedTuple):
    """The name of a count. Values are tokens; `given` is what the deciding fields have, as a JSON list."""

    field: str
    aspect: str
    deciders: str = NO_DECIDER  # their paths with a comma between them
    given: str = ""
    value: str = ""


Counts = Counter[Count]
