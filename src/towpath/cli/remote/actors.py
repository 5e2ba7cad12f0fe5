"""Actors with their schedules, the queue and events."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from towpath.cli.actors.commands import parse_phase, split, write
from towpath.cli.actors.schedules import RhythmOptions
from towpath.cli.context import UsageError
from towpath.cli.output import plain, pretty
from towpath.cli.queue.commands import read_headers, read_payload
from towpath.cli.remote.call import (
    Item,
    Options,
    RemoteCall,
    changing,
    fields,
    filled,
    listing,
    looking,
    only,
    sentence,
    table,
    without,
)
from towpath.cli.remote.server import RemoteServer, paged, path_of, told
from towpath.errors import ServerRefused

NO_WAIT = {"wait": "look with `actor show` how far it is"}
NO_SEND_WAIT = {"wait": "send it with --reply, and look for its answer with `queue show`"}
MOST_HISTORY = 1_000
_ACTOR = "/actors/{actor}"
_INSTANCE = "/actors/{actor}/{instance}"
_SCHEDULE = "/schedules/{schedule}"
_MESSAGE = "/queue/messages/{message}"
_CLASS = without("schedules", "may_start")


def target(options: Options) -> Options:
    """ACTOR[:INSTANCE] as two names."""
    from towpath.actors.instance import MAIN

    actor, instance = split(options["target"])
    return options | {"actor": actor, "instance": instance or MAIN, "is_named": instance is not None}


def _list(server: RemoteServer, options: Options) -> Item:
    if options["actor"] or options["instances"] or options["phase"] or options["after"]:
        return _instances(server, options)
    found = server.look("/actors/classes")["items"]
    return {"items": [without("shape")(_CLASS(each)) for each in found]}


def _instances(server: RemoteServer, options: Options) -> Item:
    actor = options["actor"]
    query = {"actor": actor, "phase": parse_phase(options["phase"])}
    page = paged(server, "/actors", query, options["limit"], "after", options["after"])
    if actor is not None and not page.items:
        server.look(path_of(_ACTOR, options))  # a list of nothing would hide a wrong name
    return {"items": page.items, "next": page.next}


def _print_list(found: Item, options: Options) -> None:
    if "next" in found:
        table("instance=name", "phase", "state…", "since", "owner…", "reason…")(found, options)
    else:
        table("actor=name", "enabled=is_enabled", "instances…", "about…")(found, options)


def _show(server: RemoteServer, options: Options) -> Item:
    ready = target(options)
    if ready["last"] > MOST_HISTORY:
        raise UsageError(f"--last: a server shows at most {MOST_HISTORY:,}")
    try:
        found = server.look(path_of(_INSTANCE, ready), {"last": ready["last"]})
    except ServerRefused as error:
        if ready["is_named"] or error.code != "unknown_actor":
            raise
        return {"actor": _CLASS(server.look(path_of(_ACTOR, ready))), "instance": None}
    instance = found["instance"]
    return {**found, "instance": None if instance is None else without("is_masked")(instance)}


def _print_one(found: Item, options: Options) -> None:
    fields()(found["instance"] or found["actor"], options)


def _start(server: RemoteServer, options: Options) -> Item:
    state, payload, again = options["state"], options["payload"], options["again"]
    if again and (state is not None or payload is not None):
        raise UsageError("--again takes the state and the fields of the last run; say them, or --again")
    path = path_of(_INSTANCE, target(options))
    why = {"why": options["why"]}
    if again:
        return dict(told(server.change(f"{path}/restart", why), "run"))
    said = filled({"state": state, "fields": {} if payload is None else read_payload(payload)})
    return dict(told(server.change(f"{path}/start", {**said, **why}), "run"))


def _graph(server: RemoteServer, options: Options) -> Item:
    if options["mermaid"] + options["as_json"] + (options["svg"] is not None) > 1:
        raise UsageError("--mermaid, --svg and --json: only one of them")
    found = server.look(path_of("/actors/{actor}/graph", options))
    drawn = ("mermaid", "svg") if options["as_json"] else ()
    return dict(without("lit", *drawn)(found))


def _print_graph(found: Item, options: Options) -> None:
    from towpath.actors.graph.render import lines

    if options["mermaid"]:
        typer.echo(found["mermaid"])
    elif options["svg"] is None:
        typer.echo("\n".join(map(plain, lines(found["actor"], found["about"], found))))
    elif options["svg"] == "-":
        typer.echo(found["svg"], nl=False)
    else:
        write(Path(options["svg"]), found["svg"])


def _template(server: RemoteServer, options: Options) -> Item:
    from towpath.actors.registry import KnownClass

    found = server.look(path_of(_ACTOR, options))
    wanted = KnownClass(found["name"], found["about"], found["shape"]).state(options["state"])
    return {"actor": found["name"], "state": wanted["name"], "template": wanted["template"]}


def _print_template(found: Item, options: Options) -> None:
    typer.echo(pretty(found["template"]))


def _switch(path: str, act: str) -> RemoteCall:
    """`path` ends in the name of what is enabled or disabled."""
    name = path.rpartition("{")[2].removesuffix("}")

    def said(found: Item, options: Options) -> str:
        return f"{options[name]} {'is' if found['has_changed'] else 'was already'} {act}d"

    return changing(f"{path}/{act}", show=sentence(said))


def _on_instance(act: str, said: str) -> RemoteCall:
    return changing(f"{_INSTANCE}/{act}", prepare=target, shape=only("name", "phase"), show=sentence(said))


def _when(options: Options) -> Item | None:
    """Checked as the command does, and said as the API has it."""
    from towpath.actors.schedules.model import Interval

    names = ("every", "since", "daily", "window", "zone")
    rhythm = RhythmOptions(**{name: options[name] for name in names}).rhythm()
    if rhythm is None:
        return None
    if isinstance(rhythm, Interval):
        return {"every_s": rhythm.every_s, "since": str(rhythm.since)}
    return filled({name: options[name] for name in ("daily", "window", "zone")})


def _fields(options: Options) -> Item:
    state, payload = options["state"], options["payload"]
    return filled({"state": state, "fields": None if payload is None else read_payload(payload)})


def _add(server: RemoteServer, options: Options) -> Item:
    ready, when = target(options), _when(options)
    if when is None:
        raise UsageError("say when: --every 15m, --daily 03:30 or --window 22-6")
    body = {"name": options["schedule"], "actor": ready["actor"], "instance": ready["instance"], "when": when}
    more = {"is_enabled": not options["disabled"], "why": options["why"]}
    return dict(server.change("/schedules", {**body, **_fields(options), **more}))


def _change(server: RemoteServer, options: Options) -> Item:
    when, instance = _when(options), options["instance"]
    given = filled({"when": when, "instance": instance, **_fields(options)})
    if not given:
        raise UsageError("say what to change: --every, --daily, --window, --instance, --state or --payload")
    return dict(server.change(f"{path_of(_SCHEDULE, options)}/change", {**given, "why": options["why"]}))


def _state(options: Options) -> Options:
    from towpath.queue import MessageState

    given = options["state"]
    return options | {"state": None if given is None else MessageState.named(given)}


def _payload(options: Options) -> Options:
    return options | {"payload": read_payload(options["payload"])}


def _send(server: RemoteServer, options: Options) -> Item:
    body = {name: options[name] for name in ("inbox", "function", "why", "reply")}
    times = {"delay_s": options["delay"], "ttl_s": options["ttl"]}
    said = {"payload": _payload(options)["payload"], "headers": read_headers(options["header"]), **times}
    made = server.change("/queue/messages", body | filled(said))
    return {"id": made["id"]}


def _edit(server: RemoteServer, options: Options) -> Item:
    typed, drop = options["payload"], options["drop_header"] or ()
    if typed is None and not options["header"] and not drop:
        return _edit_by_hand(server, options)
    payload = {} if typed is None else {"payload": read_payload(typed)}
    changed = read_headers(options["header"])
    seen = server.look(path_of(_MESSAGE, options))
    headers = {name: value for name, value in {**seen["headers"], **changed}.items() if name not in drop}
    return _sent(server, options, seen, {**payload, "headers": headers})


def _edit_by_hand(server: RemoteServer, options: Options) -> Item:
    from towpath.cli.interactive import edited_parts

    if not sys.stdin.isatty():
        raise UsageError("say what to change: --payload, --header or --drop-header")
    seen = server.look(path_of(_MESSAGE, options))
    with edited_parts(seen["payload"], seen["headers"]) as (payload, headers):
        return _sent(server, options, seen, {"payload": payload, "headers": headers})


def _sent(server: RemoteServer, options: Options, seen: Item, said: Item) -> Item:
    body: dict[str, Any] = {**said, "seen": seen["updated_at"], "why": options["why"]}
    return {"id": server.change(f"{path_of(_MESSAGE, options)}/edit", body)["id"]}


CALLS = {
    # actors
    "actor list": RemoteCall(_list, _print_list),
    "actor show": RemoteCall(_show, _print_one),
    "actor graph": RemoteCall(_graph, _print_graph),
    "actor template": RemoteCall(_template, _print_template),
    "actor start": RemoteCall(
        _start, sentence("sent {actor}:{instance} its start, with {state}: run {run}"), never=NO_WAIT
    ),
    "actor abort": _on_instance("abort", "{name} is to be aborted; it is {phase} now"),
    "actor wake": _on_instance("wake", "{name} is awake"),
    "actor enable": _switch(_ACTOR, "enable"),
    "actor disable": _switch(_ACTOR, "disable"),
    # schedules
    "actor schedule list": looking(
        "/schedules",
        "actor",
        show=table("schedule…=name", "starts…=actor", "instance…", "when…", "next=next_at", "last=last_at", "outcome"),
    ),
    "actor schedule show": looking(_SCHEDULE, show=fields()),
    "actor schedule add": RemoteCall(_add, sentence("added {name}: starts {actor}:{instance}")),
    "actor schedule change": RemoteCall(_change, sentence("changed {name}: starts {actor}:{instance}")),
    "actor schedule enable": _switch(_SCHEDULE, "enable"),
    "actor schedule disable": _switch(_SCHEDULE, "disable"),
    "actor schedule remove": changing(f"{_SCHEDULE}/delete", show=sentence("removed {name}")),
    # the queue and events
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
    "queue send": RemoteCall(_send, sentence("sent {id}"), never=NO_SEND_WAIT),
    "queue reply": changing(
        f"{_MESSAGE}/reply", "payload", prepare=_payload, shape=only("id"), show=sentence("answered {id}")
    ),
    "queue edit": RemoteCall(_edit, sentence("changed {id}")),
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
