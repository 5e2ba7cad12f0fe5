"""Calls a user's function with state. What it does to the state counts only if it succeeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson
import pyarrow as pa

from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure
from towpath.flow.nodes import Source
from towpath.flow.reentry_record import INPUT_TOPIC, STAGE, said_by
from towpath.flow.stateful.keeper import ShardState
from towpath.flow.stateful.parts import Parts
from towpath.flow.stateful.stateful_step import Moment, StatefulStep
from towpath.flow.stateful.verdict import VERDICT, Verdict, is_settled
from towpath.flow.text.reading import read_documents
from towpath.flow.worker.records import Records

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StepKeeper:
    """One step of a stage. `reentry`: the topic of what comes back, of which the stage takes what is its own."""

    source: Source
    step: StatefulStep
    stage: str
    reentry: str
    max_bytes: int

    def keys(self, records: pa.RecordBatch) -> list[bytes | None]:
        keys = Parts(records).of(self.step.key)
        taken = self._taken(Records.of_batch(records))
        return [key if is_taken else None for key, is_taken in zip(keys, taken, strict=True)]

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[Verdict | None]:
        [batch] = records.to_batches() or [None]
        if batch is None:
            return []
        self._forget(state, now_ms)
        read, settled = Records.of_batch(batch), records.column(VERDICT).to_pylist()
        is_mine = [is_taken and not is_settled(text) for is_taken, text in zip(self._taken(read), settled, strict=True)]
        said: list[Verdict | None] = [None] * len(read)
        wants_moment = self.step.wants_moment
        for at, document in self._documents(read, is_mine):
            key = keys[at]
            if key is None:
                said[at] = self._failed(KeyError(f"the record has no {self.step.key}, by which its state is known"))
            else:
                moment = (self._moment(read, at, key, now_ms),) if wants_moment else ()
                said[at] = self._called(document, key, moment, state, now_ms)
        return said

    def _taken(self, records: Records) -> list[bool]:
        """Whether each record is one of the source's: of its topics, or come back to this stage."""
        return [
            topic in self.source.topics or (topic == self.reentry and self._is_back(said_by(records.headers(at))))
            for at, topic in enumerate(records.topics)
        ]

    def _is_back(self, said: Mapping[str, str]) -> bool:
        return said.get(STAGE) == self.stage and said.get(INPUT_TOPIC) in self.source.topics

    def _documents(self, records: Records, is_mine: Sequence[bool]) -> list[tuple[int, Document]]:
        """What the function is called with. What cannot be read or does not fit fails later, when it is read again."""
        places = [at for at, mine in enumerate(is_mine) if mine]
        documents, failures = read_documents(
            [records.values[at] for at in places],
            step=self.source.name,
            max_bytes=self.max_bytes,
            duplicates=self.source.duplicates,
        )
        good = [row for row in range(len(places)) if row not in failures]
        fitting = cast(list[Document], [documents[row] for row in good])
        if self.source.schema is not None:
            _, unfit = self.source.schema.columns(fitting, step=self.source.name)
            good = [row for at, row in enumerate(good) if at not in unfit]
        return [(places[row], cast(Document, documents[row])) for row in good]

    def _called(
        self, document: Document, key: bytes, moment: tuple[Moment, ...], state: ShardState, now_ms: int
    ) -> Verdict:
        kept = state.get(key)
        mine: Document = orjson.loads(kept[1]) if kept is not None else {}
        try:
            several = _several(self.step.function(document, mine, *moment))
            text = orjson.dumps(mine)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            return self._failed(error)
        if mine:
            state[key] = [now_ms, text]
        else:
            state.pop(key, None)
        return Verdict(given=several)

    def _moment(self, records: Records, at: int, key: bytes, now_ms: int) -> Moment:
        topic, partition, offset = records.coordinates(at)
        return Moment(key, now_ms, topic, partition, offset, records.timestamps_ms[at], topic == self.reentry)

    def _failed(self, error: BaseException) -> Verdict:
        return Verdict(failure=Failure.of(ErrorCode.TRANSFORM_FAILED, self.step.name, error))

    def _forget(self, state: ShardState, now_ms: int) -> None:
        """Drop what has expired, of all keys of the shard: that is when it is looked at."""
        if self.step.expire_s is None:
            return
        oldest = now_ms - self.step.expire_s * 1000
        for key in [key for key, (touched_ms, _) in state.items() if touched_ms <= oldest]:
            del state[key]


def _several(given: Any) -> list[Document]:
    if given is None:
        return []
    several = [given] if type(given) is dict else given
    if isinstance(several, list | tuple) and all(type(one) is dict for one in several):
        return list(several)
    raise TypeError(f"gave {type(given).__name__}; a stateful step returns a dict, a list of dicts, or None")
