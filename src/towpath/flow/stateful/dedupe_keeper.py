"""Finds what a sender has sent before, in the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from towpath.flow.stateful.dedupe import Dedupe
from towpath.flow.stateful.keeper import ShardState
from towpath.flow.stateful.parts import Parts
from towpath.flow.stateful.rule import Numbered, Rule
from towpath.flow.stateful.verdict import Verdict


@dataclass(frozen=True, slots=True)
class DedupeKeeper:
    """All rules of a stage, by topic. What comes back from the desk was taken before, and is in none of the topics."""

    rules: Mapping[str, Rule]

    def keys(self, records: pa.RecordBatch) -> list[bytes | None]:
        topics = records.column("topic").to_pylist()
        keys: list[bytes | None] = [None] * len(topics)
        parts = Parts(records)
        for rule in _once(self.rules):
            for at, sender in enumerate(parts.of(rule.dedupe.sender)):
                if sender is not None and self.rules.get(topics[at]) is rule:
                    keys[at] = rule.key(sender)
        return keys

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[Verdict | None]:
        topics = records.column("topic").to_pylist()
        said: list[Verdict | None] = [None] * len(topics)
        parts = Parts(records)
        for rule in _once(self.rules):
            for at, record in enumerate(_numbered(parts, rule.dedupe)):
                if self.rules.get(topics[at]) is rule:
                    said[at] = rule.decide(record, state)
        return said


def _once(rules: Mapping[str, Rule]) -> list[Rule]:
    return list({id(rule): rule for rule in rules.values()}.values())


def _numbered(parts: Parts, dedupe: Dedupe) -> list[Numbered]:
    senders = parts.of(dedupe.sender)
    epochs = [0] * len(senders) if dedupe.epoch is None else parts.numbers(dedupe.epoch)
    return [*map(Numbered, senders, parts.numbers(dedupe.sequence), epochs)]
