"""What goes wrong with a table, in the words of a flow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from towpath.errors import (
    CommitUnknown,
    DatabaseError,
    DatabaseUnavailable,
    NeedsPerson,
    SinkError,
    WriterReplaced,
)
from towpath.flow.codes import ErrorCode
from towpath.flow.failure import bounded
from towpath.flow.sinks.sink import Deliveries, Refusal


@contextmanager
def sink_errors(sink: str) -> Iterator[None]:
    """What goes wrong with a database, in the words of a flow."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise SinkError(ErrorCode.SINK_UNAVAILABLE, sink, str(error)) from error
    except CommitUnknown as error:
        raise SinkError(ErrorCode.NETWORK, sink, str(error)) from error
    except WriterReplaced as error:
        # Not for a person: who was replaced is no judge of the stage, which goes well in other hands.
        raise SinkError(ErrorCode.SINK_REFUSED, sink, str(error)) from error
    except DatabaseError as error:
        raise NeedsPerson(ErrorCode.SINK_REFUSED, sink, str(error)) from error


def refusal(deliveries: Deliveries, at: int, kind: str, text: str) -> Refusal:
    """One delivery that cannot be a row."""
    return Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, kind, bounded(text))
