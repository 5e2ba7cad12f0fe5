"""The two flows: pages become documents, documents become rows of a table. Both deliver exactly once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.harvest.extract import extract

from towpath import Flow, Runtime, expect, table, topic
from towpath.errors import FlowHalted, NotTheOnlyOne
from towpath.flow.stage import StageState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAGES, DOCUMENTS, TABLE = "harvest-pages", "harvest-documents", "documents"
PARTITIONS = 2
LONGEST_PAGE_S = 20.0
COLUMNS = {
    "url": "text",
    "site": "text",
    "crawl": "text",
    "title": "text",
    "text": "text",
    "language": "text",
    "links": "json",
    "words": "bigint",
    "gone": "boolean",
}
SCHEMA = (
    "url string not null, site string not null, crawl string, title string, text string, language string, "
    "links array<string>, words bigint, gone boolean not null"
)
RETRY_S, AWAY_S = 0.3, 120.0


def process_flow() -> Flow:
    """Pages in, documents out. What is no page after all goes to the error topic, with the reason."""
    flow = Flow("harvest-process")

    @flow.each(topic(PAGES), timeout_s=LONGEST_PAGE_S, deterministic=True)
    def documents(page: dict[str, Any]) -> dict[str, Any]:
        return extract(page)

    flow.load(documents, topic(DOCUMENTS, key="{url}", partitions=PARTITIONS), name="documents")
    return flow


def load_flow(search_file: Path) -> Flow:
    """Documents in, rows out: the newest document of an address stays."""
    flow = Flow("harvest-load")

    @flow.step(topic(DOCUMENTS), schema=SCHEMA)
    @expect("there is something to read", "gone or words > 0")
    def readable(documents: DataFrame) -> DataFrame:
        return documents

    sink = table(TABLE, url=f"sqlite:///{search_file}", key=["url"], columns=COLUMNS, document=False)
    flow.load(readable, sink, name="table")
    return flow


def run_to_end(runtime: Runtime, flow: Flow) -> None:
    """Run until all is read. Waits for a stage that a dead process still holds; raises `FlowHalted`."""
    deadline = time.monotonic() + AWAY_S
    while True:
        run = runtime.flow(flow)
        try:
            run.start(until_idle=True)
            break
        except NotTheOnlyOne:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
    states = run.wait()
    halted = [stage for stage, state in states.items() if state is StageState.HALTED]
    if halted:
        raise FlowHalted(f"{flow.name} needs a person: `towpath flow state {flow.name}` says why")
