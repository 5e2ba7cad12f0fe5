"""Reads the error topic of a flow."""

from __future__ import annotations

from towpath.flow.audit.counting import TELL_EVERY, Progress
from towpath.flow.audit.errors import ErrorsFound
from towpath.flow.audit.view import View
from towpath.flow.error_record import ErrorRecord
from towpath.flow.positions import Range
from towpath.log.log import Log


def read_errors(log: Log, view: View, progress: Progress = lambda done: None) -> ErrorsFound:
    """All error records of the flow, up to the end that the view has. Other flows may use the same topic."""
    found = ErrorsFound(view.stages, taken_to={} if view.holdings is None else view.holdings.positions)
    topic, done = view.errors, 0
    for number, end in sorted(topic.ends.items()):
        for record in log.read(topic.name, number, topic.starts.get(number, 0), end):
            done += 1
            if done % TELL_EVERY == 0:
                progress(done)
            at = Range(topic.name, topic.id, number, record.offset, record.offset + 1)
            try:
                read = ErrorRecord.read(record)
            except (KeyError, ValueError) as error:
                found.add_unreadable(at, f"{type(error).__name__}: {error}")
                continue
            if read.flow == view.flow:
                found.add(read, at, is_known=record.offset < view.errors_known.get(number, 0))
    return found
