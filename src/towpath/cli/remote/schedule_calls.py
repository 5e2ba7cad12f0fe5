"""Schedules of actors."""

from __future__ import annotations

from towpath.cli.failures import UsageError
from towpath.cli.remote.actor_calls import target
from towpath.cli.remote.call import Call, Item, Options, changing, looking
from towpath.cli.remote.server import Server, path_of
from towpath.cli.remote.view import fields, sentence, table

_ONE = "/schedules/{schedule}"


def _when(options: Options) -> Item | None:
    """Checked as the command does, and said as the API has it."""
    from towpath.actors.schedule_rhythm import Interval
    from towpath.cli.actor_rhythm import rhythm_of

    names = ("every", "since", "daily", "window", "zone")
    rhythm = rhythm_of(*(options[name] for name in names))
    if rhythm is None:
        return None
    if isinstance(rhythm, Interval):
        return {"every_s": rhythm.every_s, "since": str(rhythm.since)}
    said = {name: options[name] for name in ("daily", "window", "zone")}
    return {name: value for name, value in said.items() if value is not None}


def _fields(options: Options) -> Item:
    from towpath.cli.queue_changes import read_payload

    state, payload = options["state"], options["payload"]
    said = {"state": state, "fields": None if payload is None else read_payload(payload)}
    return {name: value for name, value in said.items() if value is not None}


def _add(server: Server, options: Options) -> Item:
    ready, when = target(options), _when(options)
    if when is None:
        raise UsageError("say when: --every 15m, --daily 03:30 or --window 22-6")
    body = {"name": options["schedule"], "actor": ready["actor"], "instance": ready["instance"], "when": when}
    more = {"is_enabled": not options["disabled"], "why": options["why"]}
    return dict(server.change("/schedules", {**body, **_fields(options), **more}))


def _change(server: Server, options: Options) -> Item:
    when, instance = _when(options), options["instance"]
    said = {"when": when, "instance": instance, **_fields(options)}
    given = {name: value for name, value in said.items() if value is not None}
    if not given:
        raise UsageError("say what to change: --every, --daily, --window, --instance, --state or --payload")
    return dict(server.change(f"{path_of(_ONE, options)}/change", {**given, "why": options["why"]}))


def _switch(act: str) -> Call:
    def said(found: Item, options: Options) -> str:
        return f"{found['name']} {'is' if found['has_changed'] else 'was already'} {act}d"

    return changing(f"{_ONE}/{act}", show=sentence(said))


CALLS = {
    "actor schedule list": looking(
        "/schedules",
        "actor",
        show=table("schedule…=name", "starts…=actor", "instance…", "when…", "next=next_at", "last=last_at", "outcome"),
    ),
    "actor schedule show": looking(_ONE, show=fields()),
    "actor schedule add": Call(_add, sentence("added {name}: starts {actor}:{instance}")),
    "actor schedule change": Call(_change, sentence("changed {name}: starts {actor}:{instance}")),
    "actor schedule enable": _switch("enable"),
    "actor schedule disable": _switch("disable"),
    "actor schedule remove": changing(f"{_ONE}/delete", show=sentence("removed {name}")),
}
