"""The queue and events."""

from __future__ import annotations

import sys
from typing import Any

from towpath.cli.failures import UsageError
from towpath.cli.remote.call import Call, Item, Options, changing, listing, looking, only
from towpath.cli.remote.server import Server, path_of
from towpath.cli.remote.view import fields, sentence, table

NO_WAIT = {"wait": "send it with --reply, and look for its answer with `queue show`"}
_MESSAGE = "/queue/messages/{message}"


def _state(options: Options) -> Options:
    from towpath.queue import MessageState

    given = options["state"]
    return options | {"state": None if given is None else MessageState.named(given)}


def _payload(options: Options) -> Options:
    from towpath.cli.queue_changes import read_payload

    return options | {"payload": read_payload(options["payload"])}


def _send(server: Server, options: Options) -> Item:
    from towpath.cli.queue_changes import read_headers

    body = {name: options[name] for name in ("inbox", "function", "why", "reply")}
    times = {"delay_s": options["delay"], "ttl_s": options["ttl"]}
    said = {"payload": _payload(options)["payload"], "headers": read_headers(options["header"]), **times}
    made = server.change("/queue/messages", body | {name: value for name, value in said.items() if value is not None})
    return {"id": made["id"]}


def _edit(server: Server, options: Options) -> Item:
    from towpath.cli.queue_changes import read_headers, read_payload

    typed, drop = options["payload"], options["drop_header"] or ()
    if typed is None and not options["header"] and not drop:
        return _edit_by_hand(server, options)
    payload = {} if typed is None else {"payload": read_payload(typed)}
    changed = read_headers(options["header"])
    seen = server.look(path_of(_MESSAGE, options))
    headers = {name: value for name, value in {**seen["headers"], **changed}.items() if name not in drop}
    return _sent(server, options, seen, {**payload, "headers": headers})


def _edit_by_hand(server: Server, options: Options) -> Item:
    from towpath.cli.editor import edited_parts

    if not sys.stdin.isatty():
        raise UsageError("say what to change: --payload, --header or --drop-header")
    seen = server.look(path_of(_MESSAGE, options))
    with edited_parts(seen["payload"], seen["headers"]) as (payload, headers):
        return _sent(server, options, seen, {"payload": payload, "headers": headers})


def _sent(server: Server, options: Options, seen: Item, said: Item) -> Item:
    body: dict[str, Any] = {**said, "seen": seen["updated_at"], "why": options["why"]}
    return {"id": server.change(f"{path_of(_MESSAGE, options)}/edit", body)["id"]}


CALLS = {
    "queue inboxes": listing(
        "/queue/inboxes",
        by="after",
        has_next=False,
        show=table(
            "inbox=name",
            *(f"{state}=counts.{state}" for state in ("NEW", "ACK", "OK", "ERR", "DEAD")),
            "oldest NEW=oldest_new_at",
            "owner dies=on_owner_death",
            "most tries=max_attempts",
        ),
    ),
    "queue list": listing(
        "/queue/messages",
        "inbox",
        "state",
        "function",
        "owner",
        prepare=_state,
        show=table("id", "inbox…", "function…", "state", "tries=attempts", "sent=created_at", "owner…", "reason…"),
    ),
    "queue show": looking(_MESSAGE, show=fields()),
    "queue send": Call(_send, sentence("sent {id}"), never=NO_WAIT),
    "queue reply": changing(
        f"{_MESSAGE}/reply", "payload", prepare=_payload, shape=only("id"), show=sentence("answered {id}")
    ),
    "queue edit": Call(_edit, sentence("changed {id}")),
    "queue set-state": changing(
        f"{_MESSAGE}/state",
        "state",
        prepare=_state,
        shape=only("id"),
        show=sentence(lambda found, options: f"{found['id']} is {options['state'].upper()}"),
    ),
    "queue reap": changing("/queue/reap", show=sentence("{expired} messages had outlived their time and are DEAD now")),
    "queue clean": changing("/queue/clean", show=fields("deleted")),
    "event list": listing(
        "/events", "kind", "subject", show=table("at", "event=kind", "about…=subject", "who…", "why…", "details…=data")
    ),
}
