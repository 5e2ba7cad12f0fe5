"""Finding a flow: `module:flow`, `path/to/file.py:flow`, or the module or file alone when it has one flow.

It is seen from the working directory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from towpath.errors import BadFlow
from towpath.flow.flow import Flow
from towpath.user_code import import_user_module

PYTHONPATH = "PYTHONPATH"


@dataclass(frozen=True, slots=True)
class FlowFile:
    """A flow and the module that it was found in. `paths` are the directories that its imports are looked for in."""

    flow: Flow
    module: ModuleType
    paths: tuple[str, ...]

    def take_along(self) -> str:
        """Let Spark's workers have the user's code; returns the path for workers elsewhere. Before Spark starts.

        The module itself goes along with its functions, since its file may have no name that can be imported. What it
        imports is found by path.
        """
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(self.module)  # type: ignore[no-untyped-call]
        before = os.environ.get(PYTHONPATH, "").split(os.pathsep)
        os.environ[PYTHONPATH] = os.pathsep.join(dict.fromkeys(filter(None, (*self.paths, *before))))
        return os.environ[PYTHONPATH]


def find_flow(target: str) -> FlowFile:
    """Import what the target names and pick the flow; `BadFlow` says what is wrong with it."""
    place, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    if not place or (":" in target and not name):
        raise BadFlow(f"{target!r} is not MODULE:FLOW, FILE.py:FLOW, or a module or file with one flow")
    found = import_user_module(place, Path(), BadFlow)
    return FlowFile(_picked(found.module, place, name), found.module, found.paths)


def _picked(module: ModuleType, place: str, name: str) -> Flow:
    flows = {each: found for each, found in vars(module).items() if isinstance(found, Flow)}
    names = {id(flow): each for each, flow in reversed(flows.items())}  # one with two names is one
    known = ", ".join(f"{place}:{each}" for each in sorted(names.values()))
    if name:
        found = vars(module).get(name)
        if isinstance(found, Flow):
            return found
        what = f"has no {name!r}" if found is None else f"has a {type(found).__name__} of the name {name!r}, not a Flow"
        raise BadFlow(f"{place} {what}; {f'its flows: {known}' if known else 'it has no flow at all'}")
    if not flows:
        raise BadFlow(f'{place} has no flow; make one: flow = towpath.Flow("name")')
    if len(names) > 1:
        raise BadFlow(f"{place} has several flows; say which: {known}")
    return next(iter(flows.values()))
