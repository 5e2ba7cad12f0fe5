"""Groups of cases, and bulk jobs."""

from __future__ import annotations

import time

from towpath.cli.failures import UsageError
from towpath.cli.remote.bulk_calls import follow, job_of, say_job
from towpath.cli.remote.call import Call, Item, Options, changing, listing, looking, without
from towpath.cli.remote.server import Server, path_of, told
from towpath.cli.remote.view import fields, sentence, table

_GROUP = "/desk/groups/{group}"
_JOB = "/desk/jobs/{job}"
_ITEM = without("fingerprints", "history")


def _said(found: Item, options: Options) -> str:
    whose = f", for {found['assignee']}" if found["assignee"] else ""
    return f"group {found['id']} is {found['state']}{whose}"


def _state(options: Options) -> Options:
    from towpath.cli.desk_group_view import group_state, read_cursor

    if options["before"] is not None:
        read_cursor(options["before"])
    given = options["state"]
    return options | {"state": None if given is None else str(group_state(given))}


def _on_group(act: str, *body: str) -> Call:
    return changing(f"{_GROUP}/{act}", *body, shape=_ITEM, show=sentence(_said))


def _assign(server: Server, options: Options) -> Item:
    said = {"assignee": options["to"], "why": options["why"]}
    return dict(_ITEM(server.change(f"{path_of(_GROUP, options)}/assign", said)))


def _merge(server: Server, options: Options) -> Item:
    """The group that the other one goes into is shown."""
    into = {"into": options["into"]}
    server.change(f"{path_of(_GROUP, options)}/merge", {**into, "why": options["why"]})
    return dict(_ITEM(server.look(path_of(_GROUP, {"group": options["into"]}))))


def _archive(server: Server, options: Options) -> Item:
    from towpath.cli.desk_groups import archive_of
    from towpath.clock import to_datetime

    if sum(options[name] is not None for name in ("more", "until", "rate")) > 1:
        raise UsageError("--more, --until and --rate: one of them")
    wanted = archive_of(options["more"], options["until"], options["rate"], time.time_ns() // 1000)
    until = None if wanted.until_us is None else to_datetime(wanted.until_us).isoformat()
    said = {"more": wanted.more, "until": until, "rate": wanted.rate, "per_s": wanted.per_s}
    body = {name: value for name, value in said.items() if value is not None} | {"why": options["why"]}
    return dict(_ITEM(server.change(f"{path_of(_GROUP, options)}/archive", body)))


def _split(server: Server, options: Options) -> Item:
    cases, fingerprint = list(options["case"] or ()), options["fingerprint"]
    if (not cases) == (fingerprint is None):
        raise UsageError("say which: --case (several times), or --fingerprint")
    said = {"cases": cases or None, "fingerprint": fingerprint, "title": options["title"]}
    body = {name: value for name, value in said.items() if value is not None} | {"why": options["why"]}
    return dict(told(server.change(f"{path_of(_GROUP, options)}/split", body), "moved"))


# Jobs


def _job_state(options: Options) -> Options:
    from towpath.cli.desk_job_view import job_state

    given = options["state"]
    return options | {"state": None if given is None else str(job_state(given))}


def _item_state(options: Options) -> Options:
    from towpath.cli.desk_job_view import item_state

    given = options["state"]
    return options | {"state": None if given is None else str(item_state(given))}


def _show_job(server: Server, options: Options) -> Item:
    view = server.look(path_of(_JOB, options))
    if options["wait"]:
        follow(server, job_of(view))
        view = server.look(path_of(_JOB, options))
    return {**job_of(view), "now": view["cases_now"], "refused_first": view["first_refused"]}


def _on_job(act: str) -> Call:
    return changing(f"{_JOB}/{act}", shape=job_of, show=say_job)


CALLS = {
    "desk groups": listing(
        "/desk/groups",
        "flow",
        "state",
        prepare=_state,
        each=without("trend"),
        show=table("group=id", "state", "cases…", "flow…", "code", "step…", "title…", "last=last_at", "for…=assignee"),
    ),
    "desk group show": looking(_GROUP, show=fields()),
    "desk group assign": Call(_assign, sentence(_said)),
    "desk group note": _on_group("note", "text"),
    "desk group ongoing": _on_group("look"),
    "desk group resolve": _on_group("resolve"),
    "desk group archive": Call(_archive, sentence(_said)),
    "desk group merge": Call(_merge, sentence(_said)),
    "desk group unmerge": _on_group("unmerge"),
    "desk group split": Call(_split, sentence("group {group[id]} is new, with {moved} cases")),
    "desk job list": listing(
        "/desk/jobs",
        "state",
        prepare=_job_state,
        show=table(
            "job=seq", "state", "what=kind", "name…", "cases", "done", "refused", "who…", "made=made_at", "why…"
        ),
    ),
    "desk job show": Call(_show_job, fields()),
    "desk job items": listing(
        f"{_JOB}/items", "state", by="after", prepare=_item_state, show=table("number", "state", "case…", "said…")
    ),
    "desk job begin": _on_job("begin"),
    "desk job pause": _on_job("pause"),
    "desk job resume": _on_job("resume"),
    "desk job abort": _on_job("abort"),
}
