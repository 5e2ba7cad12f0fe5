"""Runs the tests of a core on one fault after the other, each in a process forked from a warm one.

What makes it quick: a process that has loaded pytest and everything that the tests need, except the source at fault and
what imports it, forks itself for each fault. The child loads the rest, with the fault in it, runs the tests until one
of them fails, quickest first, and ends.

What makes it steady: Hypothesis draws the same examples each time, and a child that goes round in circles is ended by
its processor time, which does not depend on what else the machine does.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

from scripts.mutants.cores import ROOT, Core
from scripts.mutants.mutations import Mutation

MEMORY = 4 << 30  # bytes of address space: a fault may ask for any number of things
LEAST_CPU_S = 2
LEAST_WALL_S = 60.0


class Fate(StrEnum):
    """What became of a fault."""

    KILLED = "killed"  # a test has failed
    SURVIVED = "survived"  # all tests have passed
    BROKEN = "broken"  # its source cannot even be loaded: nobody could overlook it, so it does not count


class TrialFailed(Exception):
    """The tests did not say anything about a fault: they fail without one, or pytest could not run them."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the tests of a core are like without a fault."""

    cpu_s: float
    modules: tuple[str, ...]  # that they load
    durations: Mapping[str, float] = field(default_factory=dict)  # by test, in seconds

    @property
    def cpu_limit_s(self) -> int:
        return round(LEAST_CPU_S + 5 * self.cpu_s)

    @property
    def wall_limit_s(self) -> float:
        return LEAST_WALL_S + 40 * self.cpu_s


# Without a fault


def health(core: Core) -> Health:
    """Run the tests as they are. Raises `TrialFailed` when one of them fails."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _enter()
        watch = _Durations()
        code = _pytest(core, watch)
        used = resource.getrusage(resource.RUSAGE_SELF)
        told = {
            "code": code,
            "cpu_s": used.ru_utime + used.ru_stime,
            "modules": [*sys.modules],
            "durations": watch.durations,
            "failed": watch.failed,
        }
        with os.fdopen(writer, "w") as stream:
            json.dump(told, stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    told = json.loads(text or '{"code": -1, "failed": []}')
    if told["code"] != 0:
        failed = ", ".join(told["failed"]) or "pytest could not run"
        raise TrialFailed(f"the tests of {core.name} do not pass without a fault: {failed}")
    return Health(told["cpu_s"], tuple(told["modules"]), told["durations"])


class _Durations:
    """A pytest plugin: how long each test takes, and which ones failed."""

    def __init__(self) -> None:
        self.durations: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.durations[report.nodeid] = self.durations.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)


# With faults


def try_all(
    core: Core, source: Path, mutations: Sequence[Mutation], well: Health, jobs: int
) -> Iterator[tuple[Mutation, Fate]]:
    """Each fault of one source and what became of it, in the order in which they end.

    The first trial is of the source as it is: were it to fail, it would be the trial that fails, and every fault would
    seem to be noticed. Raises `TrialFailed`.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _serve(core, source, mutations, well, jobs=jobs, writer=writer)
    os.close(writer)
    ended = 0
    try:
        with os.fdopen(reader) as stream:
            for line in stream:
                number, _, said = line.rstrip("\n").partition(" ")
                if said not in list(Fate):
                    raise TrialFailed(f"{core.name}: the tests could not be run on {source.name}: {said}")
                if int(number) == _CONTROL:
                    if said != Fate.SURVIVED:
                        raise TrialFailed(f"{core.name}: the tests fail on {source.name} as it is, in a forked process")
                    continue
                ended += 1
                yield mutations[int(number)], Fate(said)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # its children are of its group
        os.waitpid(pid, 0)
    if ended < len(mutations):
        raise TrialFailed(f"{core.name}: the process that tries {source.name} has died")


_CONTROL = -1


def _serve(
    core: Core, source: Path, mutations: Sequence[Mutation], well: Health, *, jobs: int, writer: int
) -> NoReturn:
    """In the warm process: a child for each fault, so many at once."""
    try:
        os.setpgid(0, 0)
        with os.fdopen(writer, "w", buffering=1) as stream:
            try:
                for number, fate in _fates(core, source, mutations, well, jobs):
                    stream.write(f"{number} {fate}\n")
            except Exception as error:
                stream.write(f"- {' '.join(str(error).split()) or type(error).__name__}\n")
    finally:
        os._exit(0)  # never back into the code of the process that was forked


def _fates(
    core: Core, source: Path, mutations: Sequence[Mutation], well: Health, jobs: int
) -> Iterator[tuple[int, str]]:
    """The number of each fault and its fate; before them, that of the source as it is."""
    _enter()
    name = _module_of(source)
    _warm_up(name, well.modules)
    text = source.read_text(encoding="utf-8")
    faulty = {number: each.applied(text) for number, each in enumerate(mutations)}

    def work(text: str) -> NoReturn:
        _try(core, name, source, text, well)

    control = _children({_CONTROL: text}, 1, well, work)
    for number, status in itertools.chain(control, _children(faulty, jobs, well, work)):
        yield number, _fate(status)


def _children(
    texts: Mapping[int, str], jobs: int, well: Health, work: Callable[[str], NoReturn]
) -> Iterator[tuple[int, int]]:
    """Fork for each text, so many at once: its number, and with what status its child ended."""
    waiting = list(texts.items())[::-1]
    running: dict[int, tuple[int, float]] = {}  # by process: its number, and when to end it
    clock, looked_at = 0.0, time.monotonic()
    while waiting or running:
        # While all of them were stopped, or the machine was asleep, nobody was late.
        clock, looked_at = clock + min(1.0, time.monotonic() - looked_at), time.monotonic()
        while waiting and len(running) < jobs:
            number, text = waiting.pop()
            pid = os.fork()
            if pid == 0:
                work(text)
            running[pid] = (number, clock + well.wall_limit_s)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            yield running.pop(pid)[0], status
            continue
        for late in [pid for pid, (_, deadline) in running.items() if clock > deadline]:
            os.kill(late, signal.SIGXCPU)
        time.sleep(0.005)


def _fate(status: int) -> str:
    """The fate, or the code of pytest when it has none."""
    if os.WIFSIGNALED(status):
        ended_by = signal.Signals(os.WTERMSIG(status))
        return Fate.KILLED if ended_by in _BY_ITSELF else f"somebody has ended the process with {ended_by.name}"
    code = os.WEXITSTATUS(status)
    fates = {0: Fate.SURVIVED, 1: Fate.KILLED, 2: Fate.KILLED, 3: Fate.KILLED, _BROKEN: Fate.BROKEN}
    return fates.get(code, f"the process ended with code {code}")


# What ends a process that never comes to an end, or overflows.
_BY_ITSELF = (signal.SIGXCPU, signal.SIGSEGV, signal.SIGABRT)

# No codes of pytest.
_BROKEN = 77
_BAD_TRIAL = 78


def _try(core: Core, name: str, source: Path, text: str, well: Health) -> NoReturn:
    """In the child: ends with the code of pytest."""
    code = _BAD_TRIAL
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (well.cpu_limit_s, well.cpu_limit_s + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        sys.meta_path.insert(0, _Faulty(name, source, text))
        try:
            importlib.import_module(name)
        except BaseException:
            os._exit(_BROKEN)
        code = _pytest(core, _Order(well.durations), "-x")
    finally:
        os._exit(code)


class _Faulty(importlib.abc.MetaPathFinder):
    """Finds one module, with another text than its file has."""

    def __init__(self, name: str, source: Path, text: str) -> None:
        self._name = name
        self._loader = _FaultyLoader(name, str(source), text)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._loader.path, loader=self._loader)


class _FaultyLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._text.encode(), self.path)


class _Order:
    """A pytest plugin: the quickest tests first."""

    def __init__(self, durations: Mapping[str, float]) -> None:
        self._durations = durations

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: self._durations.get(item.nodeid, 0.0))


# The warm process


def _enter() -> None:
    """A process that says nothing and in which every run is the same."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    sys.dont_write_bytecode = False
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

    import hypothesis

    hypothesis.settings.register_profile(
        "mutants",
        deadline=None,
        derandomize=True,
        database=None,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],  # the smallest example is of no interest
        suppress_health_check=list(hypothesis.HealthCheck),  # how quick the machine is must not decide
    )
    hypothesis.settings.load_profile("mutants")


# Parts of pytest that the tests of a pure core do not ask for: without them it starts in a third of the time.
_NOT_NEEDED = (
    "cacheprovider",
    "doctest",
    "faulthandler",
    "junitxml",
    "legacypath",
    "logging",
    "pastebin",
    "setuponly",
    "setupplan",
    "stepwise",
    "threadexception",
    "unittest",
    "unraisableexception",
)


def _pytest(core: Core, plugin: object, *options: str) -> int:
    import pytest

    folder = tempfile.mkdtemp(prefix="mutants-")
    try:
        own = ["-q", "--noconftest", "-p", "pytest_timeout", *(f"-pno:{name}" for name in _NOT_NEEDED)]
        files = [str(path) for path in core.test_paths]
        options = ("-o", "addopts=--import-mode=importlib", f"--basetemp={folder}/base", *own, *options)
        return int(pytest.main([*options, *files], plugins=[plugin]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _warm_up(name: str, modules: Iterable[str]) -> None:
    """Load what the tests will load, but not the module at fault and what imports it."""
    ours = {each for each in modules if each.partition(".")[0] == "towpath"}
    cold = dependents(name, {each: _imports(each) for each in ours})
    for each in modules:
        # Plugins want to be loaded by pytest, and tests are rewritten by it.
        if each not in cold and not each.startswith(("pytest_", "tests", "scripts", "__m")):
            try:
                importlib.import_module(each)
            except Exception:  # noqa: S112 - some are made while others run, and cannot be loaded by name
                continue
    if loaded := sorted(cold & sys.modules.keys()):
        raise TrialFailed(f"{name} would not be tried with its faults: {', '.join(loaded)} are loaded")


def dependents(name: str, imports: Mapping[str, Iterable[str]]) -> set[str]:
    """The module and all that import it, directly or not. Who imports a module imports the packages it is in."""
    found = {name}
    while more := {each for each, wanted in imports.items() if each not in found and not found.isdisjoint(wanted)}:
        found |= more
    return found


def _imports(name: str) -> set[str]:
    """What a module names in its imports, as far as they are run, and the packages that hold it."""
    home = ROOT.joinpath("src", *name.split("."))
    is_package = home.is_dir()
    path = home / "__init__.py" if is_package else home.with_suffix(".py")
    package = name if is_package else name.rpartition(".")[0]
    found = set(_parents(name))
    for node in _run_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            found.add(origin)
            found.update(f"{origin}.{alias.name}" for alias in node.names)
    return found | {parent for each in found for parent in _parents(each)}


def _run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        is_for_types = isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")
        if not is_for_types:
            yield from _run_nodes(child)


def _parents(name: str) -> Iterator[str]:
    while name := name.rpartition(".")[0]:
        yield name


def _module_of(source: Path) -> str:
    return ".".join(source.relative_to(ROOT / "src").with_suffix("").parts)
