"""Flows, where their records are, and topics."""

from __future__ import annotations

import re
import time
from typing import Any

from towpath.cli.failures import UsageError, say
from towpath.cli.remote.call import Call, Item, Options, listing, looking, without
from towpath.cli.remote.server import Server, path_of
from towpath.cli.remote.view import fields, sentence, table
from towpath.errors import Refused

ROUND_S = 0.2
AUDIT_S = 20.0
WATCHED = {"watch": "it is shown once; `watch towpath --remote … flow state` shows it again and again"}
NO_ERRORS = {"errors": "the server knows the error topic of its flows"}
NO_FILE = {**NO_ERRORS, "deep": "the flow file is needed for it, and the sinks"}
_PLACE = re.compile(r"([^/\s]+)(?:/(\d+)/(\d+))?")
_STAGES = table("flow…", "stage…", "state", "for=since", "rate/s=rate", "lag", "run by…=owner")


def _list(server: Server, options: Options) -> Item:
    return {"items": [stage for flow in server.look("/flows")["items"] for stage in flow["stages"]]}


def _state(server: Server, options: Options) -> Item:
    path, stage = path_of("/flows/{flow}", options), options["stage"]
    server.look(f"{path}/batches", {"stage": stage, "limit": 1})  # says what there is not
    return {"items": _stages(server, options["flow"], stage)}


def _stages(server: Server, flow: str, stage: str | None) -> list[Item]:
    found: list[Item] = next((each["stages"] for each in server.look("/flows")["items"] if each["flow"] == flow), [])
    return [each for each in found if stage in (None, each["stage"])]


def _before(options: Options) -> Options:
    from towpath.cli.flow_batches import parsed

    start = parsed(options["before"])
    return options | {"before": None if start is None else f"{start[0]}-{start[1]}"}


def _steering(kind: str, *body: str) -> Call:
    """The process that runs a stage does what is wanted at its next turn: it is waited for, as it is here."""

    def ask(server: Server, options: Options) -> Item:
        flow, stage = options["flow"], options["stage"]
        if kind == "reset" and not options["yes"]:
            _confirm_reset(options)
        was = {each["stage"]: each for each in _stages(server, flow, stage)}
        said = {name: options[name] for name in (*body, "stage", "why") if options[name] is not None}
        items = server.change(f"{path_of('/flows/{flow}', options)}/{kind}", said)["items"]
        deadline = time.monotonic() + options["wait"]
        while any(each["is_run"] and not each["is_done"] for each in items) and time.monotonic() < deadline:
            time.sleep(ROUND_S)
            now = {each["stage"]: each for each in _stages(server, flow, stage)}
            items = [_looked(kind, was.get(each["stage"]), now.get(each["stage"], each)) for each in items]
        return {"items": items}

    return Call(ask, sentence(_said))


def _looked(kind: str, was: Item | None, item: Item) -> Item:
    from towpath.flow.pilot import RESTING

    is_taken = item["wish"] is None
    match kind:
        case "pause":
            is_done = item["state"] == "paused"
        case "stop":
            is_done = item["state"] in RESTING
        case "reset":
            is_done = was is None or int(item["generation"]) > int(was["generation"])
        case _:
            is_done = True
    return {**item, "is_done": is_taken and is_done}


def _confirm_reset(options: Options) -> None:
    from towpath.cli.asking import confirm
    from towpath.flow.reset_ahead import MEANS

    flow, stage, to = options["flow"], options["stage"], options["to"]
    confirm(f"{MEANS[to]}\nReset {flow}{f'/{stage}' if stage else ''} to {to}?", "nothing was changed")


def _said(found: Item, options: Options) -> str:
    from towpath.cli.flow_changes import NEXT_START

    def came(item: Item) -> str:
        if item["is_done"]:
            return f"done: {item['state']}"
        return f"asked; {item['owner']} has not done it yet" if item["is_run"] else f"asked; {NEXT_START}"

    return "\n".join(f"{each['flow']}/{each['stage']}: {came(each)}" for each in found["items"])


def _audit(server: Server, options: Options) -> Item:
    found = server.look(f"{path_of('/flows/{flow}', options)}/audit", {"within_s": AUDIT_S})
    if found["counted"] is None:
        raise Refused(f"{found['why']}; `towpath audit` where the database is takes as long as it needs")
    counted: Item = found["counted"]
    return counted


def _trace(server: Server, options: Options) -> Item:
    flow = options["flow"]
    if ":" in flow or flow.endswith(".py"):
        raise UsageError("--flow: with --remote it is the flow's name; its sinks are not looked into")
    wanted = _wanted(options)
    found = server.look("/trace", {"flow": flow, **wanted})
    if options["key"] is not None:
        _tell_of_key(found, wanted["topic"])
    return {"items": found["items"]}


def _tell_of_key(found: Item, topic: str) -> None:
    """The end of the topic was read for it, and the newest are shown."""
    if found["offsets_read"] is not None:
        say(f"only the last {int(found['offsets_read']):,} offsets of each partition were read")
    if not found["items"]:
        raise UsageError(f"--key: no record of {topic} has it")
    if int(found["matches"]) > len(found["items"]):
        say(f"{int(found['matches']):,} records have this key; these are the last {len(found['items'])}")


def _wanted(options: Options) -> dict[str, Any]:
    record, key, id, case = (options[name] for name in ("record", "key", "id", "case"))
    if case is not None:
        if record is not None or key is not None or id is not None:
            raise UsageError("--case says which record: leave the rest away")
        return {"case": case}
    if id is not None and record is None and key is None:
        return {"id": id}
    found = _PLACE.fullmatch(record or "")
    if found is None or id is not None or (key is None) == (found[2] is None):
        raise UsageError("say which record: TOPIC/PARTITION/OFFSET, or TOPIC with --key, or --id alone")
    return {"topic": found[1], "key": key, "partition": found[2], "offset": found[3]}


def _print_traces(found: Item, options: Options) -> None:
    for each in found["items"]:
        fields()(each, options)


CALLS = {
    "flow list": Call(_list, _STAGES),
    "flow show": looking("/flows/{flow}", shape=without("mermaid"), show=fields()),
    "flow state": Call(_state, _STAGES, never=WATCHED),
    "flow batches": listing(
        "/flows/{flow}/batches",
        "stage",
        prepare=_before,
        has_next=False,
        show=table("stage…", "generation", "batch=batch_id", "state", "tries=attempts", "counts…", "begun=started_at"),
    ),
    "flow pause": _steering("pause"),
    "flow resume": _steering("resume"),
    "flow stop": _steering("stop"),
    "flow reset": _steering("reset", "to"),
    "audit": Call(_audit, fields(), lambda found, options: not found["is_balanced"], NO_FILE),
    "trace": Call(_trace, _print_traces, never=NO_ERRORS),
}
