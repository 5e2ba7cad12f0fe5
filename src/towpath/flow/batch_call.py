"""What Spark calls for each batch of a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BatchCall:
    """Calls a function until it is let go.

    Python keeps this one as long as Java keeps the query. Whatever it leads to, also by the trace of what it has
    raised, may lead back to the query, which Java keeps as long as Python does: neither would ever forget it, and a
    flow that tries for a night would fill both.
    """

    def __init__(self, function: Callable[[DataFrame, int], None]) -> None:
        self._function: Callable[[DataFrame, int], None] | None = function
        self._raised: RuntimeError | None = None

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        try:
            if self._function is None:
                raise RuntimeError("its query was ended")
            self._function(records, batch_id)
        except BaseException as error:  # Spark hears of exceptions only, and would make a text of them anyway
            self._raised = RuntimeError(repr(error))
        if self._raised is not None:
            raise self._raised

    def let_go(self) -> None:
        """The query has ended."""
        self._function = None
        if self._raised is not None:
            self._raised.__traceback__ = None
