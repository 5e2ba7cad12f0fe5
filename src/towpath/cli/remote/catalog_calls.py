"""What was made and sent, what is kept out, and what can be cleaned."""

from __future__ import annotations

from collections.abc import Callable

from towpath.cli.asking import confirm
from towpath.cli.remote.call import Call, Item, Options, changing, listing, looking, only
from towpath.cli.remote.paging import paged
from towpath.cli.remote.server import GATEWAY, Server, path_of
from towpath.cli.remote.view import fields, sentence, table

_DATA_SET = "/data-sets/{data_set}"
_BLOCK = "/blocks/{number}"
_COMPLAINT = "/complaints/{number}"
_UPLOAD = f"{GATEWAY}/uploads/{{upload}}"


def _with_state(options: Options, named: Callable[[str], object]) -> Options:
    """Checked as the command does."""
    return options if options["state"] is None else options | {"state": str(named(options["state"]))}


def _data_set_state(options: Options) -> Options:
    from towpath.cli.data_set import named_state

    return _with_state(options, named_state)


def _delete(server: Server, options: Options) -> Item:
    path = path_of(_DATA_SET, options)
    if not options["yes"]:
        found = server.look(path)
        confirm(f"delete {found['kind']} {found['id']} at {found['place']}?", "nothing was deleted")
    return dict(server.change(f"{path}/delete", {"why": options["why"]}))


def _block_state(options: Options) -> Options:
    from towpath.cli.block import named_state

    return _with_state(options, named_state)


def _new_block(options: Options) -> Options:
    from towpath.cli.block import named_action

    return options | {"action": str(named_action(options["action"]))}


def _complaint_state(options: Options) -> Options:
    from towpath.cli.complaint import named_state

    return _with_state(options, named_state)


def _complain(server: Server, options: Options) -> Item:
    names = ("target", "document", "text", "contact", "flow")
    return dict(server.change("/complaints", {name: options[name] for name in names if options[name] is not None}))


def _act(server: Server, options: Options) -> Item:
    from towpath.cli.complaint import Act, end_of, place_of

    what, said = Act(options["what"]), {"why": options["why"]}
    if options["reply"] is not None and what not in (Act.TAKE, Act.LINK):
        said["reply"] = options["reply"]
    match what:
        case Act.LINK:
            said |= dict(zip(("topic", "partition", "offset"), place_of(options["record"]), strict=True))
        case Act.DISMISS:
            said = {"reply": "", **said}
        case Act.BLOCK:
            said |= {"until": end_of(options["until"]), "action": "refuse" if options["refuse"] else "ignore"}
            said |= {} if options["approved_by"] is None else {"approved_by": options["approved_by"]}
    path = {Act.RERUN: "rerun"}.get(what, str(what))
    return dict(server.change(f"{path_of(_COMPLAINT, options)}/{path}", said))


def _upload_item(row: Item) -> Item:
    return {**{name: value for name, value in row.items() if name not in ("reason", "senders")}, "why": row["reason"]}


def _uploads(server: Server, options: Options) -> Item:
    from towpath.cli.upload import named_state

    owner = options["owner"]
    query = {name: _with_state(options, named_state)[name] for name in ("stream", "state")}
    found: list[Item] = []
    cursor = options["before"]
    while len(found) < options["limit"]:
        page = paged(server, f"{GATEWAY}/uploads", query, options["limit"] - len(found), "before", cursor)
        found += [_upload_item(each) for each in page.items if owner in (None, each["owner"])]
        cursor = page.next
        if cursor is None:
            break
    return {"items": found, "next": cursor}


def _upload(server: Server, options: Options) -> Item:
    path = path_of(_UPLOAD, options)
    found = server.look(path)
    return {**_upload_item(found), "senders": found["senders"], "results": server.look(f"{path}/results")["items"]}


def _abort(server: Server, options: Options) -> Item:
    path = path_of(_UPLOAD, options)
    if not options["yes"]:
        found = server.look(path)
        confirm(f"abort upload {found['id']} of {found['owner']} to {found['stream']}?", "the upload goes on")
    return _upload_item(server.change(f"{path}/abort", {"why": options["why"]}))


def _retry(server: Server, options: Options) -> Item:
    return _upload_item(server.change(f"{path_of(_UPLOAD, options)}/retry", {"why": options["why"]}))


CALLS = {
    "data-set list": listing(
        "/data-sets",
        "kind",
        "about:subject",
        "state",
        prepare=_data_set_state,
        show=table("data set=id", "kind", "about…=subject", "state", "records", "bytes", "age=begun_at", "by…=origin"),
    ),
    "data-set show": looking(_DATA_SET, show=fields()),
    "data-set delete": Call(_delete, sentence("{kind} {id} is deleted: nothing is left at {place}")),
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
    "complaint add": Call(_complain, sentence("complaint {number} is written down")),
    "complaint act": Call(_act, sentence("complaint {number} is {state}")),
    "maintenance list": looking(
        "/maintenance",
        shape=only("items"),
        show=table("name", "size…", "cleaned=last.at", "by…=last.who", "what…=about"),
    ),
    "maintenance run": changing("/maintenance/{name}/run", "force", show=fields()),
    "upload list": Call(
        _uploads, table("upload=id", "stream", "state", "label…", "owner…", "opened=opened_at", "heard of=touched_at")
    ),
    "upload show": Call(_upload, fields()),
    "upload abort": Call(_abort, sentence("upload {id} is {state}")),
    "upload retry": Call(_retry, sentence("upload {id} is {state}; its closing steps will be tried again")),
}
