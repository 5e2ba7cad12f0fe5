"""How rows come to an output where they can come by several ways, or where several outputs share a part of the way.

A call that several ways have in common is made once for a row: what it gives is kept until the chunk is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from towpath.flow.failure import Failure
from towpath.flow.sinks.sink import Deliveries, Sink
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.calling import Call, Caller
from towpath.flow.worker.chunk import Chunk
from towpath.flow.worker.preparing import Columns, Preparer


@dataclass(frozen=True, slots=True)
class Way:
    """The calls from a branch to an output; a name between them is the output of the last call that is taken."""

    branch: int | None  # None: there is but one
    hops: tuple[Call | str, ...]
    columns: Columns


class Walk:
    """One chunk on all its ways."""

    def __init__(self, chunk: Chunk, callers: Mapping[int, Caller]) -> None:
        self._chunk = chunk
        self._callers = callers
        self._come: dict[tuple[int | str | None, ...], Chunk] = {}

    def end(self, way: Way) -> Chunk:
        """The rows that come to the end of a way, and the inputs that have failed on it."""
        key: tuple[int | str | None, ...] = (way.branch,)
        come = self._come.get(key)
        if come is None:
            come = self._come[key] = self._chunk.view() if way.branch is None else self._chunk.of(way.branch)
        for hop in way.hops:
            key = (*key, hop if isinstance(hop, str) else id(hop))
            after = self._come.get(key)
            if after is None:
                after = self._come[key] = self._hop(come, hop)
            come = after
        return come.view()

    def _hop(self, come: Chunk, hop: Call | str) -> Chunk:
        if isinstance(hop, str):
            after = come.of(hop)
        else:
            after = come.fork()
            self._callers[id(hop)].run(after)
        after.failed = {**come.failed, **after.failed}
        return after


class Alternatives:
    """Makes the deliveries of one output of what has come to it by several ways."""

    def __init__(self, output: str, sink: Sink, ways: Sequence[Way], batch: BatchPlace) -> None:
        self._preparers = [Preparer(output, sink, way.columns, batch) for way in ways]

    def deliveries(self, chunks: Sequence[Chunk]) -> tuple[Deliveries, Chunk]:
        """The deliveries, and the rows of all chunks as one, with what has failed."""
        while True:
            failed: dict[int, Failure] = {}
            pairs = list(zip(self._preparers, chunks, strict=True))
            texts = [preparer.payloads(chunk, failed) for preparer, chunk in pairs]
            merged, payloads = merge(chunks, texts)
            made = self._preparers[0].named(merged, payloads, failed)
            if not failed:
                merged.failed = {input: failure for chunk in chunks for input, failure in chunk.failed.items()}
                return made, merged
            for chunk in chunks:
                chunk.fail(failed)


def merge(chunks: Sequence[Chunk], texts: Sequence[list[bytes]]) -> tuple[Chunk, list[bytes]]:
    """The rows of several chunks of the same records, those of one input together, in the order of the chunks."""
    if len(chunks) == 1:
        return chunks[0], texts[0]
    rows = sorted((input, at, row) for at, chunk in enumerate(chunks) for row, input in enumerate(chunk.inputs))
    documents = [chunks[at].documents[row] for _, at, row in rows]
    befores = [chunks[at].befores[row] for _, at, row in rows]
    merged = Chunk(chunks[0].records, [input for input, _, _ in rows], documents, befores)
    return merged, [texts[at][row] for _, at, row in rows]
