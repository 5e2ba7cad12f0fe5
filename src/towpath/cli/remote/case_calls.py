"""Cases of the desk: looked at, and changed one by one."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

from towpath.cli.failures import UsageError
from towpath.cli.remote.call import Call, Item, Options, listing, without
from towpath.cli.remote.choosing import filter_of, selection_of
from towpath.cli.remote.server import Server, path_of
from towpath.cli.remote.view import fields, sentence, table

_CASE = "/desk/cases/{case}"
_FIELDS = (
    *("flow", "stage", "step", "code", "exception", "group", "states", "assignee", "text", "body", "since", "until"),
)
LIST = table("case=seq", "state", "group", "flow…", "code", "step…", "message…", "failed=failed_at", "for…=assignee")


def _chosen(options: Options) -> Options:
    """What the filter says, in place of its options; what has left the desk is shown when it is asked for."""
    from towpath.desk.case_state import LIVE

    chosen = selection_of(filter_of(options))
    if "states" not in chosen and not options.get("everything", True):
        chosen["states"] = sorted(map(str, LIVE))
    return {name: value for name, value in options.items() if name not in _FIELDS} | chosen


def _show(server: Server, options: Options) -> Item:
    view = server.look(path_of(_CASE, options))
    found = {**without("of_group", "seen")(view), "group": view["of_group"]}
    if options["save"] is not None:
        Path(options["save"]).write_bytes(server.fetch(f"{path_of(_CASE, options)}/body"))
    return {**found, "record": _record(server, view)} if options["record"] else found


def _record(server: Server, view: Item) -> Item | None:
    place = {"partition": view["error_partition"], "offset": view["error_offset"], "limit": 1}
    items = server.look(path_of("/topics/{error_topic}/records", view), place)["items"]
    return next((each for each in items if each["offset"] == view["error_offset"]), None)


def _edit(server: Server, options: Options) -> Item:
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


def _changed(server: Server, path: str, view: Item, options: Options) -> Any:
    from towpath.cli.desk_edit import changed_body

    has_body = any(view.get(name) is not None for name in ("value", "value_base64"))
    body = server.fetch(f"{path}/body") if has_body else None
    return changed_body(int(view["seq"]), body, options["value"], list(options["set_"] or ()))


def _spoken(body: bytes) -> Item:
    try:
        return {"value": body.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(body).decode()}


def _decided(act: str, state: str) -> Call:
    def ask(server: Server, options: Options) -> Item:
        after = server.change(f"{path_of(_CASE, options)}/{act}", {"edit": options["edit"], "why": options["why"]})
        return {"id": after["id"], "edit": options["edit"], "state": state}

    return Call(ask, sentence(f"edit {{edit}} of case {{case}} is {state}"))


def _export(server: Server, options: Options) -> bytes:
    from towpath.desk.export import Form

    form = options["form"]
    if form not in list(Form):
        raise UsageError(f"--format {form!r} is not json or csv")
    return server.fetch("/desk/export", {**selection_of(filter_of(options)), "form": form})


def _write_export(found: bytes, options: Options) -> None:
    from towpath.cli.desk_export import safe

    if options["output"] is not None:
        Path(options["output"]).write_bytes(found)
        return
    for line in found.decode().splitlines(keepends=True):
        sys.stdout.write(safe(line))


def _said_edit(found: Item, options: Options) -> str:
    from towpath.cli.desk_show import print_changes
    from towpath.desk.editing_diff import Change

    print_changes(Change(**each) for each in found["changes"])
    return f"edit {found['edit']} of case {options['case']} is {found['state']}"


def _note(server: Server, options: Options) -> Item:
    return {"id": server.change(f"{path_of(_CASE, options)}/note", {"text": options["text"]})["id"]}


CALLS = {
    "desk list": listing("/desk/cases", *_FIELDS, prepare=_chosen, show=LIST),
    "desk show": Call(_show, fields()),
    "desk note": Call(_note, sentence("noted with case {case}")),
    "desk edit": Call(
        _edit, sentence(_said_edit), never={"flow": "the server checks what the flow has written down of itself"}
    ),
    "desk agree": _decided("agree", "applied"),
    "desk refuse": _decided("refuse", "refused"),
    "desk export": Call(_export, _write_export, never={"cases": "say what they have in common"}),
}
