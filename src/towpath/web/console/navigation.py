"""What stands in the menu of every page, top to bottom as the layers are."""

from __future__ import annotations

from typing import NamedTuple


class Link(NamedTuple):
    """A page. `key` goes there after `g`; whoever lacks the scope does not see it."""

    path: str
    title: str
    key: str
    scope: str = "read"


class Group(NamedTuple):
    """Pages that belong together."""

    title: str
    links: tuple[Link, ...]


GROUPS = (
    Group("", (Link("/", "Overview", "o"),)),
    Group(
        "Data",
        (
            Link("/flows", "Flows", "f"),
            Link("/topics", "Topics", "t"),
            Link("/uploads", "Uploads", "u"),
            Link("/data-sets", "Data sets", "d"),
        ),
    ),
    Group(
        "Error desk",
        (
            Link("/desk/groups", "Groups", "e"),
            Link("/desk/cases", "Cases", "c"),
            Link("/desk/lanes", "Lanes", "l"),
            Link("/desk/jobs", "Bulk jobs", "j"),
            Link("/desk/policies", "Policies", "r"),
            Link("/desk/corrections", "Corrections", "x"),
        ),
    ),
    Group(
        "Control",
        (
            Link("/workflows", "Workflows", "w"),
            Link("/actors", "Actors", "a"),
            Link("/queue", "Queue", "q"),
            Link("/processes", "Processes", "p"),
            Link("/events", "Events", "v"),
            Link("/notices", "Notices", "i"),
        ),
    ),
    Group(
        "Tools",
        (
            Link("/blocks", "Block rules", "b"),
            Link("/complaints", "Complaints", "n"),
            Link("/maintenance", "Maintenance", "m"),
            Link("/keys", "API keys", "k", "admin"),
            Link("/users", "Users", "s", "admin"),
            Link("/trail", "Audit trail", "y", "admin"),
        ),
    ),
)
