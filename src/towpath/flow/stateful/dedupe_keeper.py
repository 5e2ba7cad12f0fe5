"""Finds what a sender has sent before, in the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from towpath.flow.stateful.dedupe import Dedupe
from towpath.flow.stateful.keeper import ShardState
from towpath.flow.stateful.kept_key import rounded_up
from towpath.flow.stateful.parts import Parts
from towpath.flow.stateful.rule import Numbered, Rule
from towpath.flow.stateful.tick import Tick
from towpath.flow.stateful.verdict import VERDICT, Verdict, is_settled

TOUCHED = b"\0touched"  # among the senders, and none of them: when each that may be forgotten has last sent something


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
        if self.is_timed:
            self._forget(state, now_ms)
        topics = records.column("topic").to_pylist()
        settled = _settled(records)
        said: list[Verdict | None] = [None] * len(topics)
        parts = Parts(records)
        for rule in _once(self.rules):
            for at, record in enumerate(_numbered(parts, rule.dedupe)):
                if self.rules.get(topics[at]) is rule and at not in settled:
                    said[at] = rule.decide(record, state)
        if self.is_timed:
            self._touch(keys, state, now_ms)
        else:
            state.pop(TOUCHED, None)  # it would be out of date, should senders be forgotten again one day
        return said

    # Senders that are forgotten

    @property
    def is_timed(self) -> bool:
        return any(rule.dedupe.forget_after_s is not None for rule in self.rules.values())

    def due(self, state: ShardState) -> list[int]:
        """One tick does for the whole shard, late by a tenth of the time at most."""
        waits = ((time, self._wait_ms(key)) for key, time in state.get(TOUCHED, {}).items())
        times = [rounded_up(time + wait_ms, wait_ms) for time, wait_ms in waits if wait_ms is not None]
        return [min(times)] if times else []

    def wake(self, ticks: Sequence[Tick], state: ShardState, now_ms: int) -> list[Verdict]:
        """Those whose time was over are gone already: the whole shard is looked through before its records."""
        return [Verdict(given=[], by=_once(self.rules)[0].source) for _ in ticks]

    def _forget(self, state: ShardState, now_ms: int) -> None:
        touched = state.get(TOUCHED, {})
        for key, time in list(touched.items()):
            wait_ms = self._wait_ms(key)
            if wait_ms is not None and time + wait_ms <= now_ms:
                del touched[key]
                state.pop(key, None)

    def _touch(self, keys: Sequence[bytes | None], state: ShardState, now_ms: int) -> None:
        touched = state.setdefault(TOUCHED, {})
        for key in (*keys, *(key for key in state if key not in touched)):
            if key in state and key != TOUCHED and self._wait_ms(key) is not None:
                touched[key] = now_ms
        if not touched:
            del state[TOUCHED]

    def _wait_ms(self, key: bytes) -> int | None:
        """After what time a sender is forgotten; None: never."""
        for rule in _once(self.rules):
            if key.startswith(rule.key(b"")) and rule.dedupe.forget_after_s is not None:
                return round(rule.dedupe.forget_after_s * 1000)
        return None


def _once(rules: Mapping[str, Rule]) -> list[Rule]:
    return list({id(rule): rule for rule in rules.values()}.values())


def _settled(records: pa.Table) -> set[int]:
    """What a block rule keeps out has not been sent, as far as its sender's numbers go."""
    if VERDICT not in records.column_names or (column := records.column(VERDICT)).null_count == len(records):
        return set()
    return {at for at, text in enumerate(column.to_pylist()) if is_settled(text)}


def _numbered(parts: Parts, dedupe: Dedupe) -> list[Numbered]:
    senders = parts.of(dedupe.sender)
    epochs = [0] * len(senders) if dedupe.epoch is None else parts.numbers(dedupe.epoch)
    return [*map(Numbered, senders, parts.numbers(dedupe.sequence), epochs)]
