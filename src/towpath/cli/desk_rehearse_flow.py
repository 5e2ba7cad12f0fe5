"""Which code a rehearsal runs: what was named, what `[up]` runs, or the one file here that has the flow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.cli.failures import UsageError

if TYPE_CHECKING:
    from towpath.flow.flow_file import FlowFile
    from towpath.settings import Settings

BY_OPTION = "--flow MODULE:FLOW or FILE.py:FLOW"
BY_CODE = "`code` with a name among the settings desk.code"


@dataclass(frozen=True, slots=True)
class Tried:
    """The code of a flow, and where that was found."""

    found: FlowFile
    target: str


def flow_to_try(target: str | None, name: str, settings: Settings, directory: Path, *, how: str = BY_OPTION) -> Tried:
    """`directory` is that of the settings file, from which targets of `[up]` are seen; `how` says what to give."""
    from towpath.flow.flow_file import find_flow

    if target is not None:
        return Tried(find_flow(target), target)
    targets = _in_up(settings, directory, name) or _in_files(sorted(Path().glob("*.py")), name)
    if not targets:
        raise UsageError(f"no file in this directory has the flow {name}; say where it is: {how}")
    if len(targets) > 1:
        raise UsageError(f"the flow {name} is in {' and in '.join(targets)}; say which one to rehearse with: {how}")
    return Tried(find_flow(targets[0]), targets[0])


def _in_up(settings: Settings, directory: Path, name: str) -> list[str]:
    """What `towpath up` runs, if that is this flow."""
    found: list[str] = []
    for up in settings.up.values():
        if up.kind == "flow" and up.launcher == "subprocess":
            place, _, called = up.target.partition(":")
            file = place if place.endswith(".py") else f"{place.replace('.', '/')}.py"
            here = Path(os.path.relpath(directory / up.directory / file))
            found += (each for each in _in_files([here], name) if not called or each.endswith(f":{called}"))
    return list(dict.fromkeys(found))


def _in_files(files: Iterable[Path], name: str) -> list[str]:
    """Targets of the flow of that name; only files are imported that seem to make it."""
    from towpath.user_code import import_user_module

    made = re.compile(rf"Flow\(\s*['\"]{re.escape(name)}['\"]")
    targets: dict[int, str] = {}
    for file in files:
        if not file.is_file() or not made.search(file.read_text("utf-8", "replace")):
            continue
        for called, value in vars(import_user_module(str(file), Path(), UsageError).module).items():
            if type(value).__name__ == "Flow" and value.name == name:
                targets.setdefault(id(value), f"{file}:{called}")  # one with two names is one
    return list(targets.values())
