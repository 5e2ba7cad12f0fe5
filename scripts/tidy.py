"""The house rules of CONTRIBUTING.md, as far as a program can check them: `make check` runs this.

    python scripts/tidy.py [--numbers]

Exceptions stand in scripts/tidy.toml, each with its reason. The list only shrinks: an exception that is no longer
needed is an error too. `--numbers` prints the size of the house instead.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PACKAGE = "towpath"
EXCEPTIONS = Path(__file__).with_name("tidy.toml")

MOST_MODULES = 25  # of a folder, without its __init__
MOST_LINES = 600
SMALL_LINES = 100  # below: needs two importers
LONE_LINES = 150  # below: needs more than one importer
MOST_POSITIONAL = 4
SHAPES = {"model", "states", "store", "service", "sink", "writer", "reader", "commands", "views"}
# Each imports once what it lists: commands, routes, pages, errors.
REGISTRIES = {"towpath.cli.command", "towpath.errors", "towpath.web.app", "towpath.web.console.pages"}
PARTICIPLE = re.compile(r"(^|_)[a-z]+ing$")


@dataclass
class Module:
    """A file of the package."""

    name: str  # dotted
    path: Path
    place: str  # below the package, such as log/topic.py
    importers: set[str] = field(default_factory=set)

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def is_entry_point(self) -> bool:
        return self.stem == "__main__" or 'if __name__ == "__main__":' in self.text


def read_modules(source: Path = SOURCE) -> dict[str, Module]:
    """All modules of the package, each with those that import it."""
    modules = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, path, path.relative_to(source / PACKAGE).as_posix())
    for module in modules.values():
        for target in _imported(module, modules):
            if target != module.name:
                modules[target].importers.add(module.name)
    return modules


def _imported(module: Module, modules: Mapping[str, Module]) -> Iterator[str]:
    """Imports anywhere in the module, and names of modules in strings, such as those that workers load."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield from (below,) if below in modules else (node.module,) if node.module in modules else ()
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in modules:
            yield node.value


# The rules. Each yields a subject, which an exception can name, and what is wrong with it.

Finding = tuple[str, str]


def large_folders(modules: Iterable[Module]) -> Iterator[Finding]:
    for folder, count in sorted(_rooms(modules).items()):
        if count > MOST_MODULES:
            yield folder, f"{count} modules in one folder, {MOST_MODULES} at most: divide it by subject"


def _rooms(modules: Iterable[Module]) -> Counter[str]:
    return Counter(module.place.rpartition("/")[0] for module in modules if not module.is_package)


def large_modules(modules: Iterable[Module]) -> Iterator[Finding]:
    for module in modules:
        if module.lines > MOST_LINES:
            yield module.place, f"{module.lines} lines, {MOST_LINES} at most: divide it by subject"


def small_modules(modules: Iterable[Module]) -> Iterator[Finding]:
    for module in modules:
        is_known = module.is_package or module.is_entry_point or module.stem.rpartition("_")[2] in SHAPES
        if is_known or module.importers & REGISTRIES:
            continue
        users = len(module.importers)
        if users == 1 and module.lines < LONE_LINES:
            [user] = module.importers
            yield module.place, f"{module.lines} lines that only {user} imports: put them there"
        elif users == 0 and module.lines < SMALL_LINES:
            yield module.place, f"{module.lines} lines that nothing imports: delete it, or say who needs it"


def participles(modules: Iterable[Module]) -> Iterator[Finding]:
    for module in modules:
        if PARTICIPLE.search(module.stem):
            yield module.place, "is named by a participle: use a noun of the field"


def doubled_classes(modules: Iterable[Module]) -> Iterator[Finding]:
    homes: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module.name)
    for name, where in sorted(homes.items()):
        if len(where) > 1:
            yield name, f"is a class in {' and '.join(where)}: give each a name of its own"


def rooms_without_signs(modules: Iterable[Module]) -> Iterator[Finding]:
    for module in modules:
        if module.is_package and module.name != PACKAGE and not module.path.with_name("README.md").exists():
            yield module.place, "has no README.md beside it: what it owns, where to start, invariants, crash points"


RULES = (large_folders, large_modules, small_modules, participles, doubled_classes, rooms_without_signs)


def crowded_calls(modules: Iterable[Module]) -> Counter[str]:
    """Functions with too many positional parameters, by package. Commands and routes are called by their framework."""
    found: Counter[str] = Counter()
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_handler(node):
                names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
                if len(names) - (names[:1] in (["self"], ["cls"])) > MOST_POSITIONAL:
                    found[module.name.removeprefix(f"{PACKAGE}.").partition(".")[0]] += 1
    return found


def _is_handler(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) for each in node.decorator_list)


# The check


def problems(modules: Mapping[str, Module], exceptions: Mapping[str, Any]) -> list[str]:
    """What is against the rules and no exception, and exceptions that are not needed any more."""
    found: list[str] = []
    for rule in RULES:
        allowed: dict[str, str] = dict(exceptions.get(rule.__name__, {}))
        for subject, what in rule(modules.values()):
            if allowed.pop(subject, None) is None:
                found.append(f"{subject}: {what}")
        found += [
            f"{subject}: needs no exception from {rule.__name__} any more: take it out of tidy.toml"
            for subject in allowed
        ]
    limits: dict[str, int] = exceptions.get(crowded_calls.__name__, {})
    counts = crowded_calls(modules.values())
    for package in sorted({*limits, *counts}):
        count, limit = counts[package], limits.get(package, 0)
        if count > limit:
            found.append(
                f"{package}: {count} functions with more than {MOST_POSITIONAL} positional parameters, "
                f"{limit} allowed: make the rest keyword-only"
            )
        elif count < limit:
            found.append(f"{package}: only {count} such functions are left: lower crowded_calls in tidy.toml to that")
    return found


def numbers(modules: Mapping[str, Module]) -> str:
    """The size of the house."""
    files = [module for module in modules.values() if not module.is_package]
    lines = sorted(module.lines for module in files)
    folder, most = _rooms(files).most_common(1)[0]
    rows = {
        "modules": len(files),
        "folders": len({module.path.parent for module in modules.values()}),
        "lines": sum(module.lines for module in modules.values()),
        "largest folder": f"{most} ({folder})",
        "median module": f"{statistics.median(lines):.0f} lines",
        "nine of ten modules have at most": f"{lines[len(lines) * 9 // 10]} lines",
        "largest module": f"{lines[-1]} lines",
        "modules under 60 lines": sum(count < 60 for count in lines),
        "modules with one importer": sum(len(module.importers) == 1 for module in files),
        "public class names used more than once": sum(1 for _ in doubled_classes(modules.values())),
    }
    return "\n".join(f"{name:42} {value}" for name, value in rows.items())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python scripts/tidy.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--numbers", action="store_true", help="print the size of the house")
    asked = parser.parse_args()
    modules = read_modules()
    if asked.numbers:
        print(numbers(modules))
        return 0
    found = problems(modules, tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8")))
    for each in found:
        print(each, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
