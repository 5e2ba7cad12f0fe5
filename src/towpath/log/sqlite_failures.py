"""What a failure of the database means for the log that lives in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from towpath.errors import CommitUnknown, DatabaseUnavailable, LogUnavailable, TransactionUnknown


@contextmanager
def log_failures() -> Iterator[None]:
    """Raises what every log raises, whatever it is built on."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise LogUnavailable(str(error)) from error
    except CommitUnknown as error:
        raise TransactionUnknown(str(error)) from error
