"""Importing what a user has written: a module by its name, or a file by its path.

A file is imported as Python would run it: its own directory and the given one are on the path. An error in it is
reported in one sentence, with the user's own line.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from towpath.errors import TowpathError

TOWPATH = Path(__file__).resolve().parents[1]
PREFIX = "towpath_user_"  # of files whose names cannot be imported


@dataclass(frozen=True, slots=True)
class UserModule:
    """A module of the user's. `paths` are the directories that its imports are looked for in, before all others."""

    module: ModuleType
    paths: tuple[str, ...]


def import_user_module(place: str, directory: Path, error: type[TowpathError]) -> UserModule:
    """The module that `place` names, seen from a directory; raises `error` with what is wrong."""
    try:
        if place and _is_path(place, directory / place):
            return _from_file(directory / place, place, directory)
        if all(part.isidentifier() for part in place.split(".")):
            return _imported(place, place, (str(directory.resolve()),))
    except _Wrong as wrong:
        raise error(str(wrong)) from wrong.__cause__
    raise error(f"{place!r} is no name of a module, such as shop.actors; a file is given as path/to/file.py")


class _Wrong(Exception):
    """What is wrong, as a sentence."""


def _is_path(place: str, path: Path) -> bool:
    is_directory = path.is_dir() and not _is_package(path)
    return place.endswith(".py") or os.sep in place or path.is_file() or is_directory


def _from_file(path: Path, place: str, directory: Path) -> UserModule:
    if path.is_dir():
        raise _Wrong(f"{place} is a directory; say which file in it")
    if not path.is_file():
        raise _Wrong(f"there is no file {path}")
    file = path.resolve()
    root, names = file.parent, [file.stem]
    while _is_package(root):  # of a package: its relative imports need its whole name
        names.insert(0, root.name)
        root = root.parent
    paths = tuple(dict.fromkeys((str(root), str(directory.resolve()))))
    name = ".".join(names)
    if _leads_to(name, file, paths):
        return _imported(name, place, paths)
    return _loaded(f"{PREFIX}{file.stem}", file, place, paths)


def _is_package(directory: Path) -> bool:
    return (directory / "__init__.py").is_file()


def _leads_to(name: str, file: Path, paths: tuple[str, ...]) -> bool:
    """Whether importing this name gives this file: another module may have the name, or it cannot be imported."""
    _look_in(paths)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin == str(file)


def _imported(name: str, place: str, paths: tuple[str, ...]) -> UserModule:
    _look_in(paths)
    try:
        return UserModule(importlib.import_module(name), paths)
    except (Exception, SystemExit) as error:
        raise _Wrong(_sentence(error, place, paths)) from error


def _loaded(name: str, file: Path, place: str, paths: tuple[str, ...]) -> UserModule:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise _Wrong(f"{place} is no Python file: its name has to end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _Wrong(_sentence(error, place, paths)) from error
    return UserModule(module, paths)


def _look_in(paths: tuple[str, ...]) -> None:
    importlib.invalidate_caches()
    sys.path[:] = list(dict.fromkeys((*paths, *sys.path)))


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
    """Whether a file is the user's: a virtual environment, or Towpath itself, may lie inside of the directory."""
    others = (sys.prefix + os.sep, str(TOWPATH) + os.sep)
    return any(filename.startswith(path + os.sep) for path in paths) and not filename.startswith(others)


def _short(filename: str) -> str:
    """The path relative to the working directory, if it is below that."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
