"""The streams of the settings: what clients may send, what becomes of it, and the checks of a new upload."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from towpath.errors import BadFlow, BadName, BadSettings, BadValue, UnknownStream
from towpath.flow.documents.schema import parse_ddl
from towpath.flow.documents.types import Struct
from towpath.gateway.lines.csv_lines import columns_of
from towpath.gateway.lines.lines import LARGEST
from towpath.gateway.uploads.model import SenderRequest, UploadSender
from towpath.log.topic import check_topic_name
from towpath.settings import GatewaySettings, InputSettings, StreamSettings

MOST_SENDERS = 1_000
MOST_COLUMNS = 2_000
LONGEST_COLUMN = 200
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,59}")
_FORMATS = ("csv", "jsonl")


class Streams:
    """All that the settings name, checked when made."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._streams = {name: _stream(name, told) for name, told in settings.streams.items()}

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams.values())

    @property
    def names(self) -> list[str]:
        return sorted(self._streams)

    def stream(self, name: str) -> Stream:
        """One of them; raises `UnknownStream`."""
        if name not in self._streams:
            raise UnknownStream(name, self._streams)
        return self._streams[name]

    def of_flow(self, flow: str) -> list[Stream]:
        """The streams whose uploads close when that flow has passed them."""
        return [stream for stream in self._streams.values() if stream.flow == flow]


@dataclass(frozen=True)
class Stream:
    """One kind of upload."""

    name: str
    flow: str
    upload_field: str
    line_field: str
    results: tuple[str, ...]
    wait_for_replays_s: float | None
    inputs: Mapping[str, StreamInput]

    def input(self, name: str) -> StreamInput:
        """One of them; raises `UnknownStream`."""
        if name not in self.inputs:
            raise UnknownStream(name, self.inputs, f"input of stream {self.name!r} called")
        return self.inputs[name]


@dataclass(frozen=True)
class StreamInput:
    """One of the topics of a stream."""

    name: str
    topic: str
    partitions: int | None
    schema: Struct | None
    ddl: str
    key: str | None
    after: tuple[str, ...]


def _stream(name: str, told: StreamSettings) -> Stream:
    inputs = told.inputs or {name: InputSettings()}
    return Stream(
        name,
        told.flow,
        told.upload_field,
        told.line_field,
        tuple(told.results),
        told.wait_for_replays_s,
        {each: _input(name, each, inputs[each], told) for each in inputs},
    )


def _input(stream: str, name: str, told: InputSettings, of: StreamSettings) -> StreamInput:
    place = f"gateway.streams.{stream}.inputs.{name}"
    topic = told.topic or (stream if name == stream else f"{stream}.{name}")
    try:
        check_topic_name(topic)
        schema = parse_ddl(told.ddl) if told.ddl else None
    except (BadName, BadFlow) as error:
        raise BadSettings(f"{place}: {error}") from error
    reserved = {of.upload_field, of.line_field}
    taken = [] if schema is None else [field.name for field in schema.fields if field.name in reserved]
    if taken:
        raise BadSettings(f"{place}.schema: {taken[0]} is the name of a field that the gateway puts into each record")
    return StreamInput(name, topic, told.partitions, schema, told.ddl, told.key or None, tuple(told.after))


def check_new(stream: Stream, senders: Sequence[SenderRequest]) -> None:
    """Raise when an upload of these senders could take nothing."""
    if not 1 <= len(senders) <= MOST_SENDERS:
        raise BadValue(f"an upload has 1 to {MOST_SENDERS} senders, not {len(senders)}")
    names = [new.name for new in senders]
    for new in senders:
        if not _NAME.fullmatch(new.name):
            raise BadName(f"{new.name!r} is not the name of a sender: 1 to 60 letters, digits, dots, _ and -")
        if names.count(new.name) > 1:
            raise BadValue(f"two senders are called {new.name!r}")
        _check_sender(stream, new)


def _check_sender(stream: Stream, new: SenderRequest) -> None:
    stream.input(new.input)
    if new.format not in _FORMATS:
        raise BadValue(f"format={new.format!r}: it is {' or '.join(_FORMATS)}")
    if type(new.first_line) is not int or not 1 <= new.first_line <= LARGEST:
        raise BadValue(f"first_line={new.first_line!r}: lines are numbered from 1")
    if new.columns is not None:
        _check_columns(stream, new.input, new.format, new.columns)


def check_columns(stream: Stream, sender: UploadSender, columns: Sequence[str]) -> None:
    """Raise when these cannot be the columns of the sender, or are not those that it has said before."""
    _check_columns(stream, sender.input, sender.format, columns)
    if sender.columns is not None and sender.columns != tuple(columns):
        raise BadValue(f"sender {sender.name} has said other columns before: {', '.join(sender.columns)}")


def _check_columns(stream: Stream, input: str, format: str, columns: Sequence[str]) -> None:
    if format != "csv":
        raise BadValue("JSON lines have no columns: leave them away")
    if len(columns) > MOST_COLUMNS or any(len(name) > LONGEST_COLUMN for name in columns):
        raise BadValue(f"at most {MOST_COLUMNS} columns, and {LONGEST_COLUMN} characters in the name of each")
    if any("\x00" in name or not _is_unicode(name) for name in columns):
        raise BadValue("the name of a column holds a NUL character or half of a character")
    found = stream.input(input)
    key = None if found.key == stream.upload_field else found.key
    reserved = [name for name in (stream.upload_field, stream.line_field) if name]
    columns_of(list(columns), found.schema, reserved, key)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_same(new: Sequence[SenderRequest], found: Sequence[UploadSender]) -> bool:
    """Whether an upload that is there has the senders that are asked for; columns may have been said since."""
    said = [(each.name, each.input, each.format) for each in new]
    if said != [(each.name, each.input, each.format) for each in found]:
        return False
    return all(
        each.columns is None or there.columns == tuple(each.columns) for each, there in zip(new, found, strict=True)
    )
