"""What `towpath` and its packages offer is what they say, and no more."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import towpath
from towpath import errors

PACKAGES = ["towpath", "towpath.db", "towpath.log", "towpath.queue"]


@pytest.mark.parametrize("name", ["towpath.db", "towpath.log", "towpath.queue"])
def test_all_is_everything_public_that_is_imported(name: str) -> None:
    module = importlib.import_module(name)
    for wanted in module.__all__:
        getattr(module, wanted)  # some are loaded only when they are asked for
    public = {
        key for key, value in vars(module).items() if not key.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public == set(module.__all__)


def test_the_front_door_is_small() -> None:
    assert len(towpath.__all__) <= 17


def test_everything_exported_is_documented() -> None:
    assert [name for name in towpath.__all__ if not inspect.getdoc(getattr(towpath, name))] == []


def tree() -> dict[str, type[Exception]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.TowpathError)
    }


def test_the_error_tree_in_the_docstring_is_the_tree() -> None:
    """Each line is indented under its base."""
    drawn: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines()[2:]:
        name = next((word for word in line.split() if word.isidentifier()), None)
        if name is None:
            continue
        depth = line.index(name)
        above = [pair for pair in above if pair[0] < depth]
        drawn[name] = above[-1][1] if above else "Exception"
        above.append((depth, name))
    assert drawn == {name: value.__bases__[0].__name__ for name, value in tree().items()}


def test_every_error_says_what_it_means() -> None:
    assert [name for name, value in tree().items() if not value.__doc__] == []


def test_importing_towpath_loads_neither_spark_nor_command_line() -> None:
    program = "import sys, towpath; print([m for m in ('pyspark', 'typer', 'rich', 'fastapi') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
