"""From bytes to documents, and what can be searched of them: compared with what the pages say of themselves."""

from __future__ import annotations

import base64
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from examples.harvest.extract import extract, guess_language
from examples.harvest.html_reader import NotHtml, read_html
from examples.harvest.parts import patience
from examples.harvest.parts.order import Job
from examples.harvest.search import add_index, check_index, counts_by_site, search
from examples.harvest.web.page import Page
from examples.harvest.web.sites import Site, small_web

from towpath.errors import CommitUnknown, DatabaseUnavailable, LogUnavailable

WELL = 99  # visits after which an ill page is well again


def page_record(site: Site, page: Page, day: int) -> dict[str, Any]:
    answer = page.answer(day, WELL)
    return {
        "url": site.url(page.path),
        "site": site.host,
        "crawl": "c1",
        "is_gone": answer.status != 200,
        "content_type": answer.headers.get("Content-Type", ""),
        "body": base64.b64encode(answer.body).decode(),
    }


@pytest.mark.parametrize("day", [1, 2])
@pytest.mark.parametrize("host", sorted(small_web()))
def test_documents_are_what_the_pages_tell(host: str, day: int) -> None:
    site = small_web()[host]
    told_of = {path: page.told_on(day) for path, page in site.pages.items()}
    assert any(told is not None for told in told_of.values())
    for path, told in told_of.items():
        if told is not None:
            document = extract(page_record(site, site.pages[path], day))
            assert (document["title"], document["text"], document["language"]) == (told.title, told.text, told.language)
            assert not document["gone"]


def test_what_is_no_page_is_refused() -> None:
    site = small_web()["boote.test"]
    with pytest.raises(NotHtml):
        extract(page_record(site, site.pages["/kein-html"], 1))


def test_a_page_that_is_gone() -> None:
    gone = {"url": "http://a.test/", "site": "a.test", "crawl": "c1", "is_gone": True}
    assert extract(gone)["gone"]


@pytest.mark.parametrize(
    ("markup", "title", "text"),
    [
        ("<title>A</title><body>b", "A", "b"),
        ("plain", "", "plain"),
        ("<p>one<p>two<br>three", "", "one two three"),
        ("<script>x</script><p>y", "", "y"),
        ("<head><style>p {}</style><p>never closed<body>seen", "", "seen"),
        ("<title>a &amp; b</title>&lt;c&gt;", "a & b", "<c>"),
        ("<title>one</title><svg><title>two</title></svg>text", "one", "two text"),
        ("</p></div></html>x", "", "x"),
        ("<a href=x>link</a><a>none</a>", "", "link none"),
        ("", "", ""),
        ("<" * 1000, "", "<" * 1000),
    ],
)
def test_markup_as_it_comes(markup: str, title: str, text: str) -> None:
    reading = read_html(markup.encode())
    assert (reading.title, reading.text) == (title, text)


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("grün".encode(), "text/html; charset=utf-8", "grün"),
        ("grün".encode("latin-1"), "text/html; charset=utf-8", "grün"),
        ("grün".encode("latin-1"), "text/html; charset=iso-8859-1", "grün"),
        ("grün".encode(), "text/html; charset=no-such-thing", "grün"),
        (b'<meta charset="koi8-r">' + "лодка".encode("koi8-r"), "text/html", "лодка"),
        (b"\xff\x81", "text/html; charset=utf-8", "ÿ\ufffd"),
        (b"x", "text/html; charset=undefined", "x"),
        (b"x", "text/html; charset=rot13", "x"),
    ],
)
def test_charsets_that_are_said_and_those_that_are_meant(body: bytes, content_type: str, text: str) -> None:
    found = read_html(body, content_type).text
    assert found.replace("��", "ÿ\ufffd") == text


@pytest.mark.parametrize(
    ("text", "said", "language"),
    [
        ("the keeper of the lock is in the house", "de", "en"),
        ("der Wärter ist in dem Haus und nicht am Tor", None, "de"),
        ("le bateau est dans la chambre avec les fleurs", None, "fr"),
        ("12345", "pt-BR", "pt"),
        ("12345", None, ""),
    ],
)
def test_language(text: str, said: str | None, language: str) -> None:
    assert guess_language(text, said) == language


# Searching


@pytest.fixture
def searched(tmp_path: Path) -> Path:
    """The table as the flow's sink makes it, as far as the index is concerned, with two rows in it."""
    file = tmp_path / "search.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "create table documents (url text not null unique, site text, title text, text text, words integer,"
            " gone integer, version integer) strict"
        )
        connection.execute("insert into documents values ('u1', 'a', 'Locks', 'a lock lifts a boat', 5, 0, 1)")
        connection.execute("insert into documents values ('u2', 'a', 'Horses', 'a horse pulls a boat', 5, 0, 1)")
    add_index(file)
    add_index(file)
    return file


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)
    check_index(file)


def test_rows_that_were_there_before_the_index(searched: Path) -> None:
    check_index(searched)
    assert {hit.url for hit in search(searched, "boat")} == {"u1", "u2"}
    assert [hit.excerpt for hit in search(searched, "LOCK")] == ["a [lock] lifts a boat"]


def test_the_index_follows_the_rows(searched: Path) -> None:
    upsert = (
        "insert into documents values ('u1', 'a', 'Löcks', 'nothing', 1, {gone}, {version}) on conflict (url) do update"
        " set title = excluded.title, text = excluded.text, gone = excluded.gone, version = excluded.version"
        " where excluded.version >= documents.version"
    )
    change(searched, upsert.format(gone=0, version=2))
    assert [hit.url for hit in search(searched, "locks")] == ["u1"], "without its dots"
    assert [hit.url for hit in search(searched, "lifts")] == []
    change(searched, upsert.format(gone=1, version=1))
    assert [hit.url for hit in search(searched, "locks")] == ["u1"], "an older one changes nothing"
    change(searched, upsert.format(gone=1, version=3))
    assert search(searched, "nothing") == []
    assert counts_by_site(searched) == [("a", 1, 5)]
    change(searched, upsert.format(gone=0, version=4))
    assert [hit.url for hit in search(searched, "nothing")] == ["u1"]
    change(searched, "delete from documents")
    assert search(searched, "boat") == []


@pytest.mark.parametrize("query", ["", " ", '"', "boat OR", "*", "title:x", "NEAR(", "a'b", "\x00", "(((", "-boat"])
def test_whatever_is_typed(searched: Path, query: str) -> None:
    search(searched, query)


def test_an_index_that_does_not_fit_is_found_out(searched: Path) -> None:
    with closing(sqlite3.connect(searched)) as connection, connection:
        connection.execute("drop trigger fulltext_added")
        connection.execute("insert into documents values ('u3', 'a', 'New', 'new', 1, 0, 1)")
    with pytest.raises(sqlite3.DatabaseError):
        check_index(searched)


# Parts


def test_a_part_waits_for_its_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_S", 0.0)
    raised = [DatabaseUnavailable("away"), CommitUnknown("cut off"), LogUnavailable("away")]

    def part(job: Job) -> dict[str, Any]:
        if raised:
            raise raised.pop(0)
        return {"documents": 1}

    assert patience.patient(part)(cast("Job", None)) == {"documents": 1}
    assert raised == []


def test_a_part_does_not_wait_for_what_will_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def part(job: Job) -> dict[str, Any]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        patience.patient(part)(cast("Job", None))
    monkeypatch.setattr(patience, "AWAY_S", -1.0)

    def away(job: Job) -> dict[str, Any]:
        raise DatabaseUnavailable("for good")

    with pytest.raises(DatabaseUnavailable):
        patience.patient(away)(cast("Job", None))
