"""What a part begins with: the data sets of the part before it that nothing was made of yet."""

from __future__ import annotations

from examples.harvest.parts.order import Job, Order, origin_of

from towpath.catalog import DataSet, DataSets, DataSetState, Lineage
from towpath.errors import UnknownDataSet

MOST = 1_000


def begin_from_unused(job: Job, order: Order, id: str, kind: str, place: str, made_from: str) -> Lineage | None:
    """Begin a data set, or find the one that was begun; none when there is nothing to make it from."""
    data_sets = job.runtime.data_sets
    try:
        return data_sets.show(id)  # begun before: what it is made from was decided then
    except UnknownDataSet:
        parents = unused(data_sets, made_from, kind, order.sites if kind == "documents" else ())
    if not parents:
        return None
    data_sets.begin(
        id,
        kind=kind,
        subject=",".join(order.sites),
        origin=origin_of(job, order),
        place=place,
        parents=[parent.id for parent in parents],
    )
    return data_sets.show(id)


def unused(data_sets: DataSets, kind: str, used_by: str, subjects: tuple[str, ...]) -> list[DataSet]:
    """Data sets of a kind that are ready and of which no other was made that is, the oldest first.

    The newest alone would not do: only the one before it may know that a page is gone.
    """
    found = data_sets.list(kind=kind, state=DataSetState.READY, limit=MOST)
    wanted = [each for each in found if not subjects or each.subject in subjects]
    return [each for each in reversed(wanted) if not _is_used(data_sets, each, used_by)]


def _is_used(data_sets: DataSets, found: DataSet, used_by: str) -> bool:
    """Also by one that another has replaced: what was loaded stays loaded."""
    children = data_sets.show(found.id).children
    return any(child.kind == used_by and child.ready_at is not None for child in children)
