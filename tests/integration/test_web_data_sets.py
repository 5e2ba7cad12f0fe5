"""Data sets over HTTP: listed, shown with what they were made from, and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.http import API, Client, MakeClient, error_of
from tests.support.same_json import printed
from tests.support.tables import events, rows

from towpath.catalog.data_sets.directory import make_directory, place_of
from towpath.queue.payload import new_id
from towpath.runtime import Runtime

DATA_SETS = f"{API}/data-sets"


@pytest.fixture
def operator(make_client: MakeClient) -> Client:
    return make_client("operator")


@pytest.fixture
def viewer(make_client: MakeClient) -> Client:
    return make_client("viewer")


@pytest.fixture
def configured(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command line on the same database."""
    monkeypatch.chdir(tmp_path)


def made(runtime: Runtime, place: Path, *, parents: tuple[str, ...] = (), is_ready: bool = True, **said: str) -> str:
    """A data set with one file in its directory."""
    id = new_id()
    where = place_of(place / id)
    named = {"kind": "crawl", "subject": "shop", "origin": "crawler:main", **said}
    runtime.data_sets.begin(id, place=where, parents=parents, **named)
    (make_directory(where, id) / "part-0").write_text("x")
    if is_ready:
        runtime.data_sets.finish(id, records=1, bytes=1, facts={"pages": 1})
    return id


def trail(runtime: Runtime) -> list[tuple[str, str, str, str]]:
    return [(row["who"], row["what"], row["subject"], row["outcome"]) for row in rows(runtime.database, "access_audit")]


def test_the_list_comes_in_pages(
    viewer: Client, runtime: Runtime, tmp_path: Path, command: CommandLine, configured: None
) -> None:
    ids = [made(runtime, tmp_path) for _ in range(3)]
    other = made(runtime, tmp_path, kind="index", is_ready=False)
    seen: list[str] = []
    params: dict[str, Any] = {"limit": 2}
    while True:
        page = viewer.get(DATA_SETS, params=params).json()
        seen += [item["id"] for item in page["items"]]
        if page["next"] is None:
            break
        params["before"] = page["next"]
    assert seen == [other, *reversed(ids)]
    assert viewer.get(DATA_SETS).json() == printed(command, "data-set", "list")
    assert [item["id"] for item in viewer.get(DATA_SETS, params={"state": "making"}).json()["items"]] == [other]
    of_kind = viewer.get(DATA_SETS, params={"kind": "crawl", "subject": "shop"}).json()["items"]
    assert [item["id"] for item in of_kind] == ids[::-1]
    for params in ({"state": "lost"}, {"subject": "shop"}):
        assert viewer.get(DATA_SETS, params=params).status_code == 422


def test_one_with_its_family(
    viewer: Client, runtime: Runtime, tmp_path: Path, command: CommandLine, configured: None
) -> None:
    parent = made(runtime, tmp_path)
    child = made(runtime, tmp_path, kind="index", parents=(parent,))
    shown = viewer.get(f"{DATA_SETS}/{parent}").json()
    assert shown == printed(command, "data-set", "show", parent)
    assert (shown["origin"], shown["facts"], [each["id"] for each in shown["children"]]) == (
        "crawler:main",
        {"pages": 1},
        [child],
    )
    assert [each["id"] for each in viewer.get(f"{DATA_SETS}/{child}").json()["parents"]] == [parent]
    for id in (new_id(), "17"):
        answer = viewer.get(f"{DATA_SETS}/{id}")
        assert (answer.status_code, error_of(answer)["code"]) == (404, "unknown_data_set")


def test_delete(operator: Client, runtime: Runtime, tmp_path: Path) -> None:
    id = made(runtime, tmp_path)
    gone = operator.ask(f"/data-sets/{id}/delete", {"why": "too old"}).json()
    assert gone["state"] == "deleted"
    assert gone["reason"].endswith("operator: too old")
    assert not (tmp_path / id).exists()
    [event] = events(runtime.database, "data_set_deleted_by_hand")
    assert (event["subject"], event["who"], event["why"]) == (id, "operator", "too old")
    assert trail(runtime) == [("operator", "delete data set", id, "done")]
    again = operator.ask(f"/data-sets/{id}/delete")
    assert (again.status_code, error_of(again)["code"]) == (409, "illegal_data_set_move")


def test_a_deletion_is_made_once_under_one_key(operator: Client, runtime: Runtime, tmp_path: Path) -> None:
    id = made(runtime, tmp_path)
    answers = [operator.ask(f"/data-sets/{id}/delete", idempotency_key="k") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()


def test_one_that_is_used_stays_and_its_users_are_named(operator: Client, runtime: Runtime, tmp_path: Path) -> None:
    id = made(runtime, tmp_path)
    user = made(runtime, tmp_path, kind="index", parents=(id,), is_ready=False)
    answer = operator.ask(f"/data-sets/{id}/delete")
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["details"]) == (409, "data_set_in_use", {"users": [user]})
    assert user in error["message"]
    assert (tmp_path / id / "part-0").exists()
    assert runtime.data_sets.show(id).data_set.is_ready
    assert trail(runtime)[-1][3] == "refused"


def test_a_viewer_deletes_nothing(viewer: Client, operator: Client, runtime: Runtime, tmp_path: Path) -> None:
    id = made(runtime, tmp_path)
    answer = viewer.ask(f"/data-sets/{id}/delete")
    assert (answer.status_code, error_of(answer)["code"]) == (403, "not_allowed")
    assert runtime.data_sets.show(id).data_set.is_ready
    assert error_of(operator.ask(f"/data-sets/{new_id()}/delete"))["code"] == "unknown_data_set"
    assert error_of(operator.ask(f"/data-sets/{id}/delete", {}))["code"] == "not_valid"
