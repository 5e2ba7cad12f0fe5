"""The first part: visit the sites, and keep a data set of each."""

from __future__ import annotations

from typing import Any

from examples.harvest.crawler.crawl import Crawl
from examples.harvest.crawler.limits import Limits
from examples.harvest.crawler.visit import counted
from examples.harvest.parts.leftovers import give_up_leftovers, know_removals
from examples.harvest.parts.order import Job, Order, id_of, origin_of
from examples.harvest.parts.patience import patient

from towpath.catalog import DataSet
from towpath.catalog.data_sets.directory import directory_of, make_directory, place_of

CRAWL = "crawl"


@patient
def crawl(job: Job) -> dict[str, Any]:
    """Make or finish the data sets of this message; returns what they are, by site."""
    order = Order.read(job.payload)
    know_removals(job.runtime)
    give_up_leftovers(job.runtime)
    made = {site: _begin(job, order, site) for site in order.sites}
    open_ones = {site: found for site, found in made.items() if not found.is_ready}
    if open_ones:
        _visit(job, order, open_ones)
    job.progress(100, "crawled")
    return {site: {"data_set": found.id, **_facts(job, found.id)} for site, found in made.items()}


def _begin(job: Job, order: Order, site: str) -> DataSet:
    data_sets, id = job.runtime.data_sets, id_of(job, site)
    last = data_sets.latest(CRAWL, site)
    return data_sets.begin(
        id,
        kind=CRAWL,
        subject=site,
        origin=origin_of(job, order),
        place=place_of(order.house.crawls / f"{site}-{id}"),
        parents=[last.id] if last is not None and last.id != id else [],
    )


def _visit(job: Job, order: Order, open_ones: dict[str, DataSet]) -> None:
    data_sets = job.runtime.data_sets
    directories = {site: make_directory(found.place, found.id) for site, found in open_ones.items()}
    # What they were begun with: a crawl that goes on compares with the same pages as before.
    parents = {site: data_sets.show(found.id).parents for site, found in open_ones.items()}
    before = {site: directory_of(found[0].place) for site, found in parents.items() if found}

    def tell(visited: int, known: int) -> None:
        job.progress(99 * visited / known, f"{visited} of {known} addresses that are known")

    visits = Crawl(directories, before, Limits(), order.connect_to, tell).run()
    for site, found in open_ones.items():
        pages = [visit for visit in visits[site].values() if visit.has_body]
        size = sum(len(visit.body) for visit in pages)
        data_sets.finish(found.id, records=len(pages), bytes=size, facts=counted(visits[site].values()))


def _facts(job: Job, id: str) -> dict[str, Any]:
    found = job.runtime.data_sets.show(id).data_set
    return {"pages": found.records, **found.facts}
