"""Processes, and what has to run."""

from __future__ import annotations

from towpath.cli.failures import UsageError
from towpath.cli.remote.call import Call, Item, Options, listing, looking
from towpath.cli.remote.server import Server, path_of
from towpath.cli.remote.view import fields, print_items, sentence, table

MOST_LINES = 1_000
WATCHED = {"watch": "it is shown once; `watch towpath --remote … status` shows it again and again"}
_DUTY = "/supervision/duties/{name}"


def _wish(wish: str) -> Call:
    """The API takes one name after the other: all of them are looked for before the first is asked for."""

    def ask(server: Server, options: Options) -> Item:
        paths = [path_of(_DUTY, {"name": name}) for name in options["names"]]
        for path in paths:
            server.look(path)
        answers = [server.change(f"{path}/{wish}", {"why": options["why"]}) for path in paths]
        is_seen_to = [each.pop("has_coordinator") for each in answers]
        return {"items": answers, "has_coordinator": all(is_seen_to)}

    def said(found: Item, options: Options) -> str:
        lines = [
            f"{each['name']} is stopped"
            if each["state"] == "stopped"
            else f"{each['name']} is to {wish}; it is {each['state']} now"
            for each in found["items"]
        ]
        return "\n".join(lines if found["has_coordinator"] else [*lines, "no peer is there to see to it: towpath up"])

    return Call(ask, sentence(said))


def _last(options: Options) -> Options:
    return options | {"limit": max(options["last"], 1)}


def _logs(server: Server, options: Options) -> Item:
    if options["last"] > MOST_LINES:
        raise UsageError(f"--last: a server shows at most {MOST_LINES:,} lines")
    found: Item = server.look(f"{path_of(_DUTY, options)}/logs", {"tail": max(options["last"], 1)})
    return found


def _print_status(found: Item, options: Options) -> None:
    fields("term", "is_ready")(found, options)
    print_items(found["items"], ("name", "state", "host…", "process…", "trouble…"))


CALLS = {
    "process list": looking(
        "/processes",
        show=table("process=id", "state", "kind", "last beat=beat_at", "pid", "host…", "status…", "started=started_at"),
    ),
    "process show": looking("/processes/{process}", show=fields()),
    "process stop": _wish("stop"),
    "process restart": _wish("restart"),
    "process deaths": listing(
        "/supervision/deaths",
        "name:duty",
        prepare=_last,
        has_next=False,
        show=table("name=duty", "how", "noticed=noticed_at", "back=back_at", "trouble…"),
    ),
    "process logs": Call(
        _logs, sentence(lambda found, options: "\n".join(found["lines"])), never={"follow": "it is shown once"}
    ),
    "status": Call(
        lambda server, options: server.look("/supervision"),
        _print_status,
        never=WATCHED,
    ),
}
