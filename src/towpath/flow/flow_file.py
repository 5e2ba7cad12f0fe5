"""Finding a flow: `module:flow`, `path/to/file.py:flow`, or the module or file alone when it has one flow.

A flow file is imported as Python would run it: its own directory and the working directory are on the path. What is
wrong in it is told with the user's own line.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from towpath.errors import BadFlow, TowpathError
from towpath.flow.flow import Flow

PYTHONPATH = "PYTHONPATH"
TOWPATH = Path(__file__).resolve().parents[1]


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
    paths: tuple[str, ...]
    path = Path(place)
    if place.endswith(".py") or os.sep in place or path.is_file() or (path.is_dir() and not _is_package(path)):
        module, paths = _from_file(path)
    else:
        paths = (str(Path.cwd()),)
        module = _imported(place, paths)
    return FlowFile(_picked(module, place, name), module, paths)


def _from_file(path: Path) -> tuple[ModuleType, tuple[str, ...]]:
    if path.is_dir():
        raise BadFlow(f"{path} is a directory; say which file in it, such as {path / 'flow.py'}")
    if not path.is_file():
        raise BadFlow(f"there is no file {path}")
    file = path.resolve()
    root, names = file.parent, [file.stem]
    while _is_package(root):  # of a package: its relative imports need its whole name
        names.insert(0, root.name)
        root = root.parent
    paths = tuple(dict.fromkeys((str(root), str(Path.cwd()))))
    name = ".".join(names)
    if _leads_to(name, file, paths):
        return _imported(name, paths), paths
    return _loaded(f"towpath_flow_{file.stem}", file, path, paths), paths


def _is_package(directory: Path) -> bool:
    return (directory / "__init__.py").is_file()


def _leads_to(name: str, file: Path, paths: tuple[str, ...]) -> bool:
    """Whether an import of this name gives this file: it may have the name of another module, or none at all."""
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    _look_in(paths)
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None) == str(file)
    if "." in name:
        return True  # to look for it would import the packages above
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin == str(file)


def _imported(name: str, paths: tuple[str, ...]) -> ModuleType:
    _look_in(paths)
    with _told(name, paths):
        return importlib.import_module(name)


def _loaded(name: str, file: Path, shown: Path, paths: tuple[str, ...]) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=None)
    if spec is None or spec.loader is None:
        raise BadFlow(f"{shown} is no Python file: its name has to end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _told(str(shown), paths):
        spec.loader.exec_module(module)
    return module


def _look_in(paths: tuple[str, ...]) -> None:
    importlib.invalidate_caches()
    sys.path[:] = list(dict.fromkeys((*paths, *sys.path)))


@contextmanager
def _told(place: str, paths: tuple[str, ...]) -> Iterator[None]:
    """What an import raises, as one sentence with the line of the user's file at which it happened."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise BadFlow(_sentence(error, place, paths)) from error


def _sentence(error: BaseException, place: str, paths: tuple[str, ...]) -> str:
    said = str(error) if isinstance(error, TowpathError) else f"{type(error).__name__}: {error}".removesuffix(": ")
    if isinstance(error, SyntaxError) and error.filename:
        line = f" ({error.text.strip()})" if error.text else ""
        return f"{_short(error.filename)}, line {error.lineno}: {error.msg}{line}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename, paths)]
    if own:
        line = f" ({own[-1].line})" if own[-1].line else ""
        return f"{_short(own[-1].filename)}, line {own[-1].lineno}: {said}{line}"
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and f"{place}.".startswith(f"{missing}."):
        return f"there is no module {missing!r} in {paths[0]} or where Python looks; a file is given as path/to/file.py"
    return f"{place} cannot be imported: {said}"


def _is_users(filename: str, paths: tuple[str, ...]) -> bool:
    """A virtual environment, or Towpath itself, may lie inside of the user's directory."""
    others = (sys.prefix + os.sep, str(TOWPATH) + os.sep)
    return any(filename.startswith(path + os.sep) for path in paths) and not filename.startswith(others)


def _short(filename: str) -> str:
    """As one would type it from here."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


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
