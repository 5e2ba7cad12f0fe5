"""Which servers the demo takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.cli.demo import DemoServers, find_servers
from towpath.errors import ServerFailed
from towpath.settings import LogSettings, Settings, StackSettings
from towpath.stack.model import ServerName, ServerState
from towpath.stack.stack import Stack, Status

OWN = LogSettings(url="kafka://broker:9092", client={"sasl.password": "secret"})
STACK = {ServerName.KAFKA: "kafka://127.0.0.1:1234", ServerName.ELASTICSEARCH: "http://127.0.0.1:1235"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(stack=StackSettings(directory=str(tmp_path)))


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stack, "status", lambda self, name: Status(name, ServerState.RUNNING, STACK[name]))


@pytest.mark.usefixtures("running")
def test_servers_of_the_stack(settings: Settings) -> None:
    log = LogSettings(url="kafka://127.0.0.1:1234")
    assert find_servers(settings, True, True, None) == DemoServers(log, True, "http://127.0.0.1:1235")
    assert find_servers(settings, True, False, None) == DemoServers(log, True)
    assert find_servers(settings, False, True, None) == DemoServers(index_url="http://127.0.0.1:1235")


def test_servers_of_ones_own_need_no_stack(settings: Settings) -> None:
    own = settings.model_copy(update={"log": OWN})
    assert find_servers(own, True, False, "http://here") == DemoServers(OWN, False, "http://here")
    assert find_servers(own, False, True, "http://here") == DemoServers(index_url="http://here")


@pytest.mark.parametrize(
    ("kafka", "elasticsearch", "names"),
    [(True, True, "kafka elasticsearch"), (True, False, "kafka"), (False, True, "elasticsearch")],
)
def test_what_does_not_run_is_named_with_the_command(
    settings: Settings, kafka: bool, elasticsearch: bool, names: str
) -> None:
    with pytest.raises(ServerFailed, match=f"towpath stack up {names}$"):
        find_servers(settings, kafka, elasticsearch, None)
