"""For each crash point: work that passes it, and what the complete tables must say when others have taken over."""

from __future__ import annotations

from tests.recovery.scenario import Scenario
from tests.recovery.traffic import Handling, HandlingInBatches, HandlingSeveral, Sending, SendingMany
from tests.recovery.upkeep import Cleaning, Freeing, Migrating, Operating, Reaping

from towpath.core.crash import CrashPoint

ONE = (1,)
# What a single statement does (claim, give back or finish a notice) is its own commit: "before" is then after it.
EITHER = (0, 1)

_P = CrashPoint

SCENARIOS: dict[CrashPoint, tuple[Scenario, ...]] = {
    _P.SEND_BEFORE_COMMIT: (Sending(1), Sending(3), SendingMany(2)),
    _P.SEND_AFTER_COMMIT: (Sending(3), SendingMany(2)),
    _P.CLAIM_BEFORE_COMMIT: (Handling(1, left=EITHER), Handling(3, is_request=False, left=EITHER, threads=1)),
    _P.CLAIM_AFTER_COMMIT: (
        Handling(1, left=ONE),
        Handling(3, is_request=False, left=ONE, threads=1),
        HandlingInBatches(2, left=1),
    ),
    _P.HANDLER_DONE: (
        Handling(1, left=ONE, is_handled=True),
        Handling(3, is_request=False, left=ONE, is_handled=True),
        HandlingSeveral(5),
    ),
    _P.FINISH_BEFORE_COMMIT: (
        Handling(1, left=ONE, is_handled=True, threads=1),
        Handling(2, is_request=False, left=EITHER, is_handled=True, threads=1),
        Handling(2, function="fail", left=ONE, is_handled=True),
        HandlingInBatches(2, left=1, is_handled=True),
        HandlingSeveral(5),
    ),
    _P.FINISH_AFTER_COMMIT: (Handling(1, threads=1), Handling(2, function="fail")),
    _P.EXCHANGE_BEFORE_COMMIT: (
        Handling(1, left=ONE, is_handled=True),
        Handling(3, is_request=False, left=ONE, is_handled=True),
        HandlingInBatches(2, act="exchange_batches", left=1, is_handled=True),
    ),
    _P.EXCHANGE_AFTER_COMMIT: (
        Handling(1, left=ONE),
        Handling(3, is_request=False, left=ONE),
        HandlingInBatches(1, act="exchange_batches", left=1, extra=3),
    ),
    _P.RELEASE_BEFORE_COMMIT: (
        Handling(1, function="later", left=ONE),
        Handling(2, function="later", is_request=False, left=EITHER),
    ),
    _P.RELEASE_AFTER_COMMIT: (Handling(1, function="later"), HandlingSeveral(2)),
    _P.DEATH_MARKED: (Freeing(1),),
    _P.FREE_BEFORE_COMMIT: (Freeing(1), Freeing(2)),
    _P.FREE_AFTER_COMMIT: (Freeing(1),),
    _P.REAP_BEFORE_COMMIT: (Reaping(1), Reaping(2)),
    _P.REAP_AFTER_COMMIT: (Reaping(1),),
    _P.CLEAN_BEFORE_COMMIT: (Cleaning(1), Cleaning(2)),
    _P.CLEAN_AFTER_COMMIT: (Cleaning(1),),
    _P.OPERATE_BEFORE_COMMIT: tuple(map(Operating, (1, 2, 3, 4))),
    _P.OPERATE_AFTER_COMMIT: (Operating(4),),
    _P.MIGRATE_BEFORE_COMMIT: (Migrating(2),),
    _P.MIGRATE_AFTER_COMMIT: (Migrating(1),),
}
