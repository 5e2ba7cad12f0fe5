"""Cases of the desk: which ones a command means, looking at them, and what is done to them, one by one or as a job."""

from __future__ import annotations

import base64
import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from towpath.cli.context import UsageError, say
from towpath.cli.desk.cases import changed_body, safe
from towpath.cli.desk.changes import ActionOptions, check_asked, read_delay_s
from towpath.cli.desk.options import CaseFilterOptions
from towpath.cli.options import confirm
from towpath.cli.output import console, counted, plain
from towpath.cli.progress import RecordProgress
from towpath.cli.remote.call import Item, Options, RemoteCall, fields, filled, listing, sentence, table, without
from towpath.cli.remote.server import RemoteServer, path_of, told
from towpath.desk.cases.model import CaseSelection

Arguments = Callable[[Options], Item]

LOOK_S = 0.5
ENDED = frozenset({"finished", "aborted", "failed"})
_CASE = "/desk/cases/{case}"
_FIELDS = (
    *("flow", "stage", "step", "code", "exception", "group", "states", "assignee", "text", "body", "since", "until"),
)
_LIST = table("case=seq", "state", "group", "flow…", "code", "step…", "message…", "failed=failed_at", "for…=assignee")


def _filter_of(options: Options) -> CaseFilterOptions:
    given: dict[str, Any] = {each.name: options[each.name] for each in dataclasses.fields(CaseFilterOptions)}
    return CaseFilterOptions(**given | {"state": list(given["state"] or ()) or None})


def _selection_of(given: CaseFilterOptions) -> Item:
    """The filter as the API has it, checked as the command does. Ages count from this machine's clock."""
    return _selection_item(given.selection(time.time_ns() // 1_000_000))


def _selection_item(chosen: CaseSelection) -> Item:
    said: Item = {each.name: getattr(chosen, each.name) for each in dataclasses.fields(chosen)}
    states = None if chosen.states is None else [str(each) for each in chosen.states]
    times = {name: None if said[name] is None else said[name].isoformat() for name in ("since", "until")}
    return filled(said | times | {"states": states})


def _chosen(options: Options) -> Options:
    """The filter in place of its options. Settled cases are left out unless asked for."""
    from towpath.desk.cases.model import LIVE

    chosen = _selection_of(_filter_of(options))
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
    return server.fetch("/desk/export", {**_selection_of(_filter_of(options)), "form": form})


def _write_export(found: bytes, options: Options) -> None:
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


def _none(options: Options) -> Item:
    return {}


def _doing(kind: str, what: Callable[[Options], str], arguments: Arguments = _none, question: str = "") -> RemoteCall:
    """`arguments` are those of the API beside cases and why; `question` is asked before named cases are touched."""

    def ask(server: RemoteServer, options: Options) -> Item:
        names = list(options["cases"] or ())
        given = _filter_of(options)
        made = ActionOptions(**{name: options[name] for name in ActionOptions.__dataclass_fields__})
        check_asked(names, given, made)
        said = arguments(options)
        if made.all_:
            return _job(server, kind, _selection_of(given), said, made, options["why"])
        if question and not made.yes:
            confirm(question.format(counted(len(names), "case")), "nothing was abandoned")
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
        found = int(server.count("/desk/jobs/count", asked)["cases"])
        confirm(f"{kind} {counted(found, 'case')}?", "nothing was done")
    how = {"name": made.name, "rate_s": made.rate or None, "begin": not made.dry_run, "why": why}
    job: Item = told(server.change("/desk/jobs", asked | filled(how)), "seq")
    return follow(server, job) if made.wait and not made.dry_run else job


def follow(server: RemoteServer, job: Item) -> Item:
    """Show the progress of a job until it has ended. Ctrl-C leaves the job running."""
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
    """A job without the counts and refusals of its cases."""
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
    seconds = read_delay_s(options["delay"])
    return {} if seconds is None else {"delay_s": seconds}


def _correct(options: Options) -> Item:
    rule = {} if options["rule"] is None else {"rule": options["rule"]}
    return {**rule, "replays": not options["keep"]}


def _recall(server: RemoteServer, options: Options) -> Item:
    return _named(server, "recall", list(options["cases"]), {}, options["why"])


CALLS = {
    # looked at, and changed one by one
    "desk list": listing("/desk/cases", *_FIELDS, prepare=_chosen, show=_LIST),
    "desk show": RemoteCall(_show, fields()),
    "desk note": RemoteCall(_note, sentence("noted with case {case}")),
    "desk edit": RemoteCall(
        _edit, sentence(_said_edit), never={"flow": "the server checks what the flow has written down of itself"}
    ),
    "desk agree": _decided("agree", "applied"),
    "desk refuse": _decided("refuse", "refused"),
    "desk export": RemoteCall(_export, _write_export, never={"cases": "say what they have in common"}),
    # those that are named, or as a job all that match
    "desk replay": _doing("replay", lambda options: "in a lane" if options["delay"] else "sent back", _delay),
    "desk resend": _doing("resend", lambda options: "on the way to the source"),
    "desk abandon": _doing("abandon", lambda options: "abandoned", question="Abandon {}? The bodies are let go."),
    "desk open": _doing("open", lambda options: "open"),
    "desk assign": _doing(
        "assign",
        lambda options: f"for {options['to']}" if options["to"] else "for nobody in particular",
        lambda options: {"assignee": options["to"]},
    ),
    "desk recall": RemoteCall(_recall, lambda found, options: _say_performed(found, "back on the desk"), _is_failed),
    "desk correct apply": _doing(
        "correct", lambda options: "corrected" if options["keep"] else "corrected and sent back", _correct
    ),
}
