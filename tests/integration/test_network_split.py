"""Three hosts in network namespaces of their own, with real packets and a real split between them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from towpath.testing.clock import wait_until

pytestmark = [pytest.mark.realtime, pytest.mark.timeout(300)]

HOSTS = (1, 2, 3)
UP_S, SETTLE_S, SPLIT_S = 120.0, 60.0, 12.0
SETTINGS = """
[database]
url = "sqlite:///{home}/towpath.db"

[supervision]
hosts = ["h1", "h2", "h3"]
secret_file = "{home}/secret"

[up.sleeper]
kind = "command"
command = ["sleep", "3600"]
host = "h2"

[up.desk]
kind = "desk"
host = "h3"
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)


@dataclass(frozen=True)
class Network:
    """A bridge with one end of a cable to each host."""

    id: str

    def name(self, number: int) -> str:
        return f"tp{self.id}h{number}"

    def cable(self, number: int) -> str:
        return f"tp{self.id}v{number}"

    def address(self, number: int) -> str:
        return f"10.77.{int(self.id, 16) % 250}.{number}"

    def plug(self, number: int, *, is_in: bool) -> None:
        ip("-n", self.name(0), "link", "set", self.cable(number), "up" if is_in else "down")

    def build(self, stack: ExitStack) -> None:
        self._add_space(0, stack)
        ip("-n", self.name(0), "link", "add", "bridge", "type", "bridge")
        ip("-n", self.name(0), "link", "set", "bridge", "up")
        for number in HOSTS:
            self._add_space(number, stack)
            ip("-n", self.name(number), "link", "set", "lo", "up")
            ends = ["name", "eth0", "netns", self.name(number)]
            ip("-n", self.name(0), "link", "add", self.cable(number), "type", "veth", "peer", *ends)
            ip("-n", self.name(0), "link", "set", self.cable(number), "master", "bridge", "up")
            ip("-n", self.name(number), "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            ip("-n", self.name(number), "link", "set", "eth0", "up")

    def _add_space(self, number: int, stack: ExitStack) -> None:
        ip("netns", "add", self.name(number))
        stack.callback(ip, "netns", "del", self.name(number))


@pytest.fixture
def network() -> Iterator[Network]:
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need the program ip and root: the split is not tested with real networks here")
    made = Network(uuid4().hex[:4])
    with ExitStack() as stack:
        try:
            made.build(stack)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine makes no network namespaces, so the split is not tested: {error.stderr.strip()}")
        yield made


@dataclass(frozen=True)
class Cluster:
    """`towpath up --foreground` on every host; the database is a file that all of them see."""

    home: Path
    network: Network

    def start(self, number: int) -> subprocess.Popen[bytes]:
        """The settings are the same on all hosts but for what the environment says."""
        self._config.write_text(SETTINGS.format(home=self.home))
        own = {"HOST": f"h{number}", "LISTEN": self.network.address(number), "DIRECTORY": f"{self.home}/h{number}"}
        variables = {f"TOWPATH_SUPERVISION__{name}": value for name, value in own.items()}
        space = ["ip", "netns", "exec", self.network.name(number)]
        with (self.home / f"up{number}.log").open("wb") as log:
            return subprocess.Popen(
                [*space, *self._command, "up", "--foreground"],
                env={**os.environ, **variables},
                stdout=log,
                stderr=log,
            )

    def status(self) -> dict[str, Any]:
        done = subprocess.run(
            [*self._command, "status", "--json"], capture_output=True, text=True, timeout=60, check=False
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def said(self) -> dict[str, str]:
        """What each peer says that it does."""
        items = self.status()["items"]
        return {each["name"]: each["running"]["status"] for each in items if each["kind"] == "peer" and each["running"]}

    @property
    def _config(self) -> Path:
        return self.home / "towpath.toml"

    @property
    def _command(self) -> list[str]:
        return [sys.executable, "-m", "towpath", "--config", str(self._config)]


@pytest.fixture
def cluster(network: Network, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, network)
    with ExitStack() as stack:
        for number in HOSTS:
            running = made.start(number)
            stack.callback(_end, running)
            if number == 1:
                wait_until((tmp_path / "secret").exists, timeout_s=UP_S, what="the secret that all share")
        wait_until(lambda: made.status()["is_ready"], timeout_s=UP_S, what="everything is up")
        yield made


def _end(running: subprocess.Popen[bytes]) -> None:
    running.send_signal(signal.SIGTERM)
    try:
        running.wait(60)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()


def is_one_group(cluster: Cluster) -> bool:
    """Whether one peer coordinates under the term that is held, and all others follow it."""
    term, said = cluster.status()["term"], cluster.said()
    leader = f"peer-{term['peer']}"
    follows = f"follows peer {term['peer']}"
    return bool(
        term["is_held"]
        and said.get(leader, "").startswith("coordinates")
        and all(text.startswith(follows) for name, text in said.items() if name != leader)
        and len(said) == len(HOSTS)
    )


@pytest.mark.part("kills")
@pytest.mark.parametrize("whose", ["coordinator", "member"])
def test_a_split_restarts_nobody_and_heals_to_one_group(cluster: Cluster, network: Network, whose: str) -> None:
    wait_until(lambda: is_one_group(cluster), timeout_s=SETTLE_S, what="one group at first")
    before = cluster.status()
    leader = int(before["term"]["peer"])
    cut = leader if whose == "coordinator" else leader % len(HOSTS) + 1
    network.plug(cut, is_in=False)
    wait_until(lambda: not is_one_group(cluster), timeout_s=SETTLE_S, what="somebody notices the split")
    network.plug(cut, is_in=True)
    wait_until(lambda: is_one_group(cluster), timeout_s=SETTLE_S, what="one group again")
    after = cluster.status()
    assert [(each["name"], each["launch"]) for each in after["items"]] == [
        (each["name"], each["launch"]) for each in before["items"]
    ], "somebody was started again"
    assert after["is_ready"]
