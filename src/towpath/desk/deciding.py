"""From what the rules of a flow decide to what is done: a state, a lane, a mended body."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from towpath.clock import MICROS
from towpath.db import Transaction
from towpath.desk.case import ERROR
from towpath.desk.case_state import CaseState
from towpath.desk.decision import Again, Correct, Decision, Ignore, Isolate, Salvage
from towpath.desk.mending import Mended, Mender, salvaged
from towpath.desk.parking import Key
from towpath.desk.policies import Policies
from towpath.desk.sending import Sends
from towpath.desk.told import Told

KEY_HELD = "KeyHeld"  # what `flow.ordering` says of a record that it has not tried; that module needs Spark


class Way(NamedTuple):
    """Where an error goes."""

    state: CaseState
    rule: str | None = None
    lane: int | None = None
    due_at: int | None = None
    approved_by: str | None = None
    mended: Mended | None = None
    behind: str | None = None  # the case of its key that must be settled first

    @property
    def is_sent(self) -> bool:
        return self.state in (CaseState.WAITING, CaseState.REPLAYING)


OPEN = Way(CaseState.OPEN)


@dataclass(slots=True)
class Deciding:
    """Asks the rules, within one transaction: a delay that no lane has yet makes one."""

    tx: Transaction
    flow: str
    policies: Policies
    sends: Sends
    mender: Mender
    now: int
    last: dict[Key, str]  # where records of a key keep their order: its last case that is not settled
    _lanes: dict[tuple[float, float], int] = field(default_factory=dict)  # by delay and jitter

    def first_way(self, told: Told) -> Way:
        """What is to be done about a first failure. Behind another record of its key it has to wait for that one."""
        if told.key_hash is None:
            return self.way(told, 1)
        key = (told.stage, told.key_hash)
        way = self._held(self.last.get(key)) if told.failure.exception == KEY_HELD else self._behind(told, key)
        if way.state is not CaseState.IGNORED:
            self.last[key] = told.case_id
        return way

    def _behind(self, told: Told, key: Key) -> Way:
        before = self.last.get(key)
        if before is None:
            return self.way(told, 1)
        way = self._plain(told)
        return way if way.state is CaseState.IGNORED else Way(CaseState.PARKED, behind=before)

    def _held(self, before: str | None) -> Way:
        """The flow has not even tried it. When the one that it waits for is settled by now, it can go on."""
        return Way(CaseState.REPLAYING) if before is None else Way(CaseState.PARKED, behind=before)

    def _plain(self, told: Told) -> Way:
        """What a rule says, unless it is to be sent: no lane is made for that."""
        if not self.policies.rules.get(self.flow):
            return OPEN
        decided = self.policies.decide(self.flow, told.failure, 1, told.record, is_mended=True)
        return self._way(decided, told) if isinstance(decided, Ignore) else OPEN

    def way(self, told: Told, attempts: int, *, is_mended: bool = False) -> Way:
        """What is to be done about a failure; `attempts` counts it too. Only errors can be sent anywhere."""
        if told.kind != ERROR or not self.policies.rules.get(self.flow):
            return OPEN
        is_mended = is_mended or told.is_mended
        decided = self.policies.decide(self.flow, told.failure, attempts, told.record, is_mended=is_mended)
        return self._way(decided, told)

    def _way(self, decision: Decision, told: Told) -> Way:
        match decision:
            case Isolate(rule):
                return Way(CaseState.OPEN, rule)
            case Ignore(rule, approved_by):
                return Way(CaseState.IGNORED, rule, approved_by=approved_by)
            case Again(None, rule):
                return Way(CaseState.REPLAYING, rule)
            case Again(delay_s, rule, jitter_s):
                delay_s = delay_s or 0.0
                lane = self._lane(delay_s, jitter_s)
                return Way(CaseState.WAITING, rule, lane, self.now + round(delay_s * MICROS))
            case Correct() | Salvage():
                return self._mended(decision, told)

    def _lane(self, delay_s: float, jitter_s: float) -> int:
        if (delay_s, jitter_s) not in self._lanes:
            self._lanes[delay_s, jitter_s] = self.sends.lane(self.tx, self.flow, delay_s, jitter_s)
        return self._lanes[delay_s, jitter_s]

    def _mended(self, decision: Correct | Salvage, told: Told) -> Way:
        value = told.record.value
        mended = None
        if value is not None and isinstance(decision, Salvage):
            mended = salvaged(value, decision.fields, decision.rule)
        elif value is not None:
            mended = self.mender.automatic(told.flow, told.stage, value, told.failure)
        if mended is None:
            return self._way(decision.then, told)
        return Way(CaseState.REPLAYING, decision.rule, mended=mended)
