"""Ends deletions that were cut off, and forgets data sets that were deleted long ago."""

from __future__ import annotations

from towpath.catalog.data_sets import DataSets
from towpath.events import Events
from towpath.service import Result, Service
from towpath.settings import CatalogSettings


class DataSetJanitor(Service):
    """Runs in every process that claims; two at once only share the work."""

    name = "data set janitor"

    def __init__(self, data_sets: DataSets, settings: CatalogSettings, events: Events) -> None:
        super().__init__(events)
        self._data_sets = data_sets
        self._settings = settings

    def run_once(self) -> Result:
        done = self._data_sets.sweep()
        if self._settings.retention_s is not None:
            done += self._data_sets.forget(self._settings.retention_s)
        return Result(done, self._settings.janitor_s)
