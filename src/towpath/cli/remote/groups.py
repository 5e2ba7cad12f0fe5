"""Groups of cases, bulk jobs, learned corrections, policies and lanes."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from typing import Any

from towpath.cli.context import UsageError
from towpath.cli.desk.corrections import parse_rule_state
from towpath.cli.desk.groups import archive_of
from towpath.cli.desk.lanes import split
from towpath.cli.desk.options import desk_state
from towpath.cli.desk.policies import read_rules
from towpath.cli.options import confirm
from towpath.cli.remote.call import (
    Item,
    Options,
    RemoteCall,
    changing,
    fields,
    filled,
    listing,
    looking,
    sentence,
    table,
    without,
)
from towpath.cli.remote.cases import follow, job_of, say_job
from towpath.cli.remote.server import RemoteServer, paged, path_of, told
from towpath.core.clock import to_datetime
from towpath.errors import UnknownPolicy

_GROUP = "/desk/groups/{group}"
_JOB = "/desk/jobs/{job}"
_RULE = "/desk/rules/{rule}"
_POLICY = "/policies/{flow}"
_LANE = "/lanes/{flow}/{number}"
_VERSIONS = table("flow…", "origin", "version", "rules…", "set by…=who", "made=made_at", "why…")
_ITEM = without("fingerprints", "history")


def _said(found: Item, options: Options) -> str:
    whose = f", for {found['assignee']}" if found["assignee"] else ""
    return f"group {found['id']} is {found['state']}{whose}"


def _state(options: Options) -> Options:
    from towpath.cli.desk.group_views import read_cursor
    from towpath.desk.groups.model import GroupState

    if options["before"] is not None:
        read_cursor(options["before"])
    return _with_state(options, GroupState, "a group")


def _on_group(act: str, *body: str) -> RemoteCall:
    return changing(f"{_GROUP}/{act}", *body, shape=_ITEM, show=sentence(_said))


def _assign(server: RemoteServer, options: Options) -> Item:
    said = {"assignee": options["to"], "why": options["why"]}
    return dict(_ITEM(server.change(f"{path_of(_GROUP, options)}/assign", said)))


def _merge(server: RemoteServer, options: Options) -> Item:
    """Merge, and show the group that the other one goes into."""
    into = {"into": options["into"]}
    server.change(f"{path_of(_GROUP, options)}/merge", {**into, "why": options["why"]})
    return dict(_ITEM(server.look(path_of(_GROUP, {"group": options["into"]}))))


def _archive(server: RemoteServer, options: Options) -> Item:
    if sum(options[name] is not None for name in ("more", "until", "rate")) > 1:
        raise UsageError("--more, --until and --rate: one of them")
    wanted = archive_of(options["more"], options["until"], options["rate"], time.time_ns() // 1000)
    until = None if wanted.until_us is None else to_datetime(wanted.until_us).isoformat()
    said = {"more": wanted.more, "until": until, "rate": wanted.rate, "per_s": wanted.per_s}
    body = filled(said | {"why": options["why"]})
    return dict(_ITEM(server.change(f"{path_of(_GROUP, options)}/archive", body)))


def _split(server: RemoteServer, options: Options) -> Item:
    cases, fingerprint = list(options["case"] or ()), options["fingerprint"]
    if (not cases) == (fingerprint is None):
        raise UsageError("say which: --case (several times), or --fingerprint")
    said = {"cases": cases or None, "fingerprint": fingerprint, "title": options["title"]}
    body = filled(said | {"why": options["why"]})
    return dict(told(server.change(f"{path_of(_GROUP, options)}/split", body), "moved"))


# Jobs
def _job_state(options: Options) -> Options:
    from towpath.desk.actions.job_store import JobState

    return _with_state(options, JobState, "a job")


def _item_state(options: Options) -> Options:
    from towpath.desk.actions.job_store import ItemState

    return _with_state(options, ItemState, "an item")


def _with_state(options: Options, states: type[StrEnum], what: str) -> Options:
    """Checked as the command does."""
    given = options["state"]
    return options | {"state": None if given is None else str(desk_state(states, given, what))}


def _show_job(server: RemoteServer, options: Options) -> Item:
    view = server.look(path_of(_JOB, options))
    if options["wait"]:
        follow(server, job_of(view))
        view = server.look(path_of(_JOB, options))
    return {**job_of(view), "now": view["cases_now"], "refused_first": view["first_refused"]}


def _on_job(act: str) -> RemoteCall:
    return changing(f"{_JOB}/{act}", shape=job_of, show=say_job)


# Learned corrections
def _rules(options: Options) -> Options:
    parse_rule_state(options["state"])
    return options


def _revert(server: RemoteServer, options: Options) -> Item:
    path = path_of(_RULE, options)
    done = told(server.change(f"{path}/revert", {"why": options["why"]}), "taken_back")
    return {**done, "touched": paged(server, f"{path}/touched", {}, None, "before", None).items}


# Policies
def _versions(server: RemoteServer, options: Options) -> Item:
    found: Item = server.look(path_of(_POLICY, options))
    if not found["items"]:
        raise UnknownPolicy(f"nothing was ever said about the errors of {options['flow']!r}: they are isolated")
    return found


def _given(options: Options) -> list[Any]:
    return [each.to_json() for each in read_rules(options["file"], list(options["rule"] or ()))]


def _set(server: RemoteServer, options: Options) -> Item:
    rules, after = _given(options), options["after"]
    if options["add"]:
        current = server.look("/policies", {"flow": options["flow"]})["items"]
        now = next((each for each in current if each["origin"] == "operator"), None)
        if now is not None:
            rules = [*rules, *now["rules"]]
            after = now["version"] if after is None else after
    body = {"rules": rules, "why": options["why"]} | ({} if after is None else {"after": after})
    return dict(server.change(path_of(_POLICY, options), body))


def _withdraw(server: RemoteServer, options: Options) -> Item:
    opens = options["open_"]
    if opens is None and sys.stdin.isatty():
        raise UsageError("what the rule has ignored: say --open or --leave")
    said = {"number": options["number"], "opens": bool(opens), "why": options["why"]}
    return dict(told(server.change(f"{path_of(_POLICY, options)}/withdraw", said), "version"))


def _try(server: RemoteServer, options: Options) -> Item:
    has_rules = bool(options["file"] or options["rule"])
    said = {"most": options["most"]} | ({"rules": _given(options)} if has_rules else {})
    return dict(server.count(f"{path_of(_POLICY, options)}/count", said))


# Lanes
def _lane(options: Options) -> Options:
    flow, number = split(options["lane"])
    return options | {"flow": flow, "number": number}


def _on_lane(act: str, said: str, question: str = "", was: tuple[bool, str] | None = None) -> RemoteCall:
    """`said` is formatted with the lane as it was before; `was`: the pause state that makes another sentence true."""

    def ask(server: RemoteServer, options: Options) -> Item:
        path = path_of(_LANE, _lane(options))
        before: Item = server.look(path)
        if question and not options["yes"]:
            confirm(question.format(**{**before, "lane": options["lane"]}), "nothing was opened")
        server.change(f"{path}/{act}", {"why": options["why"]})
        return before

    def outcome(found: Item, options: Options) -> str:
        text = was[1] if was is not None and found["is_paused"] is was[0] else said
        return text.format(**{**found, "lane": options["lane"]})

    return RemoteCall(ask, sentence(outcome))


CALLS = {
    # groups and jobs
    "desk groups": listing(
        "/desk/groups",
        "flow",
        "state",
        prepare=_state,
        each=without("trend"),
        show=table("group=id", "state", "cases…", "flow…", "code", "step…", "title…", "last=last_at", "for…=assignee"),
    ),
    "desk group show": looking(_GROUP, show=fields()),
    "desk group assign": RemoteCall(_assign, sentence(_said)),
    "desk group note": _on_group("note", "text"),
    "desk group ongoing": _on_group("look"),
    "desk group resolve": _on_group("resolve"),
    "desk group archive": RemoteCall(_archive, sentence(_said)),
    "desk group merge": RemoteCall(_merge, sentence(_said)),
    "desk group unmerge": _on_group("unmerge"),
    "desk group split": RemoteCall(_split, sentence("group {group[id]} is new, with {moved} cases")),
    "desk job list": listing(
        "/desk/jobs",
        "state",
        prepare=_job_state,
        show=table(
            "job=seq", "state", "what=kind", "name…", "cases", "done", "refused", "who…", "made=made_at", "why…"
        ),
    ),
    "desk job show": RemoteCall(_show_job, fields()),
    "desk job items": listing(
        f"{_JOB}/items", "state", by="after", prepare=_item_state, show=table("number", "state", "case…", "said…")
    ),
    "desk job begin": _on_job("begin"),
    "desk job pause": _on_job("pause"),
    "desk job resume": _on_job("resume"),
    "desk job abort": _on_job("abort"),
    # corrections, policies and lanes
    "desk correct rules": looking(
        "/desk/rules",
        "flow",
        "state",
        prepare=_rules,
        show=table("rule", "state", "flow…", "what it does…=text", "support", "confidence", "right", "wrong"),
    ),
    "desk correct show": looking(_RULE, "limit", show=fields()),
    "desk correct suggest": looking("/desk/cases/{case}/suggestions", show=fields()),
    "desk correct report": looking("/desk/corrections/{flow}/report", show=fields()),
    "desk correct on": changing(f"{_RULE}/on", "support", "confidence", show=sentence("rule {rule} is on ({text})")),
    "desk correct off": changing(f"{_RULE}/off", show=sentence("rule {rule} is off ({text})")),
    "desk correct revert": RemoteCall(_revert, fields("rule", "text", "state", "taken_back", "touched")),
    "desk policy list": looking("/policies", "flow", show=_VERSIONS),
    "desk policy show": RemoteCall(_versions, _VERSIONS),
    "desk policy set": RemoteCall(_set, sentence("version {version} of the operators' rules for {flow} counts")),
    "desk policy withdraw": RemoteCall(
        _withdraw, sentence("version {version} of the operators' rules for {flow} counts, without that rule")
    ),
    "desk policy try": RemoteCall(_try, fields()),
    "lane list": looking(
        "/lanes",
        "flow",
        show=table("flow", "lane", "delay s=delay_s", "waiting", "next due=first_due", "paused=is_paused", "owner…"),
    ),
    "lane show": looking(_LANE, prepare=_lane, show=fields()),
    "lane pause": _on_lane("pause", "{lane} is paused", was=(True, "{lane} was paused already")),
    "lane resume": _on_lane("resume", "{lane} goes on", was=(False, "{lane} was not paused")),
    "lane hurry": _on_lane("hurry", "{waiting} records of {lane} are due now"),
    "lane empty": _on_lane(
        "empty", "{waiting} records of {lane} are on the desk", "open {waiting} cases that wait in {lane}?"
    ),
}
