"""What the coordinator reads before each look: all duties, and the beats of their processes."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.clock import MICROS
from towpath.db import Database
from towpath.db.processes import Beat, ProcessStore
from towpath.settings import SupervisionSettings
from towpath.supervision.duty import Duty
from towpath.supervision.duty_cache import DutyCache
from towpath.supervision.duty_state import DutyState
from towpath.supervision.watch import Exit, Watched


@dataclass(frozen=True, slots=True)
class Reading:
    """All duties and beats at one moment, by the database's time."""

    now_us: int
    duties: dict[str, Duty]
    beats: dict[str, Beat]  # by process id

    def beat_of(self, duty: Duty) -> Beat | None:
        return self.beats.get(duty.process_id or "")

    def age_s(self, at_us: int | None) -> float:
        return 0.0 if at_us is None else (self.now_us - at_us) / MICROS


def read(database: Database, duties: DutyCache, processes: ProcessStore) -> Reading:
    """Beats first: a process that registers in between has no beat yet, and not a beat without its duty."""
    with database.beats.glance() as tx:
        beats = processes.beats(tx)
    found = duties.all()
    return Reading(database.now(), {duty.name: duty for duty in found}, {beat.process_id: beat for beat in beats})


def watched(reading: Reading, duty: Duty, *, is_being_started: bool = False) -> Watched:
    """A duty as the watch takes it; `is_being_started` when its launcher is at it this moment, however slow it is."""
    beat = reading.beat_of(duty)
    return Watched(
        name=duty.name,
        state=duty.state,
        launch=duty.launch,
        is_wanted=duty.is_wanted,
        is_replaced=duty.is_replaced,
        reports=duty.spec.reports or beat is not None,
        can_be_pinged=beat is not None and beat.ping_address is not None,
        is_launched=duty.handle is not None or duty.has_exited or is_being_started,
        launched_s=reading.age_s(duty.launched_us),
        in_state_s=reading.age_s(duty.updated_us),
        grace_s=duty.spec.grace_s,
        ready_s=None if duty.ready_us is None else reading.age_s(duty.ready_us),
        beat_s=None if beat is None else reading.age_s(beat.beat_us),
        exit=Exit(duty.exit_code, duty.exit_signal) if duty.has_exited else None,
        early_deaths=duty.early_deaths,
        next_try_s=-reading.age_s(duty.next_try_us),
    )


def is_settled(reading: Reading, duty: Duty, settings: SupervisionSettings) -> bool:
    """Whether a process that cannot say that it is ready has run for long enough."""
    is_silent_start = duty.state is DutyState.STARTING and not duty.spec.reports and duty.handle is not None
    return is_silent_start and not duty.has_exited and reading.age_s(duty.launched_us) >= settings.settle_s
