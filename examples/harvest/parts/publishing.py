"""Sending the pages of crawls to a topic, each exactly once, however often it is tried."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from examples.harvest.crawler.journal import read_visits
from examples.harvest.crawler.visit import Outcome
from examples.harvest.flows import PAGES, PARTITIONS

from towpath.catalog import DataSet
from towpath.catalog.data_sets.directory import directory_of
from towpath.errors import TopicExists
from towpath.log import Log, NewRecord

AT_ONCE = 20


def publish(log: Log, name: str, crawls: Iterable[DataSet], tell: Callable[[int], None]) -> None:
    """How many are sent is the position of a group, moved in the transaction that appends them.

    Opening the producer fences off another one of the same name: one that was thought dead sends nothing more.
    """
    with suppress(TopicExists):
        log.create_topic(PAGES, PARTITIONS, retention_s="never")
    producer = log.producer(name)
    try:
        sent = log.positions(name).get((PAGES, 0), 0)
        records = list(_records(crawls))
        for first in range(sent, len(records), AT_ONCE):
            upto = min(first + AT_ONCE, len(records))
            with producer.transaction() as tx:
                tx.append(PAGES, records[first:upto])
                tx.commit_positions(name, {(PAGES, 0): upto})
            tell(upto)
    finally:
        producer.close()


def _records(crawls: Iterable[DataSet]) -> Iterator[NewRecord]:
    """In the order of the crawls: of one address the newest comes last."""
    for crawl in crawls:
        for visit in read_visits(directory_of(crawl.place)):
            if visit.has_body or visit.outcome is Outcome.GONE:
                page = {
                    "url": visit.url,
                    "site": crawl.subject,
                    "crawl": crawl.id,
                    "is_gone": not visit.has_body,
                    "content_type": visit.content_type,
                    "body": base64.b64encode(visit.body).decode(),
                }
                yield NewRecord(json.dumps(page).encode(), visit.url.encode())
