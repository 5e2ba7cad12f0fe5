"""The data sets of one database: what `runtime.data_sets` is, and the janitor that ends deletions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from towpath.catalog.data_sets.directory import SCHEME, remove_directory
from towpath.catalog.data_sets.store import DataSet, DataSetState, DataSetStore, Lineage
from towpath.core import crash
from towpath.core.clock import MICROS
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.errors import BadValue, UnknownDataSet, UnknownMessage
from towpath.queue.payload import check_id, check_name
from towpath.settings import CatalogSettings

Remover = Callable[[str, str], None]  # of place and id; doing it twice does no harm

SWEPT_AT_ONCE = 100
FORGOTTEN_AT_ONCE = 200


class DataSets:
    """All operations on data sets. Each change is one transaction with its event."""

    def __init__(self, database: Database, event_log: EventLog) -> None:
        self._database = database
        self._event_log = event_log
        self._store = DataSetStore(database)
        self._removers: dict[str, Remover] = {SCHEME: remove_directory}

    def removes(self, scheme: str, remover: Remover) -> None:
        """How what lies at places of this scheme is removed. Directories (`file:`) are known already."""
        self._removers[scheme] = remover

    # Making

    def begin(
        self, id: str, *, kind: str, place: str, subject: str = "", origin: str = "", parents: Iterable[str] = ()
    ) -> DataSet:
        """Say that it is being made; to be called before its first byte is written.

        Said again under the same id, by whoever goes on after a crash, it is the data set as it is: perhaps ready.
        """
        id, kind = check_id(id), check_name(kind, "kind of data set")
        if ":" not in place[1:]:
            raise BadValue(f"place={place!r}: write it as scheme:rest, such as file:/data/crawl-1")
        with self._database.transaction() as tx:
            found, is_new = self._store.begin(
                tx, id=id, kind=kind, subject=subject, origin=origin, place=place, parents=map(check_id, parents)
            )
            if is_new:
                self._record(tx, EventKind.DATA_SET_BEGUN, found)
            elif (found.kind, found.place) != (kind, place):
                raise BadValue(f"data set {id} is there already: a {found.kind} at {found.place}")
        return found

    def finish(
        self,
        id: str,
        *,
        records: int,
        bytes: int,
        facts: Mapping[str, Any] | None = None,
        tx: Transaction | None = None,
    ) -> DataSet:
        """Say that all of it is there and safe. What was ready in the same place is *deleted* with it: replaced."""
        if tx is not None:
            for before in self._store.replace(tx, check_id(id)):
                self._record(tx, EventKind.DATA_SET_REPLACED, before, why=before.reason or "")
            found = self._store.finish(tx, check_id(id), records, bytes, facts or {})
            self._record(tx, EventKind.DATA_SET_MADE, found)
            return found
        with self._database.transaction() as own:
            return self.finish(id, records=records, bytes=bytes, facts=facts, tx=own)

    # Looking

    def show(self, id: str) -> Lineage:
        """A data set with what it was made from and what was made from it; raises `UnknownDataSet`."""
        id = _known(id)
        with self._database.read() as tx:
            store = self._store
            return Lineage(store.read(tx, id), tuple(store.parents(tx, id)), tuple(store.children(tx, id)))

    def list(
        self,
        *,
        kind: str | None = None,
        subject: str | None = None,
        state: DataSetState | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[DataSet]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        if subject is not None and kind is None:
            raise BadValue("subject= needs kind=: a subject is one of its kind")
        with self._database.glance() as tx:
            return self._store.page(tx, kind=kind, subject=subject, state=state, before=before, limit=limit)

    def latest(self, kind: str, subject: str) -> DataSet | None:
        """The newest one that is ready."""
        found = self.list(kind=kind, subject=subject, state=DataSetState.READY, limit=1)
        return found[0] if found else None

    # Deleting

    def delete(self, id: str, *, who: str, why: str) -> DataSet:
        """Remove all that it is; its row stays, as *deleted*.

        `DataSetInUse` while something is being made from it. A deletion that was cut off is taken up again.
        """
        check_who(who)
        check_why(why)

        def act(tx: Transaction) -> DataSet:
            found = self._store.locked(tx, _known(id))
            self._remover(found)  # asked before anything is changed
            if found.state is not DataSetState.DELETING:
                found = self._store.begin_deletion(tx, found.id, f"deleted by {who}: {why}")
                self._record(tx, EventKind.DATA_SET_DELETED_BY_HAND, found, who, why)
            crash.here(CrashPoint.DATA_SET_DELETE_BEFORE_COMMIT)
            return found

        doomed = commit_by_hand(self._database, act)
        crash.here(CrashPoint.DATA_SET_DELETE_AFTER_COMMIT)
        return self._remove(doomed)

    def sweep(self) -> int:
        """End the deletions that were begun and cut off; how many they were."""
        with self._database.glance() as tx:
            doomed = self._store.unfinished_deletions(tx, SWEPT_AT_ONCE)
        known = [each for each in doomed if _scheme(each.place) in self._removers]
        for each in known:
            self._remove(each)
        return len(known)

    def forget(self, age_s: float) -> int:
        """Delete rows of data sets deleted so long ago, unless something was made from them; returns how many."""
        before_us, total = self._database.now() - int(age_s * MICROS), 0
        while True:
            with self._database.transaction() as tx:
                forgotten = self._store.forget(tx, before_us, FORGOTTEN_AT_ONCE)
            total += forgotten
            if not forgotten:
                return total

    def _remove(self, found: DataSet) -> DataSet:
        self._remover(found)(found.place, found.id)
        crash.here(CrashPoint.DATA_SET_REMOVED)
        with self._database.transaction() as tx:
            now = self._store.locked(tx, found.id)
            if now.state is DataSetState.DELETED:
                return now  # somebody else was at the same deletion, and was faster
            return self._store.end_deletion(tx, found.id)

    def _remover(self, found: DataSet) -> Remover:
        try:
            return self._removers[_scheme(found.place)]
        except KeyError:
            raise BadValue(
                f"data set {found.id} is at {found.place}, and nothing here knows how to remove that; "
                f"register it: data_sets.removes({_scheme(found.place)!r}, …)"
            ) from None

    def _record(self, tx: Transaction, kind: EventKind, found: DataSet, who: str = "towpath", why: str = "") -> None:
        data = {"kind": found.kind, "subject": found.subject, "origin": found.origin, "place": found.place}
        counts = {} if found.records is None else {"records": found.records, "bytes": found.bytes}
        self._event_log.record(tx, Event(kind, found.id, who, why, {**data, **counts}))


class DataSetJanitor(Service):
    """Ends deletions that were cut off, and forgets data sets that were deleted long ago.

    Runs in every process that claims messages; two at once only share the work.
    """

    name = "data set janitor"

    def __init__(self, data_sets: DataSets, settings: CatalogSettings, events: Events) -> None:
        super().__init__(events)
        self._data_sets = data_sets
        self._settings = settings

    def run_once(self) -> RoundResult:
        done = self._data_sets.sweep()
        if self._settings.retention_s is not None:
            done += self._data_sets.forget(self._settings.retention_s)
        return RoundResult(done, self._settings.janitor_s)


def _known(id: str) -> str:
    """The id, if it can be one; otherwise no data set has it."""
    try:
        return check_id(id)
    except UnknownMessage:
        raise UnknownDataSet(id) from None


def _scheme(place: str) -> str:
    return place.partition(":")[0]
