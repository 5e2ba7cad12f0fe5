"""Which cases a command of the desk means, as the API takes it."""

from __future__ import annotations

import time
from dataclasses import fields
from typing import Any

from towpath.cli.desk_options import Filter
from towpath.cli.remote.call import Item, Options
from towpath.desk.selection import Selection


def filter_of(options: Options) -> Filter:
    given: dict[str, Any] = {each.name: options[each.name] for each in fields(Filter)}
    return Filter(**given | {"state": list(given["state"] or ()) or None})


def selection_of(given: Filter) -> Item:
    """Checked as the command does. An age is counted from now by the clock of this machine."""
    return spoken(given.selection(time.time_ns() // 1_000_000))


def spoken(chosen: Selection) -> Item:
    said: Item = {each.name: getattr(chosen, each.name) for each in fields(chosen)}
    states = None if chosen.states is None else [str(each) for each in chosen.states]
    times = {name: None if said[name] is None else said[name].isoformat() for name in ("since", "until")}
    return {name: value for name, value in (said | times | {"states": states}).items() if value is not None}
