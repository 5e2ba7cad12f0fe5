"""Learned corrections, policies and lanes."""

from __future__ import annotations

import sys
from typing import Any

from towpath.cli.asking import confirm
from towpath.cli.failures import UsageError
from towpath.cli.remote.call import Call, Item, Options, changing, looking
from towpath.cli.remote.paging import paged
from towpath.cli.remote.server import Server, path_of, told
from towpath.cli.remote.view import fields, sentence, table
from towpath.errors import UnknownPolicy

_RULE = "/desk/rules/{rule}"
_POLICY = "/policies/{flow}"
_VERSIONS = table("flow…", "origin", "version", "rules…", "set by…=who", "made=made_at", "why…")


# Learned corrections


def _rules(options: Options) -> Options:
    from towpath.desk.corrections.rule_state import RuleState

    state = options["state"]
    if state is not None and state not in set(RuleState):
        raise UsageError(f"--state {state}: it is {', '.join(RuleState)}")
    return options


def _revert(server: Server, options: Options) -> Item:
    path = path_of(_RULE, options)
    done = told(server.change(f"{path}/revert", {"why": options["why"]}), "taken_back")
    return {**done, "touched": paged(server, f"{path}/touched", {}, None, "before", None).items}


# Policies


def _versions(server: Server, options: Options) -> Item:
    found: Item = server.look(path_of(_POLICY, options))
    if not found["items"]:
        raise UnknownPolicy(f"nothing was ever said about the errors of {options['flow']!r}: they are isolated")
    return found


def _given(options: Options) -> list[Any]:
    from towpath.cli.desk_policy import read_rules

    return [each.to_json() for each in read_rules(options["file"], list(options["rule"] or ()))]


def _set(server: Server, options: Options) -> Item:
    rules, after = _given(options), options["after"]
    if options["add"]:
        current = server.look("/policies", {"flow": options["flow"]})["items"]
        now = next((each for each in current if each["origin"] == "operator"), None)
        if now is not None:
            rules = [*rules, *now["rules"]]
            after = now["version"] if after is None else after
    body = {"rules": rules, "why": options["why"]} | ({} if after is None else {"after": after})
    return dict(server.change(path_of(_POLICY, options), body))


def _withdraw(server: Server, options: Options) -> Item:
    opens = options["open_"]
    if opens is None and sys.stdin.isatty():
        raise UsageError("what the rule has ignored: say --open or --leave")
    said = {"number": options["number"], "opens": bool(opens), "why": options["why"]}
    return dict(told(server.change(f"{path_of(_POLICY, options)}/withdraw", said), "version"))


def _try(server: Server, options: Options) -> Item:
    has_rules = bool(options["file"] or options["rule"])
    said = {"most": options["most"]} | ({"rules": _given(options)} if has_rules else {})
    return dict(server.count(f"{path_of(_POLICY, options)}/count", said))


# Lanes


def _lane(options: Options) -> Options:
    from towpath.cli.lane import split

    flow, number = split(options["lane"])
    return options | {"flow": flow, "number": number}


_LANE = "/lanes/{flow}/{number}"


def _on_lane(act: str, said: str, question: str = "", was: tuple[bool, str] | None = None) -> Call:
    """What is said tells of the lane as it was before; `was`: whether it was paused already, and what is said then."""

    def ask(server: Server, options: Options) -> Item:
        path = path_of(_LANE, _lane(options))
        before: Item = server.look(path)
        if question and not options["yes"]:
            confirm(question.format(**{**before, "lane": options["lane"]}), "nothing was opened")
        server.change(f"{path}/{act}", {"why": options["why"]})
        return before

    def told(found: Item, options: Options) -> str:
        text = was[1] if was is not None and found["is_paused"] is was[0] else said
        return text.format(**{**found, "lane": options["lane"]})

    return Call(ask, sentence(told))


CALLS = {
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
    "desk correct revert": Call(_revert, fields("rule", "text", "state", "taken_back", "touched")),
    "desk policy list": looking("/policies", "flow", show=_VERSIONS),
    "desk policy show": Call(_versions, _VERSIONS),
    "desk policy set": Call(_set, sentence("version {version} of the operators' rules for {flow} counts")),
    "desk policy withdraw": Call(
        _withdraw, sentence("version {version} of the operators' rules for {flow} counts, without that rule")
    ),
    "desk policy try": Call(_try, fields()),
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
