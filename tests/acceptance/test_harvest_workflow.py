"""The workflow of the worked example without Spark: its switches, failures and single sites, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from examples.harvest.__main__ import main
from examples.harvest.home import Home
from examples.harvest.parts.leftovers import give_up_leftovers
from examples.harvest.station import begin_to_watch, opened
from examples.harvest.web.page import Page
from examples.harvest.web.server import SmallWeb
from examples.harvest.web.sites import Site
from examples.harvest.workflow import HARVEST, MAY_START, PEOPLE, Begin, Harvest, Plan

from towpath import Runtime
from towpath.actors.instance import Phase
from towpath.catalog import DataSetState
from towpath.catalog.data_sets.directory import directory_of, make_directory, place_of
from towpath.testing.clock import wait_until

HOSTS = ("a.test", "b.test")


@dataclass
class Scene:
    """A web of two sites, a station in this process, and runs of the workflow."""

    home: Home
    web: SmallWeb
    runtime: Runtime

    def run(self, *parts: str, sites: tuple[str, ...] = HOSTS, asks: tuple[str, ...] = ()) -> str:
        connect_to = dict.fromkeys(HOSTS, self.web.address)
        plan = Plan(str(self.home.path), sites, connect_to, parts, asks)
        return self.runtime.actors.start(Harvest, Begin(plan), wants_answer=True)

    def result(self, run_id: str) -> Any:
        return self.runtime.actors.outbox().wait(run_id, timeout_s=60).payload

    def question(self) -> Any:
        wait_until(lambda: self.runtime.queue.inbox(PEOPLE).eavesdrop(1), 30)
        return self.runtime.queue.inbox(PEOPLE).eavesdrop(1)[0]


@pytest.fixture
def scene(database_settings: dict[str, Any], tmp_path: Path) -> Iterator[Scene]:
    sites = {
        host: Site(host, None, {"/": Page("/", "Home", "at home", links=("/x",)), "/x": Page("/x", "X", "the x")})
        for host in HOSTS
    }
    home = Home(tmp_path / "harvest")
    with SmallWeb(sites) as web, opened(home, database_settings) as runtime:
        host = runtime.actors.host()
        host.start()
        begin_to_watch(runtime)
        try:
            yield Scene(home, web, runtime)
        finally:
            for name in ("harvest-crawl", "harvest-process", "harvest-load"):
                runtime.actors.abort(name, who="test", why="it is over")
            wait_until(lambda: all(not each.is_live for each in runtime.actors.instances()), 30)
            host.stop()


def test_all_sites_then_one_again(scene: Scene) -> None:
    made = scene.result(scene.run("crawl"))["crawl"]
    assert {host: (each["pages"], each["fetched"]) for host, each in made.items()} == dict.fromkeys(HOSTS, (2, 2))
    again = scene.result(scene.run("crawl", sites=("b.test",)))["crawl"]
    assert list(again) == ["b.test"]
    assert (again["b.test"]["pages"], again["b.test"]["not modified"]) == (2, 2)
    lineage = scene.runtime.data_sets.show(again["b.test"]["data_set"])
    assert [each.id for each in lineage.parents] == [made["b.test"]["data_set"]]
    assert scene.runtime.data_sets.show(made["a.test"]["data_set"]).children == ()
    assert lineage.data_set.origin.startswith("harvest:main ")
    assert scene.web.visits["http://a.test/x"] == 1


@pytest.mark.part("guides")
def test_a_part_that_waits_for_a_person(scene: Scene) -> None:
    run_id = scene.run("crawl", asks=("crawl",))
    question = scene.question()
    assert question.payload == {"part": "crawl", "sites": list(HOSTS), "made": {}}
    assert scene.runtime.actors.instance(HARVEST).phase is Phase.WAITING
    assert not scene.web.visits
    scene.runtime.queue.operator("ann").reply(question.id, True, "go ahead")
    assert set(scene.result(run_id)["crawl"]) == set(HOSTS)


def test_a_person_says_no(scene: Scene) -> None:
    run_id = scene.run("crawl", asks=("crawl",))
    scene.runtime.queue.operator("ann").reply(scene.question().id, False, "not today")
    assert list(scene.result(run_id)) == ["error"]
    assert not scene.web.visits
    assert scene.runtime.data_sets.list() == []


def test_plans_that_cannot_be(scene: Scene) -> None:
    assert "'crwal'; parts: crawl, process, load" in scene.result(scene.run("crwal"))["error"]
    assert "no site" in scene.result(scene.run("crawl", sites=()))["error"]


@pytest.mark.part("guides")
def test_there_is_nothing_to_process(scene: Scene) -> None:
    made = scene.result(scene.run("process"))["process"]
    assert (made["data_set"], made["documents"]) == (None, 0)


@pytest.mark.part("guides")
def test_what_a_run_has_left_is_given_up(scene: Scene, tmp_path: Path) -> None:
    """An order that failed leaves a data set that nobody will finish; the next crawl gives it up."""
    inbox = scene.runtime.queue.inbox("orders")
    order_id = scene.runtime.queue.outbox("test").notice("orders", "crawl")
    place = place_of(tmp_path / "left")
    id = scene.runtime.data_sets.begin(order_id, kind="crawl", place=place, origin=f"harvest:main x {order_id}").id
    make_directory(place, id)
    assert give_up_leftovers(scene.runtime) == [], "its order waits: somebody will do it"
    inbox.fail(inbox.claim(1), "no luck")
    scene.result(scene.run("crawl", sites=("a.test",)))
    assert scene.runtime.data_sets.show(id).data_set.state is DataSetState.DELETED
    assert not directory_of(place).exists()


def test_what_a_person_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path / "harvest")

    def typed(*words: str) -> int:
        return main([*words, "--home", str(home.path)])

    assert typed("search", "lock") == 1
    assert capsys.readouterr().err
    assert typed("answer", "yes") == 1
    assert capsys.readouterr().err
    assert typed("delete", "0" * 36) == 1
    with opened(home) as runtime:
        outbox = runtime.queue.outbox("test")
        question_id = outbox.send(PEOPLE, MAY_START, {"part": "load"})
        assert typed("answer", "perhaps") == 1
        assert outbox.poll(question_id) is None
        assert typed("answer", "yes") == 0
        answer = outbox.poll(question_id)
        assert answer is not None
        assert answer.payload is True
