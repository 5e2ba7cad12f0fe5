"""Rows on their way through a segment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from towpath.flow.failure import Failure
from towpath.flow.text.changes import copied
from towpath.flow.worker.records import Records

Document = dict[str, Any]


@dataclass(slots=True)
class Chunk:
    """Some rows with the inputs that they come from.

    `inputs[i]` is the place in `records` of the input of row i; the rows of one input stand together. `befores[i]` is
    the document as the segment got it and `documents[i]` as it is now: what differs is spliced into the record's text.
    An input that has failed has no rows any more.
    """

    records: Records
    inputs: Sequence[int]
    documents: list[Document]
    befores: list[Document]
    failed: dict[int, Failure] = field(default_factory=dict)
    columns: list[pa.Array] = field(default_factory=list)  # the rows as columns, until a function has changed them
    filtered: Counter[str] = field(default_factory=Counter)  # inputs without rows, by the step that gave none
    gone: dict[int, str] = field(default_factory=dict)  # the same one by one, where something has come back
    siblings: dict[str, Collection[int]] = field(default_factory=dict)  # inputs by output, where there are several
    kin: dict[int, list[bytes]] = field(default_factory=dict)  # delivery ids, of inputs that have several
    tags: list[int | str] | None = None  # of rows from several branches: the branch of each

    def fail(self, failures: dict[int, Failure]) -> None:
        """Take out all rows of these inputs."""
        if failures:
            self.failed.update(failures)
            self.keep([row for row, input in enumerate(self.inputs) if input not in failures])

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these rows only."""
        self.inputs = [self.inputs[row] for row in rows]
        if self.columns:
            places = pa.array(rows, pa.int64())
            self.columns = [column.take(places) for column in self.columns]
        if self.tags is not None:
            self.tags = [self.tags[row] for row in rows]
        documents = [self.documents[row] for row in rows]
        # That nothing was changed shows by both being the same list: it saves looking for changes.
        self.befores = documents if self.befores is self.documents else [self.befores[row] for row in rows]
        self.documents = documents

    def only(self, rows: Sequence[int]) -> Chunk:
        """These rows with nothing but the records that they come from: for those who tell what was refused."""
        return Chunk(self.records, [self.inputs[row] for row in rows], [], [], siblings=self.siblings, kin=self.kin)

    def outputs_of(self, input: int) -> list[str]:
        """The outputs, where there are several, that were to get something of an input."""
        for output, inputs in self.siblings.items():
            if not isinstance(inputs, frozenset | range):
                self.siblings[output] = frozenset(inputs)
        return [output for output, inputs in self.siblings.items() if input in inputs]

    def count_inputs(self) -> int:
        """How many inputs have a row."""
        return len(self.inputs) if isinstance(self.inputs, range) else len(set(self.inputs))

    def ordinals(self) -> list[int]:
        """The running number of each row within its input."""
        if isinstance(self.inputs, range):
            return [0] * len(self.inputs)
        ordinals = [0] * min(1, len(self.inputs))
        for before, input in pairwise(self.inputs):
            ordinals.append(ordinals[-1] + 1 if input == before else 0)
        return ordinals

    def families(self) -> dict[int, list[int]]:
        """The rows of each input that has several."""
        if isinstance(self.inputs, range) or len(set(self.inputs)) == len(self.inputs):
            return {}
        rows: dict[int, list[int]] = {}
        for row, input in enumerate(self.inputs):
            rows.setdefault(input, []).append(row)
        return {input: some for input, some in rows.items() if len(some) > 1}

    def fork(self) -> Chunk:
        """The same rows for another output, whose functions may do to the documents what they want."""
        documents = [copied(document) for document in self.documents]
        return Chunk(self.records, self.inputs, documents, self.befores, tags=self.tags)

    def of(self, tag: int | str) -> Chunk:
        """The rows of one branch. Their documents are shared: fork it before a function gets them."""
        tags = self.tags or ()
        rows = [row for row, own in enumerate(tags) if own == tag]
        picked = Chunk(self.records, self.inputs, self.documents, self.befores)
        picked.keep(rows)
        return picked

    def view(self) -> Chunk:
        """The same rows for somebody who takes some of them out."""
        return Chunk(self.records, self.inputs, self.documents, self.befores, dict(self.failed), tags=self.tags)
