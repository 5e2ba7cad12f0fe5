"""What is done to cases that are named, or as a job to all that match."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import typer

from towpath.cli.asking import confirm
from towpath.cli.failures import UsageError, say
from towpath.cli.output import console, plain
from towpath.cli.remote.call import Call, Item, Options
from towpath.cli.remote.choosing import filter_of, selection_of
from towpath.cli.remote.server import Server, told

LOOK_S = 0.5
ENDED = frozenset({"finished", "aborted", "failed"})
Arguments = Callable[[Options], Item]


def _none(options: Options) -> Item:
    return {}


def doing(kind: str, what: Callable[[Options], str], arguments: Arguments = _none, question: str = "") -> Call:
    """`arguments` are those of the API beside cases and why; `question` is asked before named cases are touched."""

    def ask(server: Server, options: Options) -> Item:
        from towpath.cli.desk_changes import Doing, check_asked

        names = list(options["cases"] or ())
        given = filter_of(options)
        made = Doing(**{name: options[name] for name in Doing.__dataclass_fields__})
        check_asked(names, given, made)
        said = arguments(options)
        if made.all_:
            return _job(server, kind, selection_of(given), said, made, options["why"])
        if question and not made.yes:
            from towpath.cli.desk_view import counted

            confirm(question.format(counted(len(names))), "nothing was abandoned")
        return _named(server, kind, names, said, options["why"])

    def show(found: Item, options: Options) -> None:
        if isinstance(found.get("refused"), dict):
            _say_performed(found, what(options))
        else:
            say_job(found, options)

    return Call(ask, show, is_failed=_is_failed)


def _named(server: Server, kind: str, names: list[str], said: Item, why: str) -> Item:
    from towpath.desk.operating import MOST_AT_ONCE

    if len(names) > MOST_AT_ONCE:
        raise UsageError(f"more than {MOST_AT_ONCE:,} cases: say --all with what they have in common")
    body = {"cases": list(dict.fromkeys(names)), **said, "why": why}
    answer = told(server.change(f"/desk/cases/{kind}", body), "refused")
    refused = answer["refused"]
    return {"done": [each["id"] for each in answer["cases"] if each["id"] not in refused], "refused": refused}


def _job(server: Server, kind: str, selection: Item, said: Item, made: Any, why: str) -> Item:
    asked = {"kind": kind, "selection": selection, **said}
    if not made.yes and not made.dry_run:
        from towpath.cli.desk_view import counted

        found = int(server.count("/desk/jobs/count", asked)["cases"])
        confirm(f"{kind} {counted(found)}?", "nothing was done")
    how = {"name": made.name, "rate_s": made.rate or None, "begin": not made.dry_run, "why": why}
    body = {**asked, **{name: value for name, value in how.items() if value is not None}}
    job: Item = told(server.change("/desk/jobs", body), "seq")
    return follow(server, job) if made.wait and not made.dry_run else job


def follow(server: Server, job: Item) -> Item:
    """Until it has ended. Whoever leaves does not end it."""
    from towpath.cli.topic_progress import Counting

    try:
        with Counting("done", int(job["cases"])) as counting:
            while job["state"] not in ENDED:
                counting.show(int(job["done"]) + int(job["refused"]))
                time.sleep(LOOK_S)
                job = job_of(server.look(f"/desk/jobs/{job['id']}"))
    except KeyboardInterrupt:
        say(f"job {job['seq']} goes on without you: towpath desk job show {job['seq']}")
        raise
    return job


def job_of(view: Item) -> Item:
    """A job without what is known of its cases."""
    return {name: value for name, value in view.items() if name not in ("cases_now", "first_refused")}


def _is_failed(found: Item, options: Options) -> bool:
    if isinstance(found.get("refused"), dict):
        return bool(found["refused"])
    return bool(options.get("wait")) and not options["dry_run"] and found.get("state") != "finished"


def _say_performed(found: Item, what: str) -> None:
    if found["done"]:
        typer.echo(f"{what}: {'case' if len(found['done']) == 1 else 'cases'} {', '.join(found['done'])}")
    for case, why in found["refused"].items():
        console().print(f"not case {case}: {plain(why)}", style="red", soft_wrap=True)


def say_job(job: Item, options: Options) -> None:
    """Its number, its state and how far it is."""
    far = f"{job['cases']} cases, {job['done']} done, {job['refused']} refused"
    typer.echo(plain(f"job {job['seq']}, {job['name']!r}, is {job['state']}: {far}"))
    if job["state"] == "counted":
        typer.echo(f"nothing is done yet; begin it: towpath desk job begin {job['seq']} --why …")


def _delay(options: Options) -> Item:
    from towpath.cli.desk_changes import read_delay_s

    seconds = read_delay_s(options["delay"])
    return {} if seconds is None else {"delay_s": seconds}


def _correct(options: Options) -> Item:
    rule = {} if options["rule"] is None else {"rule": options["rule"]}
    return {**rule, "replays": not options["keep"]}


def _recall(server: Server, options: Options) -> Item:
    return _named(server, "recall", list(options["cases"]), {}, options["why"])


CALLS = {
    "desk replay": doing("replay", lambda options: "in a lane" if options["delay"] else "sent back", _delay),
    "desk resend": doing("resend", lambda options: "on the way to the source"),
    "desk abandon": doing("abandon", lambda options: "abandoned", question="Abandon {}? The bodies are let go."),
    "desk open": doing("open", lambda options: "open"),
    "desk assign": doing(
        "assign",
        lambda options: f"for {options['to']}" if options["to"] else "for nobody in particular",
        lambda options: {"assignee": options["to"]},
    ),
    "desk recall": Call(_recall, lambda found, options: _say_performed(found, "back on the desk"), _is_failed),
    "desk correct apply": doing(
        "correct", lambda options: "corrected" if options["keep"] else "corrected and sent back", _correct
    ),
}
