"""Actors and their instances."""

from __future__ import annotations

from pathlib import Path

import typer

from towpath.cli.failures import UsageError
from towpath.cli.remote.call import Call, Item, Options, changing, only, without
from towpath.cli.remote.paging import paged
from towpath.cli.remote.server import Server, path_of, told
from towpath.cli.remote.view import fields, sentence, table
from towpath.errors import ServerRefused

NO_WAIT = {"wait": "look with `actor show` how far it is"}
MOST_HISTORY = 1_000
_INSTANCE = "/actors/{actor}/{instance}"
_CLASS = without("schedules", "may_start")


def target(options: Options) -> Options:
    """ACTOR[:INSTANCE] as two names."""
    from towpath.actors.instance import MAIN
    from towpath.cli.actor_classes import split

    actor, instance = split(options["target"])
    return options | {"actor": actor, "instance": instance or MAIN, "is_named": instance is not None}


def _list(server: Server, options: Options) -> Item:
    if options["actor"] or options["instances"] or options["phase"] or options["after"]:
        return _instances(server, options)
    found = server.look("/actors/classes")["items"]
    return {"items": [without("shape")(_CLASS(each)) for each in found]}


def _instances(server: Server, options: Options) -> Item:
    from towpath.actors.phase import Phase

    actor, phase = options["actor"], options["phase"]
    if phase is not None and phase not in tuple(Phase):
        raise UsageError(f"--phase {phase!r}: an instance is {', '.join(Phase)}")
    query = {"actor": actor, "phase": phase}
    page = paged(server, "/actors", query, options["limit"], "after", options["after"])
    if actor is not None and not page.items:
        server.look(path_of("/actors/{actor}", options))  # a list of nothing would hide a wrong name
    return {"items": page.items, "next": page.next}


def _print_list(found: Item, options: Options) -> None:
    if "next" in found:
        table("instance=name", "phase", "state…", "since", "owner…", "reason…")(found, options)
    else:
        table("actor=name", "enabled=is_enabled", "instances…", "about…")(found, options)


def _show(server: Server, options: Options) -> Item:
    ready = target(options)
    if ready["last"] > MOST_HISTORY:
        raise UsageError(f"--last: a server shows at most {MOST_HISTORY:,}")
    try:
        found = server.look(path_of(_INSTANCE, ready), {"last": ready["last"]})
    except ServerRefused as error:
        if ready["is_named"] or error.code != "unknown_actor":
            raise
        return {"actor": _CLASS(server.look(path_of("/actors/{actor}", ready))), "instance": None}
    instance = found["instance"]
    return {**found, "instance": None if instance is None else without("is_masked")(instance)}


def _print_one(found: Item, options: Options) -> None:
    fields()(found["instance"] or found["actor"], options)


def _start(server: Server, options: Options) -> Item:
    from towpath.cli.queue_changes import read_payload

    state, payload, again = options["state"], options["payload"], options["again"]
    if again and (state is not None or payload is not None):
        raise UsageError("--again takes the state and the fields of the last run; say them, or --again")
    path = path_of(_INSTANCE, target(options))
    why = {"why": options["why"]}
    if again:
        return dict(told(server.change(f"{path}/restart", why), "run"))
    said = {"state": state, "fields": {} if payload is None else read_payload(payload)}
    body = {**{name: value for name, value in said.items() if value is not None}, **why}
    return dict(told(server.change(f"{path}/start", body), "run"))


def _graph(server: Server, options: Options) -> Item:
    if options["mermaid"] + options["as_json"] + (options["svg"] is not None) > 1:
        raise UsageError("--mermaid, --svg and --json: only one of them")
    found = server.look(path_of("/actors/{actor}/graph", options))
    drawn = ("mermaid", "svg") if options["as_json"] else ()
    return dict(without("lit", *drawn)(found))


def _print_graph(found: Item, options: Options) -> None:
    from towpath.actors.drawing_text import lines
    from towpath.cli.output import plain

    if options["mermaid"]:
        typer.echo(found["mermaid"])
    elif options["svg"] is None:
        typer.echo("\n".join(map(plain, lines(found["actor"], found["about"], found))))
    elif options["svg"] == "-":
        typer.echo(found["svg"], nl=False)
    else:
        from towpath.cli.actor_graph import write

        write(Path(options["svg"]), found["svg"])


def _template(server: Server, options: Options) -> Item:
    from towpath.actors.known import Known

    found = server.look(path_of("/actors/{actor}", options))
    wanted = Known(found["name"], found["about"], found["shape"]).state(options["state"])
    return {"actor": found["name"], "state": wanted["name"], "template": wanted["template"]}


def _print_template(found: Item, options: Options) -> None:
    from towpath.cli.output import pretty

    typer.echo(pretty(found["template"]))


def _switch(act: str) -> Call:
    def said(found: Item, options: Options) -> str:
        return f"{options['actor']} {'is' if found['has_changed'] else 'was already'} {act}d"

    return changing(f"/actors/{{actor}}/{act}", show=sentence(said))


def _on_instance(act: str, said: str) -> Call:
    return changing(f"{_INSTANCE}/{act}", prepare=target, shape=only("name", "phase"), show=sentence(said))


CALLS = {
    "actor list": Call(_list, _print_list),
    "actor show": Call(_show, _print_one),
    "actor graph": Call(_graph, _print_graph),
    "actor template": Call(_template, _print_template),
    "actor start": Call(_start, sentence("sent {actor}:{instance} its start, with {state}: run {run}"), never=NO_WAIT),
    "actor abort": _on_instance("abort", "{name} is to be aborted; it is {phase} now"),
    "actor wake": _on_instance("wake", "{name} is awake"),
    "actor enable": _switch("enable"),
    "actor disable": _switch("disable"),
}
