"""Data sets: what runs have made, and what was made from it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from towpath.catalog.data_sets.store import DataSet, DataSetState
from towpath.operations.catalog import data_set_item, lineage_item
from towpath.operations.model import Item, Page, Reason, page
from towpath.web.auth import DataKeeper, Reader, runtime_of
from towpath.web.changes import Maker
from towpath.web.failures import PREFIX, Before, Limit

router = APIRouter(prefix=f"{PREFIX}/data-sets", tags=["data sets"])

Id = Annotated[str, Path(max_length=100)]
Text = Annotated[str | None, Query(max_length=300)]


@router.get("")
def data_sets(
    request: Request,
    principal: Reader,
    kind: Text = None,
    subject: Annotated[str | None, Query(max_length=300, description="What it is about; needs a kind.")] = None,
    state: DataSetState | None = None,
    limit: Limit = 100,
    before: Before = None,
) -> Page[Item]:
    """Data sets, the newest first."""
    found = runtime_of(request).data_sets.list(kind=kind, subject=subject, state=state, before=before, limit=limit + 1)
    return page(found, limit, data_set_item)


@router.get("/{data_set}")
def show(request: Request, data_set: Id, principal: Reader) -> Item:
    """One data set: where it is and who made it, what it was made from, and what was made from it."""
    return lineage_item(runtime_of(request).data_sets.show(data_set))


@router.post("/{data_set}/delete", response_model=Item)
def delete(request: Request, data_set: Id, sent: Reason, principal: DataKeeper, maker: Maker) -> Response:
    """Remove all that it is; its row stays for a while, as deleted. Refused while something is made from it."""
    data_sets = runtime_of(request).data_sets

    def show(made: DataSet | None) -> Item:
        return data_set_item(made or data_sets.show(data_set).data_set)  # what was cut off ends by itself

    return maker.make("delete data set", data_set, lambda: data_sets.delete(data_set, **maker.by(sent.why)), show)
