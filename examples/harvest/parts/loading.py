"""The third part: load the documents into the table, and the table into the index of its words."""

from __future__ import annotations

from typing import Any

from examples.harvest.flows import TABLE, load_flow, run_to_end
from examples.harvest.parts.java import start_spark
from examples.harvest.parts.order import Job, Order, id_of
from examples.harvest.parts.patience import patient
from examples.harvest.parts.processing import DOCUMENT_SET
from examples.harvest.parts.unused import begin_from_unused
from examples.harvest.search import add_index, counts_by_site

INDEX_SET = "index"


@patient
def load(job: Job) -> dict[str, Any]:
    """All documents that were not loaded yet. There is one table: the new index takes the place of the last one."""
    order, runtime, id = Order.read(job.payload), job.runtime, id_of(job, INDEX_SET)
    file = order.house.search_file
    lineage = begin_from_unused(job, order, id, INDEX_SET, f"table:{file}#{TABLE}", DOCUMENT_SET)
    if lineage is None:
        return {"data_set": None, "documents": 0, "why": "there are no documents that were not loaded yet"}
    if not lineage.data_set.is_ready:
        flow = load_flow(file)
        for output in flow.outputs:
            output.sink.check(runtime.settings)  # makes the table, so that the index is there before the first row
        add_index(file)
        job.progress(10, "Spark")
        start_spark(runtime)
        run_to_end(runtime, flow)
        job.progress(90, "counting")
        documents = sum(count for _, count, _ in counts_by_site(file))
        runtime.data_sets.finish(id, records=documents, bytes=file.stat().st_size)
    job.progress(100, "loaded")
    return {"data_set": id, "documents": runtime.data_sets.show(id).data_set.records}
