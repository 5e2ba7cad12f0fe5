"""Users, keys and notifications; data sets, complaints, uploads and blocks; what can be cleaned; processes."""

from __future__ import annotations

from enum import StrEnum

import typer

from towpath.cli.access.blocks import parse_action
from towpath.cli.access.users import ask_password
from towpath.cli.catalog.complaints import ComplaintAction, end_of, place_of
from towpath.cli.context import UsageError
from towpath.cli.options import NEVER, confirm, parse_age_s, parse_state
from towpath.cli.remote.call import (
    Item,
    Options,
    RemoteCall,
    changing,
    chosen,
    fields,
    listing,
    looking,
    only,
    print_items,
    sentence,
    table,
)
from towpath.cli.remote.server import GATEWAY, RemoteServer, paged, path_of
from towpath.errors import NotDelivered

MOST_LINES = 1_000
WATCHED = {"watch": "it is shown once; `watch towpath --remote … status` shows it again and again"}
_USER = "/users/{user}"
_DATA_SET = "/data-sets/{data_set}"
_BLOCK = "/blocks/{number}"
_COMPLAINT = "/complaints/{number}"
_UPLOAD = f"{GATEWAY}/uploads/{{upload}}"
_DUTY = "/supervision/duties/{name}"
_TARGET = only("name", "way", "to", "kinds", "delivery")


def _said(said: str) -> str:
    return f"{said} {{name}}: {{role}}"


def _add(server: RemoteServer, options: Options) -> Item:
    secret = ask_password(options["stdin"]) if options["password"] or options["stdin"] else None
    body = {"name": options["user"], "role": options["role"], "why": options["why"]}
    return dict(server.change("/users", body | ({} if secret is None else {"password": secret})))


def _password(options: Options) -> Options:
    return options | {"password": ask_password(options["stdin"])}


def _link(found: Item, options: Options) -> str:
    return f"give this to {found['user']} and to nobody else; it works once, at the console:\n  {found['path']}"


def _make_key(server: RemoteServer, options: Options) -> Item:
    age = None if options["age"] is None else parse_age_s(options["age"], "--age")
    ends = {} if age is None else {"is_endless": True} if age == NEVER else {"age_s": age}
    body = {"user": options["user"], "scopes": list(options["scope"] or ("read",)), "label": options["label"]}
    return dict(server.change("/keys", {**body, **ends, "why": options["why"]}))


def _print_key(found: Item, options: Options) -> None:
    typer.echo(found["key"])
    ends = "never ends" if found["expires_at"] is None else f"ends {found['expires_at']}"
    scopes = ", ".join(found["scopes"])
    typer.echo(f"{found['prefix']} of {found['user']}: {scopes}; {ends}; it is not shown again", err=True)


def _notices(server: RemoteServer, options: Options) -> Item:
    targets = [_TARGET(each) for each in server.look("/notify/targets")["items"]]
    page = paged(server, "/notify/notices", {}, options["limit"], "before", options["before"])
    return {"targets": targets, "items": page.items, "next": page.next}


def _print_notices(found: Item, options: Options) -> None:
    print_items(found["targets"], ("target=name", "way", "to…", "told of…=kinds", "delivery…"))
    table("at", "notice=kind", "about…=subject", "times", "handed over=handed_at", "title…")(found, options)


def _try(server: RemoteServer, options: Options) -> Item:
    found = server.change(f"{path_of('/notify/targets/{target}', options)}/try", {"why": "tried by hand"})
    if not found["is_delivered"]:
        raise NotDelivered(found["reason"])
    return {"target": found["target"], "id": found["id"]}


def _with_state(options: Options, states: type[StrEnum], what: str) -> Options:
    """Checked as the command does."""
    return options | {"state": parse_state(states, options["state"], what)}


def _data_set_state(options: Options) -> Options:
    from towpath.catalog import DataSetState

    return _with_state(options, DataSetState, "a data set")


def _delete(server: RemoteServer, options: Options) -> Item:
    path = path_of(_DATA_SET, options)
    if not options["yes"]:
        found = server.look(path)
        confirm(f"delete {found['kind']} {found['id']} at {found['place']}?", "nothing was deleted")
    return dict(server.change(f"{path}/delete", {"why": options["why"]}))


def _block_state(options: Options) -> Options:
    from towpath.blocks.rule import BlockState

    return _with_state(options, BlockState, "a rule")


def _new_block(options: Options) -> Options:
    return options | {"action": str(parse_action(options["action"]))}


def _complaint_state(options: Options) -> Options:
    from towpath.catalog.complaints.store import ComplaintState

    return _with_state(options, ComplaintState, "a complaint")


def _complain(server: RemoteServer, options: Options) -> Item:
    names = ("target", "document", "text", "contact", "flow")
    return dict(server.change("/complaints", chosen(options, names)))


def _act(server: RemoteServer, options: Options) -> Item:
    what, said = ComplaintAction(options["what"]), {"why": options["why"]}
    if options["reply"] is not None and what not in (ComplaintAction.TAKE, ComplaintAction.LINK):
        said["reply"] = options["reply"]
    match what:
        case ComplaintAction.LINK:
            said |= dict(zip(("topic", "partition", "offset"), place_of(options["record"]), strict=True))
        case ComplaintAction.DISMISS:
            said = {"reply": "", **said}
        case ComplaintAction.BLOCK:
            said |= {"until": end_of(options["until"]), "action": "refuse" if options["refuse"] else "ignore"}
            said |= {} if options["approved_by"] is None else {"approved_by": options["approved_by"]}
    path = {ComplaintAction.RERUN: "rerun"}.get(what, str(what))
    return dict(server.change(f"{path_of(_COMPLAINT, options)}/{path}", said))


def _upload_item(row: Item) -> Item:
    return {**{name: value for name, value in row.items() if name not in ("reason", "senders")}, "why": row["reason"]}


def _uploads(server: RemoteServer, options: Options) -> Item:
    from towpath.gateway.uploads.model import UploadState

    owner = options["owner"]
    query = {"stream": options["stream"], "state": parse_state(UploadState, options["state"], "an upload")}
    found: list[Item] = []
    cursor = options["before"]
    while len(found) < options["limit"]:
        page = paged(server, f"{GATEWAY}/uploads", query, options["limit"] - len(found), "before", cursor)
        found += [_upload_item(each) for each in page.items if owner in (None, each["owner"])]
        cursor = page.next
        if cursor is None:
            break
    return {"items": found, "next": cursor}


def _upload(server: RemoteServer, options: Options) -> Item:
    path = path_of(_UPLOAD, options)
    found = server.look(path)
    return {**_upload_item(found), "senders": found["senders"], "results": server.look(f"{path}/results")["items"]}


def _abort(server: RemoteServer, options: Options) -> Item:
    path = path_of(_UPLOAD, options)
    if not options["yes"]:
        found = server.look(path)
        confirm(f"abort upload {found['id']} of {found['owner']} to {found['stream']}?", "the upload goes on")
    return _upload_item(server.change(f"{path}/abort", {"why": options["why"]}))


def _retry(server: RemoteServer, options: Options) -> Item:
    return _upload_item(server.change(f"{path_of(_UPLOAD, options)}/retry", {"why": options["why"]}))


def _wish(wish: str) -> RemoteCall:
    """The API takes one name at a time: all are looked up before the first is changed."""

    def ask(server: RemoteServer, options: Options) -> Item:
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

    return RemoteCall(ask, sentence(said))


def _last(options: Options) -> Options:
    return options | {"limit": max(options["last"], 1)}


def _logs(server: RemoteServer, options: Options) -> Item:
    if options["last"] > MOST_LINES:
        raise UsageError(f"--last: a server shows at most {MOST_LINES:,} lines")
    found: Item = server.look(f"{path_of(_DUTY, options)}/logs", {"tail": max(options["last"], 1)})
    return found


def _print_status(found: Item, options: Options) -> None:
    fields("term", "is_ready")(found, options)
    print_items(found["items"], ("name", "state", "host…", "process…", "trouble…"))


CALLS = {
    # access and notifications
    "user list": looking(
        "/users",
        shape=only("items"),
        show=table("user=name", "role", "enabled=is_enabled", "password=has_password", "made=made_at"),
    ),
    "user add": RemoteCall(_add, sentence(_said("added"))),
    "user role": changing(f"{_USER}/role", "role", show=sentence(_said("changed"))),
    "user password": changing(f"{_USER}/password", "password", prepare=_password, show=sentence(_said("changed"))),
    "user disable": changing(f"{_USER}/disable", show=sentence(_said("disabled"))),
    "user enable": changing(f"{_USER}/enable", show=sentence(_said("enabled"))),
    "user link": changing(f"{_USER}/link", show=sentence(_link)),
    "key list": listing(
        "/keys",
        "user",
        show=table("key=prefix", "user", "label…", "scopes…", "ends=expires_at", "used=used_at", "revoked=revoked_at"),
    ),
    "key make": RemoteCall(_make_key, _print_key),
    "key revoke": changing("/keys/{key}/revoke", show=sentence("revoked {prefix} of {user}")),
    "notify list": RemoteCall(_notices, _print_notices),
    "notify try": RemoteCall(_try, sentence("{target} has taken message {id}")),
    # what was made and sent, what is kept out, and what can be cleaned
    "data-set list": listing(
        "/data-sets",
        "kind",
        "about:subject",
        "state",
        prepare=_data_set_state,
        show=table("data set=id", "kind", "about…=subject", "state", "records", "bytes", "age=begun_at", "by…=origin"),
    ),
    "data-set show": looking(_DATA_SET, show=fields()),
    "data-set delete": RemoteCall(_delete, sentence("{kind} {id} is deleted: nothing is left at {place}")),
    "block list": listing(
        "/blocks",
        "state",
        prepare=_block_state,
        show=table("rule=number", "state", "does=action", "records with…=match", "caught", "until", "why…"),
    ),
    "block show": looking(_BLOCK, show=fields()),
    "block add": changing(
        "/blocks",
        *("action", "until", "stream", "topic", "sender", "user", "key", "prefix", "where", "approved_by"),
        prepare=_new_block,
        show=sentence("rule {number} counts until {until}: {action}"),
    ),
    "block withdraw": changing(
        f"{_BLOCK}/withdraw", show=sentence("rule {number} does not count any more; it has caught {caught}")
    ),
    "complaint list": listing(
        "/complaints",
        "state",
        prepare=_complaint_state,
        show=table("complaint=number", "state", "as=outcome", "age=made_at", "in…=target", "document…", "text…"),
    ),
    "complaint show": looking(_COMPLAINT, show=fields()),
    "complaint add": RemoteCall(_complain, sentence("complaint {number} is written down")),
    "complaint act": RemoteCall(_act, sentence("complaint {number} is {state}")),
    "maintenance list": looking(
        "/maintenance",
        shape=only("items"),
        show=table("name", "size…", "cleaned=last.at", "by…=last.who", "what…=about"),
    ),
    "maintenance run": changing("/maintenance/{name}/run", "force", show=fields()),
    "upload list": RemoteCall(
        _uploads, table("upload=id", "stream", "state", "label…", "owner…", "opened=opened_at", "heard of=touched_at")
    ),
    "upload show": RemoteCall(_upload, fields()),
    "upload abort": RemoteCall(_abort, sentence("upload {id} is {state}")),
    "upload retry": RemoteCall(_retry, sentence("upload {id} is {state}; its closing steps will be tried again")),
    # processes, and what has to run
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
    "process logs": RemoteCall(
        _logs, sentence(lambda found, options: "\n".join(found["lines"])), never={"follow": "it is shown once"}
    ),
    "status": RemoteCall(
        lambda server, options: server.look("/supervision"),
        _print_status,
        never=WATCHED,
    ),
}
