"""The pages about actors, as a reader would follow them: what is typed works, and says what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.cli import CommandLine
from tests.unit.test_docs import DOCS, examples

from towpath.actors.engine.host import Host
from towpath.actors.instance import Instance, Phase
from towpath.actors.registry import discover
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

BLOCK = re.compile(r"^```(console|toml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TIMEOUT_S = 240
# What is another one each time.
CHANGING = [
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b", "ID"),
    (r"\btowpath-[0-9a-f]{12}\b", "PROCESS"),
]


def blocks(page: Path, kind: str) -> list[str]:
    return [text for found, text in BLOCK.findall(page.read_text(encoding="utf-8")) if found == kind]


def commands(page: Path) -> list[str]:
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def answers(page: Path) -> list[str]:
    """What the page shows below its commands."""
    text = "".join(blocks(page, "console"))
    return re.findall(r"^\$ [^\n]*\n((?:(?!\$ )[^\n]*\n)+)", text, re.MULTILINE)


def steady(text: str) -> str:
    for pattern, name in CHANGING:
        text = re.sub(pattern, name, text)
    return text


def paste(script: list[str], directory: Path) -> str:
    """What a shell says that stops at the first failure."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    # A process that a page leaves behind, since something failed before, ends with the shell.
    whole = ["set -euo pipefail", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT", *script]
    done = subprocess.run(
        ["bash", "-c", "\n".join(whole)],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.part("guides")
def test_the_how_to_of_waiting_and_calling(tmp_path: Path) -> None:
    page = DOCS / "how-to" / "wait-and-call.md"
    program = "".join(
        f"exec(compile({chr(10) * line + block!r}, {page.name!r}, 'exec'))\n" for line, block in examples(page)
    )
    paste([f"cat > program.py <<'END'\n{program}END", "python program.py", *commands(page)], tmp_path)


CRAWLER = """
from pathlib import Path
from towpath.actors import Actor, End, Failed, Resume, Sleep, Turn, state

@state(resume=Resume.RETRY)
class Begin:
    pass

@state
class Fetch:
    page: int = 1

class Crawler(Actor):
    '''Crawls a site.'''

    def transition(self, state: Begin | Fetch | End | Failed, turn: Turn):
        match state:
            case Begin():
                return Sleep(Fetch(), seconds=0.1 if turn.instance == "north" else 3600)
            case Fetch(page):
                if page == 1 and not Path("up").exists():
                    raise OSError("the site is down")
                return End(page)
"""


@pytest.fixture
def crawler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], make_runtime: Callable[..., Runtime]
) -> Iterator[Host]:
    """A host of the actor that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crawler_of_page.py").write_text(CRAWLER)
    (tmp_path / "towpath.toml").write_text('[actors]\nmodules = ["crawler_of_page"]\n')
    actors = make_runtime().actors
    path = list(sys.path)
    actors.register(discover(["crawler_of_page"], tmp_path)["crawler"].cls)
    host = actors.host()
    host.start()
    yield host
    host.stop()
    sys.path[:] = path
    del sys.modules["crawler_of_page"]


def test_the_how_to_of_operators(
    command: CommandLine, crawler: Host, tmp_path: Path, make_runtime: Callable[..., Runtime]
) -> None:
    """Every command of the page, in its order, on actors that are as the page says."""
    actors = make_runtime().actors

    def wait_for(instance: str, phase: Phase) -> Instance:
        wait_until(lambda: actors.instance("crawler", instance).phase is phase, timeout_s=60)
        return actors.instance("crawler", instance)

    for name in ("north", "south", "west", "far", "island"):
        command.ok("actor", "start", f"crawler:{name}", "--why", "as the page says")
    wait_for("north", Phase.FAILED)
    heads = {name: wait_for(name, Phase.SLEEPING).head for name in ("south", "west", "far", "island")}
    (tmp_path / "up").touch()
    said = ""
    for line in commands(DOCS / "how-to" / "operate-actors.md"):
        line = line.replace("MESSAGE", heads["west" if "queue edit" in line else "far"])
        program, *words = shlex.split(line, comments=True)
        assert program == "towpath"
        said += command.ok(*words).out
        if "--again" in words:
            wait_for("north", Phase.ENDED)
    assert "OSError: the site is down" in said
    assert "crawler:north " in said
    wait_for("island", Phase.ENDED)
    assert "the wrong site" in (wait_for("south", Phase.FAILED).reason or "")
    # What the page says of the two messages: one run fails, the other one goes on at once, with other fields.
    crawler._strays_at = float("inf")  # it does not look for them between these two
    for state in ("DEAD", "NEW"):
        command.ok("queue", "set-state", heads["west"], state, "--why", "to wake it")
    crawler._strays_at = float("-inf")
    assert "not wanted any more" in (wait_for("far", Phase.FAILED).reason or "")
    wait_for("west", Phase.ENDED)
    assert actors.history("crawler", "west")[0].payload == {"result": 7}


@pytest.mark.part("guides")
def test_the_tutorial(tmp_path: Path) -> None:
    page = DOCS / "tutorial" / "first-actor.md"
    home = tmp_path / "first-actor"
    home.mkdir()
    (home / "backup.py").write_text("\n\n".join(block for _, block in examples(page)))
    (home / "towpath.toml").write_text("".join(blocks(page, "toml")))
    made, *script = commands(page)
    assert made == "mkdir first-actor && cd first-actor"
    out = paste(script, home)
    for answer in answers(page):
        assert _without_repeats(steady(answer)) in _without_repeats(steady(out))
    assert out.count("page-6.txt") == 1
    assert "Look: FileNotFoundError: [Errno 2] No such file or directory: 'letters'" in out
    copied = [path.read_text() for path in sorted((home / "copies").glob("page-*.txt"))]
    assert copied == [f"page {n}\n" for n in range(1, 7)]
    assert (home / "copies" / "ann.txt").read_text() == "Dear Ann\n"
    assert (home / "backup.svg").read_text().startswith("<svg ")


def _without_repeats(text: str) -> str:
    """How many files are left after a kill is not said on any page."""
    return re.sub(r"(?m)^(TIME  backup:main  Copy → Copy\n)+", r"\1", text)
