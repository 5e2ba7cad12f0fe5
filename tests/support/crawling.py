"""Which pages there are, and where links lead: by HTTP, without a browser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape

from fastapi.routing import APIRoute
from httpx2 import Response
from starlette.routing import Match
from tests.support.console import Visitor

from towpath.web.console.pages import PAGES

MOST_OF_ONE = 3  # addresses of one route
NO_PAGES = frozenset(
    {
        *("/static/{name}", "/live", "/logout", "/welcome/{secret}"),
        *("/desk/export", "/desk/cases/{case}/body", "/data-sets/{data_set}/files/{path:path}"),  # files
        *("/desk/cases/{case}/older", "/desk/cases/{case}/newer"),  # lead on to a page
    }
)

ROUTES = [route for router in PAGES for route in router.routes if isinstance(route, APIRoute)]
LOOKS = [route for route in ROUTES if route.methods == {"GET"} and route.path not in NO_PAGES]
_LINK = re.compile(r'<a\b[^>]*?\bhref="([^"]*)"')


def links(page: str) -> list[str]:
    """Where the links of a page lead, without their anchors; those to other servers are left out."""
    found = (unescape(each).partition("#")[0] for each in _LINK.findall(page))
    return list(dict.fromkeys(each for each in found if each.startswith("/") and not each.startswith("//")))


def route_of(address: str) -> APIRoute | None:
    """The page that answers there."""
    scope = {"type": "http", "method": "GET", "path": address.partition("?")[0], "root_path": ""}
    return next((route for route in ROUTES if route.matches(scope)[0] is Match.FULL), None)


def leads_on(answer: Response) -> bool:
    """To another page, which is not the log-in."""
    return answer.status_code == 303 and not answer.headers["location"].startswith("/login")


def crawl(visitor: Visitor, start: str = "/queue", most_of_one: int = MOST_OF_ONE) -> Iterator[tuple[str, int, str]]:
    """Follow links from page to page; gives address, status and text of each. Few of those that are alike."""
    waiting, seen, counts = [start], {start}, Counter[str]()
    while waiting:
        address = waiting.pop(0)
        answer = visitor.get(address)
        is_page = answer.headers.get("content-type", "").startswith("text/html")
        text = answer.text if is_page else ""
        yield address, 200 if leads_on(answer) else answer.status_code, text
        onward = [answer.headers["location"]] if answer.status_code == 303 else []
        for link in (*onward, *links(text)):
            route = route_of(link)
            kind = link if route is None else route.path
            if link not in seen and counts[kind] < most_of_one:
                seen.add(link)
                counts[kind] += 1
                waiting.append(link)
