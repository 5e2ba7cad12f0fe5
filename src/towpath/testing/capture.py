"""A sink that writes down what it is handed, for tests to look at."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from towpath.flow.sinks.sink import Deliveries, Place, Refusal, Sink
from towpath.flow.template import Template
from towpath.settings import Settings


class Loaded(NamedTuple):
    """One delivery as the sink would have got it."""

    target: str
    id: str
    document: dict[str, Any]
    payload: bytes


@dataclass(frozen=True, slots=True)
class Capture:
    """Stands in for another sink: names and ids are made as for that one."""

    target: Template
    id: Template | None
    routing: Template | None
    directory: str
    is_idempotent: bool = True
    may_refuse: bool = False

    @classmethod
    def of(cls, sink: Sink, directory: Path) -> Capture:
        return cls(sink.target, sink.id, sink.routing, str(directory))

    def check(self, settings: Settings) -> None:
        pass

    def writer(self, place: Place) -> CaptureWriter:
        return CaptureWriter(Path(self.directory, f"{_file_name(place.output)}-{_file_name(place.unit)}.jsonl"))

    def __str__(self) -> str:
        return f"a capture, instead of {self.target}"


@dataclass(slots=True)
class CaptureWriter:
    """Keeps deliveries, and writes them when the task is done."""

    path: Path
    lines: list[str] = field(default_factory=list)

    def write(self, deliveries: Deliveries) -> Iterable[Refusal]:
        columns = zip(deliveries.targets, deliveries.ids, deliveries.payloads, strict=True)
        self.lines += [json.dumps([target, id, payload.decode()]) for target, id, payload in columns]
        return ()

    def finish(self) -> Iterable[Refusal]:
        self.path.write_text("\n".join(self.lines), encoding="utf-8")
        return ()

    def close(self) -> None:
        pass


def captured(directory: Path, output: str) -> list[Loaded]:
    """What an output got, task by task."""
    found = []
    for path in sorted(directory.glob("*.jsonl")):
        if path.stem.rpartition("-")[0] == _file_name(output):
            for line in filter(None, path.read_text(encoding="utf-8").split("\n")):
                target, id, payload = json.loads(line)
                found.append(Loaded(target, id, orjson.loads(payload), payload.encode()))
    return found


def _file_name(output: str) -> str:
    return output.encode().hex()
