"""The second part: make documents of the pages that were not made documents of before."""

from __future__ import annotations

import json
from typing import Any

from examples.harvest.flows import DOCUMENTS, process_flow, run_to_end
from examples.harvest.parts.crawling import CRAWL
from examples.harvest.parts.java import start_spark
from examples.harvest.parts.order import Job, Order, id_of
from examples.harvest.parts.patience import patient
from examples.harvest.parts.publishing import publish
from examples.harvest.parts.unused import begin_from_unused

from towpath.catalog import DataSet
from towpath.log import Log

DOCUMENT_SET = "documents"


@patient
def process(job: Job) -> dict[str, Any]:
    """All crawls of these sites that nothing was made of yet, the oldest first."""
    order, runtime, id = Order.read(job.payload), job.runtime, id_of(job, DOCUMENT_SET)
    place = f"topic:{DOCUMENTS}#{id}"
    lineage = begin_from_unused(job, order, id, DOCUMENT_SET, place, CRAWL)
    if lineage is None:
        return {"data_set": None, "documents": 0, "why": "there is no crawl that nothing was made of yet"}
    if not lineage.data_set.is_ready:
        group = f"harvest-{id}"
        publish(runtime.log, group, lineage.parents, lambda sent: job.progress(10, f"{sent} pages on their way"))
        job.progress(20, "Spark")
        start_spark(runtime)
        run_to_end(runtime, process_flow())
        job.progress(90, "counting")
        records, size = _made(runtime.log, lineage.parents)
        runtime.data_sets.finish(id, records=records, bytes=size)
        runtime.log.forget_group(group)
    job.progress(100, "processed")
    return {"data_set": id, "documents": runtime.data_sets.show(id).data_set.records}


def _made(log: Log, crawls: tuple[DataSet, ...]) -> tuple[int, int]:
    """How many documents of these crawls there are, and their size in bytes."""
    ids = {crawl.id for crawl in crawls}
    sizes = [
        len(record.value)
        for partition, start in log.starts(DOCUMENTS).items()
        for record in log.read(DOCUMENTS, partition, start)
        if record.value is not None and json.loads(record.value)["crawl"] in ids
    ]
    return len(sizes), sum(sizes)
