"""The streams of the settings: what clients may send, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from towpath.errors import BadFlow, BadName, BadSettings, UnknownStream
from towpath.flow.text import ddl
from towpath.flow.text.nested import Struct
from towpath.log.topic import check_topic_name
from towpath.settings import GatewaySettings, InputSettings, StreamSettings


@dataclass(frozen=True)
class Input:
    """One of the topics of a stream."""

    name: str
    topic: str
    partitions: int | None
    schema: Struct | None
    ddl: str
    key: str | None
    after: tuple[str, ...]


@dataclass(frozen=True)
class Stream:
    """One kind of upload."""

    name: str
    flow: str
    upload_field: str
    line_field: str
    results: tuple[str, ...]
    wait_for_replays_s: float | None
    inputs: Mapping[str, Input]

    def input(self, name: str) -> Input:
        """One of them; raises `UnknownStream`."""
        if name not in self.inputs:
            raise UnknownStream(name, self.inputs, f"input of stream {self.name!r} called")
        return self.inputs[name]


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
        """Those whose uploads close when that flow has passed them."""
        return [stream for stream in self._streams.values() if stream.flow == flow]


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


def _input(stream: str, name: str, told: InputSettings, of: StreamSettings) -> Input:
    place = f"gateway.streams.{stream}.inputs.{name}"
    topic = told.topic or (stream if name == stream else f"{stream}.{name}")
    try:
        check_topic_name(topic)
        schema = ddl.parsed(told.ddl) if told.ddl else None
    except (BadName, BadFlow) as error:
        raise BadSettings(f"{place}: {error}") from error
    reserved = {of.upload_field, of.line_field}
    taken = [] if schema is None else [field.name for field in schema.fields if field.name in reserved]
    if taken:
        raise BadSettings(f"{place}.schema: {taken[0]} is the name of a field that the gateway puts into each record")
    return Input(name, topic, told.partitions, schema, told.ddl, told.key or None, tuple(told.after))
