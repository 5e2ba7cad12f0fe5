"""The pages of data sets: what there is, what it comes from, its files, and deleting it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run, said
from tests.support.tables import rows

from towpath.catalog import DataSet
from towpath.catalog.data_sets import directory as files
from towpath.catalog.data_sets.directory import directory_of, make_directory, place_of
from towpath.runtime import Runtime

ORIGIN_RUN, ORIGIN_ORDER = str(uuid4()), str(uuid4())
ORIGIN = f"harvest:main {ORIGIN_RUN} {ORIGIN_ORDER}"


@pytest.fixture
def operator(make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("operator")


@pytest.fixture
def viewer(make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("viewer")


@pytest.fixture
def make(runtime: Runtime, tmp_path: Path) -> Callable[..., DataSet]:
    """Data sets that are directories; ready, unless something else is said."""

    def one(*parents: DataSet, is_ready: bool = True, kind: str = "crawl", subject: str = "a.org") -> DataSet:
        id = str(uuid4())
        place = place_of(tmp_path / "sets" / id)
        origin, above = ORIGIN, [each.id for each in parents]
        found = runtime.data_sets.begin(id, kind=kind, subject=subject, origin=origin, place=place, parents=above)
        home = make_directory(place, id)
        (home / "pages").mkdir()
        (home / "pages" / "one.html").write_bytes(b"<h1>one</h1>")
        (home / "index.json").write_bytes(b"{}")
        return runtime.data_sets.finish(id, records=7, bytes=123_456, facts={"not_modified": 1}) if is_ready else found

    return one


def shown(page: str) -> list[str]:
    """The ids of the data sets that a page leads to."""
    return re.findall(r'<a class="mono" href="/data-sets/([^"/]+)"', page)


def file_names(page: str) -> list[str]:
    return [unescape(name) for name in re.findall(r'/files/[^"]+">([^<]+)</a>', page)]


def test_what_there_is(viewer: Visitor, make: Callable[..., DataSet], monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(viewer.text("/data-sets")) == []
    first, second = make(), make(kind="index", subject="b.org")
    making = make(is_ready=False)
    page = viewer.text("/data-sets")
    assert shown(page) == [making.id, second.id, first.id]
    assert "123.5 kB" in page
    assert shown(viewer.text("/data-sets?kind=index")) == [second.id]
    assert shown(viewer.text("/data-sets?kind=crawl&subject=a.org")) == [making.id, first.id]
    assert shown(viewer.text("/data-sets?state=making")) == [making.id]
    assert viewer.get("/data-sets?state=nope").status_code == 422
    assert viewer.get("/data-sets?subject=a.org").status_code == 422
    monkeypatch.setattr("towpath.web.console.catalog.ROWS", 2)
    page = viewer.text("/data-sets")
    assert shown(page) == [making.id, second.id]
    older = re.search(r'href="([^"]+)" rel="next"', page)
    assert older is not None
    assert shown(viewer.text(unescape(older[1]))) == [first.id]


def test_one_with_its_family_origin_and_files(viewer: Visitor, make: Callable[..., DataSet]) -> None:
    parent = make()
    found = make(parent)
    child = make(found, kind="index")
    page = viewer.text(f"/data-sets/{found.id}")
    assert shown(page) == [parent.id, child.id]
    assert '<a href="/actors/harvest/main">harvest:main</a>' in page
    assert f'<a href="/queue/messages/{ORIGIN_ORDER}">' in page
    assert file_names(page) == ["index.json", "pages/one.html"]
    assert "not_modified" in page
    assert viewer.get(f"/data-sets/{uuid4()}").status_code == 404
    assert viewer.get("/data-sets/nope").status_code == 404


def test_a_file_is_fetched_as_it_is(
    viewer: Visitor, make: Callable[..., DataSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = make()
    monkeypatch.setattr("towpath.web.console.catalog.PIECE_BYTES", 1000)
    content = os.urandom(10_001)
    (directory_of(found.place) / "pages" / 'big "ä".bin').write_bytes(content)
    page = viewer.text(f"/data-sets/{found.id}")
    path = re.findall(r'href="(/data-sets/[^"]+/files/pages[^"]+)"', page)[0]
    answer = viewer.get(path)
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-length"] == "10001"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''big%20%22%C3%A4%22.bin"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    html = viewer.get(
        f"/data-sets/{found.id}/files/pages/one.html", x_live="1"
    )  # nothing that a page of ours would run
    assert (html.content, html.headers["content-type"]) == (b"<h1>one</h1>", "application/octet-stream")


def test_a_file_that_grows_meanwhile_is_as_long_as_was_promised(
    viewer: Visitor, make: Callable[..., DataSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = make()
    place = directory_of(found.place) / "index.json"

    def then_grows(given: DataSet, path: str) -> object:
        result = files.open_file(given, path)
        with place.open("ab") as more:
            more.write(b"x" * 100)
        return result

    monkeypatch.setattr("towpath.web.console.catalog.open_file", then_grows)
    assert viewer.get(f"/data-sets/{found.id}/files/index.json").content == b"{}"


def test_nothing_outside_of_its_directory_is_given(
    viewer: Visitor, make: Callable[..., DataSet], tmp_path: Path
) -> None:
    found, other = make(), make()
    home = directory_of(found.place)
    secret = tmp_path / "secret"
    secret.write_text("s3cret-w0rd")
    (home / "link").symlink_to(secret)
    (home / "away").symlink_to(tmp_path)
    os.mkfifo(home / "pipe")
    page = viewer.text(f"/data-sets/{found.id}")
    assert file_names(page) == ["index.json", "pages/one.html"]
    paths = (
        "link",
        "away/secret",
        "pipe",
        "pages",
        ".data-set",
        "..",
        "../../secret",
        f"../{other.id}/index.json",
        str(secret),
        "",
        "pages/../index.json",
        "./index.json",
        "pages//one.html",
        "index.json/x",
        "nope",
        "a\x00b",
        "x" * 300,
    )
    for path in paths:
        for slashes in ("", "/"):
            asked = quote(path, safe=slashes).replace(".", "%2E")  # or the client would walk up by itself
            answer = viewer.client.get(f"/data-sets/{found.id}/files/{asked}")
            assert answer.status_code in (404, 422), (path, asked)
            assert b"s3cret-w0rd" not in answer.content


def test_files_that_are_not_to_be_had_are_said_to_be_so(
    viewer: Visitor, make: Callable[..., DataSet], monkeypatch: pytest.MonkeyPatch, runtime: Runtime
) -> None:
    making, gone, foreign, large = make(is_ready=False), make(), make(), make()
    for each in directory_of(gone.place).rglob("*"):
        if each.is_file():
            each.unlink()
    (directory_of(gone.place) / "pages").rmdir()
    directory_of(gone.place).rmdir()
    (directory_of(foreign.place) / ".data-set").write_text(str(uuid4()))
    for found in (making, gone, foreign):
        viewer.text(f"/data-sets/{found.id}")
        assert viewer.get(f"/data-sets/{found.id}/files/index.json").status_code == 422
    for name in (b"\xff\xfe", b"a\nb", b"a\x1bb"):  # cannot be shown or asked for
        (directory_of(large.place) / os.fsdecode(name)).write_bytes(b"x")
    monkeypatch.setattr(files.list_files, "__defaults__", (1,))
    page = viewer.text(f"/data-sets/{large.id}")
    assert file_names(page) == ["index.json"]
    elsewhere = runtime.data_sets.begin(str(uuid4()), kind="index", place="table:/x#y")
    assert "<h2>Files</h2>" not in viewer.text(f"/data-sets/{elsewhere.id}")


def test_it_is_deleted_with_its_dependants_shown(
    operator: Visitor, viewer: Visitor, make: Callable[..., DataSet], runtime: Runtime
) -> None:
    found = make()
    child = make(found, is_ready=False, kind="index")
    assert "/delete" not in viewer.text(f"/data-sets/{found.id}")
    assert viewer.post(f"/data-sets/{found.id}/delete").status_code == 403
    operator.refused(f"/data-sets/{found.id}/delete", 409)
    assert directory_of(found.place).exists()
    runtime.data_sets.finish(child.id, records=1, bytes=1)
    assert "index of a.org" in operator.text(f"/data-sets/{found.id}")
    operator.refused(f"/data-sets/{found.id}/delete", 422, why="")
    page = operator.done(f"/data-sets/{found.id}/delete", why="too <old>")
    assert said(page)
    assert "operator: too &lt;old&gt;" in page
    assert not directory_of(found.place).exists()
    assert runtime.data_sets.show(found.id).data_set.state == "deleted"
    done = [row["what"] for row in rows(runtime.database, "access_audit") if row["outcome"] == "done"]
    assert done == ["delete data set"]
    elsewhere = runtime.data_sets.begin(str(uuid4()), kind="index", place="table:/x#y")
    operator.refused(f"/data-sets/{elsewhere.id}/delete", 422)


def test_what_a_data_set_says_is_harmless(operator: Visitor, runtime: Runtime, make: Callable[..., DataSet]) -> None:
    for text in HOSTILE:
        id = str(uuid4())
        runtime.data_sets.begin(id, kind="crawl", subject=text, origin=text, place=f"file:/{text}")
        runtime.data_sets.finish(id, records=1, bytes=1, facts={text: text})
        assert not has_run(operator.text(f"/data-sets/{id}"))
    named = make()
    (directory_of(named.place) / "<script>alert(1)<").write_bytes(b"x")
    assert not has_run(operator.text(f"/data-sets/{named.id}"))
    assert not has_run(operator.text("/data-sets"))


def test_files_are_not_for_those_who_may_not_see_all_fields(
    make_runtime: Callable[..., Runtime], make_visitor: MakeVisitor, make: Callable[..., DataSet]
) -> None:
    found = make()
    masked = make_runtime(desk={"masked": {"*": ["email"]}, "sees_masked": "operator"})
    viewer, operator = make_visitor("viewer", masked), make_visitor("operator", masked)
    viewer.text(f"/data-sets/{found.id}")
    assert viewer.get(f"/data-sets/{found.id}/files/index.json").status_code == 403
    assert operator.get(f"/data-sets/{found.id}/files/index.json").content == b"{}"
