"""Who takes part, with the settings that were found best for each."""

from __future__ import annotations

from bench.environment import towpath_version
from bench.queue.field import TOWPATH, Counts, Entry, Store
from bench.queue.peers import PEERS

CLAIM_THEN_FINISH = "claim, then finish; a dead worker's message is claimed again"


def entries(store: Store) -> list[Entry]:
    """Everybody who takes part on `store`, Towpath first."""
    versions = PEERS.versions
    return _on_sqlite(versions) if store == Store.SQLITE else _on_postgres(versions)


def _on_sqlite(versions: dict[str, str]) -> list[Entry]:
    return [
        Entry(
            name=TOWPATH,
            version=towpath_version(),
            store=Store.SQLITE,
            module="towpath_queue",
            send_batch=1000,
            drain_batch=1000,
            counts=Counts(send=20_000, send_batches=60_000, drain_one=8_000, drain_best=50_000),
            settings="batched send and claim of 1,000; each claim finishes the batch before it (exchange)",
            contract=CLAIM_THEN_FINISH,
        ),
        Entry(
            name="litequeue",
            version=versions["litequeue"],
            store=Store.SQLITE,
            module="litequeue_sqlite",
            send_batch=1000,
            drain_batch=10,
            counts=Counts(send=10_000, send_batches=40_000, drain_one=2_500, drain_best=2_500),
            settings="batched send: put in transaction(); drain: pop ×10, then done ×10 in transaction(); "
            "pop sorts all that waits: drained from 2,500; polled every 1 ms",
            contract="claim, then done",
        ),
        Entry(
            name="huey",
            version=versions["huey"],
            store=Store.SQLITE,
            module="huey_sqlite",
            send_batch=0,
            drain_batch=1,
            counts=Counts(send=10_000, send_batches=0, drain_one=8_000, drain_best=8_000),
            settings="no batches; worker and result polled every 1 ms",
            contract="deleted before it is handled: a crash loses it",
        ),
        Entry(
            name="persist-queue",
            version=versions["persist-queue"],
            store=Store.SQLITE,
            module="persistqueue_sqlite",
            send_batch=0,
            drain_batch=1,
            counts=Counts(send=15_000, send_batches=0, drain_one=5_000, drain_best=5_000),
            settings="SQLiteAckQueue with JSON; no batches; "
            "get reads past all that was acknowledged: drained from 5,000; polled every 1 ms",
            contract="claim, then ack; one reading process only, as two get the same messages",
            two_workers=False,
        ),
    ]


def _on_postgres(versions: dict[str, str]) -> list[Entry]:
    return [
        Entry(
            name=TOWPATH,
            version=towpath_version(),
            store=Store.POSTGRES,
            module="towpath_queue",
            send_batch=5000,
            drain_batch=1000,
            counts=Counts(send=1_000, send_batches=30_000, drain_one=600, drain_best=30_000),
            settings="batched send of 5,000 by COPY; claims of 1,000, each finishing the batch before it (exchange)",
            contract=CLAIM_THEN_FINISH,
        ),
        Entry(
            name="procrastinate",
            version=versions["procrastinate"],
            store=Store.POSTGRES,
            module="procrastinate_postgres",
            send_batch=1000,
            drain_batch=10,
            counts=Counts(send=500, send_batches=5_000, drain_one=300, drain_best=400),
            settings="psycopg pool; worker concurrency 10 as its best batch",
            contract="claim, then finish",
        ),
        Entry(
            name="pgqueuer",
            version=versions["pgqueuer"],
            store=Store.POSTGRES,
            module="pgqueuer_postgres",
            send_batch=1000,
            drain_batch=1000,
            counts=Counts(send=1_000, send_batches=20_000, drain_one=400, drain_best=10_000),
            settings="asyncpg and uvloop; batch_size 1,000",
            contract="claim, then finish",
        ),
        Entry(
            name="pgqrs",
            version=versions["pgqrs"],
            store=Store.POSTGRES,
            module="pgqrs_postgres",
            send_batch=2000,
            drain_batch=2000,
            counts=Counts(send=1_000, send_batches=20_000, drain_one=500, drain_best=20_000),
            settings="dequeue and archive_many of 2,000; send limit off; polled every 1 ms",
            contract="claim, then archive",
        ),
        Entry(
            name="dbos",
            version=versions["dbos"],
            store=Store.POSTGRES,
            module="dbos_postgres",
            send_batch=0,
            drain_batch=100,
            counts=Counts(send=200, send_batches=0, drain_one=60, drain_best=200),
            settings="no batched send; worker_concurrency 100 as its best batch; queue and result polled every 5 ms",
            contract="a workflow per message, recovered after a crash",
        ),
    ]
