"""Which failures are new cases, which belong to one that is known, and which were told before. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from towpath.desk.case import GAP, Case
from towpath.desk.told import Told


class Sorted(NamedTuple):
    """All that was told is in one of the three."""

    new: list[Told]
    again: list[tuple[Told, Case]]  # with the case as it was before
    repeats: int


def sort(
    told: Iterable[Told], known: Mapping[str, Case], there: Collection[str], batches: Collection[tuple[str, str]]
) -> Sorted:
    """Put each to its case.

    `known` are the cases whose ids came as correlation ids, `there` the ids of new ones that have a case already, and
    `batches` the hashes of the batches in which known ones have failed, each with the id of its case.
    """
    new: list[Told] = []
    again: dict[str, tuple[Told, Case]] = {}
    seen, repeats = set(there), 0
    for each in told:
        case = known.get(each.correlation)
        if case is not None and not _fits(each, case):
            case = None
        if case is not None and _is_repeat(each, case, batches, again):
            repeats += 1
        elif case is not None and not case.state.is_settled:
            again[case.id] = (each, case)
        elif each.case_id in seen:
            repeats += 1
        else:
            seen.add(each.case_id)
            new.append(each)
    return Sorted(new, list(again.values()), repeats)


def _fits(told: Told, case: Case) -> bool:
    """What somebody else has sent under the id of a case is not that case."""
    return told.flow == case.flow and told.stage == case.stage and told.kind == case.kind != GAP


def _is_repeat(
    told: Told, case: Case, batches: Collection[tuple[str, str]], again: Mapping[str, tuple[Told, Case]]
) -> bool:
    """Told before in the same batch, or read again, after a reset, by a later one: a try counts once."""
    return (case.id, told.hash) in batches or told.attempt <= case.attempts or case.id in again
