"""Cases of the desk: looked at, and changed one by one.

What is done to cases that are named, or as a job to all that match.

Which cases a command of the desk means, as the API takes it.
"""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable
from dataclasses import fields as dataclasses_fields
from pathlib import Path
from typing import Any

import typer

from towpath.cli.context import UsageError, say
from towpath.cli.desk.options import CaseFilterOptions
from towpath.cli.options import confirm
from towpath.cli.output import console, plain
from towpath.cli.remote.call import Item, Options, RemoteCall, fields, listing, sentence, table, without
from towpath.cli.remote.server import RemoteServer, path_of, told
from towpath.desk.cases.model import CaseSelection


def filter_of(options: Options) -> CaseFilterOptions:
    given: dict[str, Any] = {each.name: options[each.name] for each in dataclasses_fields(CaseFilterOptions)}
    return CaseFilterOptions(**given | {"state": list(given["state"] or ()) or None})


def selection_of(given: CaseFilterOptions) -> Item:
    """Checked as the command does. An age is counted from now by the clock of this machine."""
    return spoken(given.selection(time.time_ns() // 1_000_000))


def spoken(chosen: CaseSelection) -> Item:
    said: Item = {each.name: getattr(chosen, each.name) for each in dataclasses_fields(chosen)}
    states = None if chosen.states is None else [str(each) for each in chosen.states]
    times = {name: None if said[name] is None else said[name].isoformat() for name in ("since", "until")}
    return {name: value for name, value in (said | times | {"states": states}).items() if value is not None}


_CASE = "/desk/cases/{case}"
_FIELDS = (
    *("flow", "stage", "step", "code", "exception", "group", "states", "assignee", "text", "body", "since", "until"),
)
LIST = table("case=seq", "state", "group", "flow…", "code", "step…", "message…", "failed=failed_at", "for…=assignee")


def _chosen(options: Options) -> Options:
    """What the filter says, in place of its options; what has left the desk is shown when it is asked for."""
    from towpath.desk.cases.model import LIVE

    chosen = selection_of(filter_of(options))
    if "states" not in chosen and not options.get("everything", True):
        chosen["states"] = sorted(map(str, LIVE))
    return {name: value for name, value in options.items() if name not in _FIELDS} | chosen


def _show(server: RemoteServer, options: Options) -> Item:
    view = server.look(path_of(_CASE, options))
    found = {**without("of_group", "seen")(view), "group": view["of_group"]}
    if options["save"] is not None:
        Path(options["save"]).write_bytes(server.fetch(f"{path_of(_CASE, options)}/body"))
    return {**found, "record": _record(server, view)} if options["record"] else found


def _record(server: RemoteServer, view: Item) -> Item | None:
    place = {"partition": view["error_partition"], "offset": view["error_offset"], "limit": 1}
    items = server.look(path_of("/topics/{error_topic}/records", view), place)["items"]
    return next((each for each in items if each["offset"] == view["error_offset"]), None)


def _edit(server: RemoteServer, options: Options) -> Item:
    ways = sum((options["value"] is not None, bool(options["set_"]), options["original"]))
    if ways > 1:
        raise UsageError("--value, --set and --original: one of them")
    if ways == 0 and not sys.stdin.isatty():
        raise UsageError("say what to change: --value, --set or --original")
    path = path_of(_CASE, options)
    view = server.look(path)
    said = {"seen": view["seen"], "why": options["why"]}
    if options["original"]:
        after = server.change(f"{path}/restore", said)
        done = {"id": after["id"], "edit": after["edit"], "state": "applied", "changes": []}
    else:
        with _changed(server, path, view, options) as body:
            after = server.change(f"{path}/edit", {**said, **_spoken(body)})
        newest = max(after["edits"], key=lambda each: int(each["edit"]))
        done = {"id": after["id"], **{name: newest[name] for name in ("edit", "state", "changes")}}
    if options["replay"] and done["state"] == "applied":
        server.change("/desk/cases/replay", {"cases": [view["id"]], "why": options["why"]})
    return done


def _changed(server: RemoteServer, path: str, view: Item, options: Options) -> Any:
    from towpath.cli.desk.cases import changed_body

    has_body = any(view.get(name) is not None for name in ("value", "value_base64"))
    body = server.fetch(f"{path}/body") if has_body else None
    return changed_body(int(view["seq"]), body, options["value"], list(options["set_"] or ()))


def _spoken(body: bytes) -> Item:
    try:
        return {"value": body.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(body).decode()}


def _decided(act: str, state: str) -> RemoteCall:
    def ask(server: RemoteServer, options: Options) -> Item:
        after = server.change(f"{path_of(_CASE, options)}/{act}", {"edit": options["edit"], "why": options["why"]})
        return {"id": after["id"], "edit": options["edit"], "state": state}

    return RemoteCall(ask, sentence(f"edit {{edit}} of case {{case}} is {state}"))


def _export(server: RemoteServer, options: Options) -> bytes:
    from towpath.operations.cases import ExportFormat

    form = options["form"]
    if form not in list(ExportFormat):
        raise UsageError(f"--format {form!r} is not json or csv")
    return server.fetch("/desk/export", {**selection_of(filter_of(options)), "form": form})


def _write_export(found: bytes, options: Options) -> None:
    from towpath.cli.desk.cases import safe

    if options["output"] is not None:
        Path(options["output"]).write_bytes(found)
        return
    for line in found.decode().splitlines(keepends=True):
        sys.stdout.write(safe(line))


def _said_edit(found: Item, options: Options) -> str:
    from towpath.cli.desk.case_views import print_changes
    from towpath.desk.edit_body import BodyDifference

    print_changes(BodyDifference(**each) for each in found["changes"])
    return f"edit {found['edit']} of case {options['case']} is {found['state']}"


def _note(server: RemoteServer, options: Options) -> Item:
    return {"id": server.change(f"{path_of(_CASE, options)}/note", {"text": options["text"]})["id"]}


CALLS = {
    "desk list": listing("/desk/cases", *_FIELDS, prepare=_chosen, show=LIST),
    "desk show": RemoteCall(_show, fields()),
    "desk note": RemoteCall(_note, sentence("noted with case {case}")),
    "desk edit": RemoteCall(
        _edit, sentence(_said_edit), never={"flow": "the server checks what the flow has written down of itself"}
    ),
    "desk agree": _decided("agree", "applied"),
    "desk refuse": _decided("refuse", "refused"),
    "desk export": RemoteCall(_export, _write_export, never={"cases": "say what they have in common"}),
}


LOOK_S = 0.5
ENDED = frozenset({"finished", "aborted", "failed"})
Arguments = Callable[[Options], Item]


def _none(options: Options) -> Item:
    return {}


def doing(kind: str, what: Callable[[Options], str], arguments: Arguments = _none, question: str = "") -> RemoteCall:
    """`arguments` are those of the API beside cases and why; `question` is asked before named cases are touched."""

    def ask(server: RemoteServer, options: Options) -> Item:
        from towpath.cli.desk.changes import ActionOptions, check_asked

        names = list(options["cases"] or ())
        given = filter_of(options)
        made = ActionOptions(**{name: options[name] for name in ActionOptions.__dataclass_fields__})
        check_asked(names, given, made)
        said = arguments(options)
        if made.all_:
            return _job(server, kind, selection_of(given), said, made, options["why"])
        if question and not made.yes:
            from towpath.cli.desk.case_views import counted

            confirm(question.format(counted(len(names))), "nothing was abandoned")
        return _named(server, kind, names, said, options["why"])

    def show(found: Item, options: Options) -> None:
        if isinstance(found.get("refused"), dict):
            _say_performed(found, what(options))
        else:
            say_job(found, options)

    return RemoteCall(ask, show, is_failed=_is_failed)


def _named(server: RemoteServer, kind: str, names: list[str], said: Item, why: str) -> Item:
    from towpath.desk.actions.service import MOST_AT_ONCE

    if len(names) > MOST_AT_ONCE:
        raise UsageError(f"more than {MOST_AT_ONCE:,} cases: say --all with what they have in common")
    body = {"cases": list(dict.fromkeys(names)), **said, "why": why}
    answer = told(server.change(f"/desk/cases/{kind}", body), "refused")
    refused = answer["refused"]
    return {"done": [each["id"] for each in answer["cases"] if each["id"] not in refused], "refused": refused}


def _job(server: RemoteServer, kind: str, selection: Item, said: Item, made: Any, why: str) -> Item:
    asked = {"kind": kind, "selection": selection, **said}
    if not made.yes and not made.dry_run:
        from towpath.cli.desk.case_views import counted

        found = int(server.count("/desk/jobs/count", asked)["cases"])
        confirm(f"{kind} {counted(found)}?", "nothing was done")
    how = {"name": made.name, "rate_s": made.rate or None, "begin": not made.dry_run, "why": why}
    body = {**asked, **{name: value for name, value in how.items() if value is not None}}
    job: Item = told(server.change("/desk/jobs", body), "seq")
    return follow(server, job) if made.wait and not made.dry_run else job


def follow(server: RemoteServer, job: Item) -> Item:
    """Until it has ended. Whoever leaves does not end it."""
    from towpath.cli.progress import RecordProgress

    try:
        with RecordProgress("done", int(job["cases"])) as counting:
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
    from towpath.cli.desk.changes import read_delay_s

    seconds = read_delay_s(options["delay"])
    return {} if seconds is None else {"delay_s": seconds}


def _correct(options: Options) -> Item:
    rule = {} if options["rule"] is None else {"rule": options["rule"]}
    return {**rule, "replays": not options["keep"]}


def _recall(server: RemoteServer, options: Options) -> Item:
    return _named(server, "recall", list(options["cases"]), {}, options["why"])


CALLS = CALLS | {
    "desk replay": doing("replay", lambda options: "in a lane" if options["delay"] else "sent back", _delay),
    "desk resend": doing("resend", lambda options: "on the way to the source"),
    "desk abandon": doing("abandon", lambda options: "abandoned", question="Abandon {}? The bodies are let go."),
    "desk open": doing("open", lambda options: "open"),
    "desk assign": doing(
        "assign",
        lambda options: f"for {options['to']}" if options["to"] else "for nobody in particular",
        lambda options: {"assignee": options["to"]},
    ),
    "desk recall": RemoteCall(_recall, lambda found, options: _say_performed(found, "back on the desk"), _is_failed),
    "desk correct apply": doing(
        "correct", lambda options: "corrected" if options["keep"] else "corrected and sent back", _correct
    ),
}
