"""`towpath user`, `towpath key`, `towpath api` and `towpath notify`."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import urllib3
from tests.support.cli import CommandLine
from tests.support.commands import next_line, started
from tests.support.receivers import webhook
from tests.support.tables import rows

from towpath import settings
from towpath.notify.model import Notice, NoticeKind
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

PASSWORD = "correct horse battery"  # noqa: S105 - nobody's


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], variables: dict[str, str]) -> Runtime:
    return make_runtime()


def test_users_by_command(command: CommandLine, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    said = command.ok("user", "add", "ada", "--role", "admin", "--stdin", "--why", "the first", "--who", "root")
    assert "ada" in said.out
    assert runtime.access.log_in.by_password("ada", PASSWORD, "here").name == "ada"
    command.ok("user", "add", "bob", "--why", "new")
    command.ok("user", "role", "bob", "operator", "--why", "earned")
    command.ok("user", "disable", "bob", "--why", "left")
    listed = command.ok("user", "list").lines
    assert [line.split()[:3] for line in listed[1:]] == [["ada", "admin", "enabled"], ["bob", "operator", "disabled"]]
    assert command.ok("user", "enable", "bob", "--why", "back", "--json").json["is_enabled"]
    assert [user["name"] for user in command.ok("user", "list", "--json").json["items"]] == ["ada", "bob"]
    made = rows(runtime.database, "access_audit")
    assert [(row["what"], row["outcome"], row["known_by"]) for row in made][:1] == [("add user", "done", "terminal")]
    assert made[0]["who"] == "root"


def test_a_password_is_never_an_argument_and_never_shown(
    command: CommandLine, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("user", "add", "ada", "--password", "--why", "x").refused(2, "--stdin")
    monkeypatch.setattr("sys.stdin", io.StringIO("too short\n"))
    refused = command("user", "add", "ada", "--stdin", "--why", "x")
    refused.refused(1, "12")
    assert "too short" not in refused.err
    assert runtime.access.users() == []
    assert rows(runtime.database, "access_audit")[-1]["outcome"] == "refused"


def test_asked_for_at_a_terminal(command: CommandLine, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    typed = iter([PASSWORD, "something else", PASSWORD, PASSWORD])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    command("user", "add", "ada", "--password", "--why", "x").refused(2, "passwords")
    command.ok("user", "add", "ada", "--password", "--why", "x")
    assert runtime.access.user("ada").has_password


def test_keys_by_command(command: CommandLine, runtime: Runtime) -> None:
    command.ok("user", "add", "ada", "--role", "operator", "--why", "x")
    made = command.ok("key", "make", "ada", "--scope", "read", "--scope", "desk:write", "--age", "30d", "--why", "ci")
    assert runtime.access.log_in.by_key(made.out.strip()).name == "ada"
    [key] = command.ok("key", "list", "--json").json["items"]
    assert (key["user"], key["scopes"]) == ("ada", ["read", "desk:write"])
    assert made.out.strip() not in command.ok("key", "list").out
    endless = command.ok("key", "make", "ada", "--age", "never", "--why", "x", "--json").json
    assert (endless["expires_at"], endless["scopes"]) == (None, ["read"])
    assert key["prefix"] in command.ok("key", "revoke", key["prefix"], "--why", "lost").out
    command("key", "revoke", key["prefix"], "--why", "lost").refused(1, key["prefix"])
    command("key", "make", "ada", "--scope", "admin", "--why", "x").refused(1, "admin")
    command("key", "make", "eve", "--why", "x").refused(1, "'eve'")
    command("key", "make", "ada", "--age", "soon", "--why", "x").refused(2, "--age 'soon'")
    page = command.ok("key", "list", "--limit", "1", "--json").json
    assert command.ok("key", "list", "--before", page["next"], "--json").json["items"][0]["prefix"] == key["prefix"]


def test_the_server_answers_until_it_is_told_to_stop(runtime: Runtime) -> None:
    runtime.access.add_user("ada", "viewer", who="test", why="x")
    _, token = runtime.access.make_key("ada", ["read"], who="test", why="x")
    with started("api", "run", "--port", "0") as process:
        said = next_line(process)
        assert "http://127.0.0.1:" in said, said
        address = said.split()[-1]
        http = urllib3.PoolManager(retries=False, timeout=20)
        assert http.request("GET", f"{address}/readyz").status == 200
        answer = http.request("GET", f"{address}/api/v1/me", headers={"Authorization": f"Bearer {token.text}"})
        assert answer.json()["name"] == "ada"
        assert "server" not in answer.headers
        evil = http.request("GET", f"{address}/healthz", headers={"Host": "evil.example"})
        assert evil.status == 421
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert token.text not in err


def test_interfaces_that_others_reach_have_to_be_wanted(
    command: CommandLine, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("api", "run", "--host", "0.0.0.0").refused(3, "api.remote")  # noqa: S104
    command("api", "run", "--host", "no.such.host").refused(3, "api.remote")
    monkeypatch.setenv("TOWPATH_API__REMOTE", "true")
    command("api", "run", "--host", "203.0.113.1").refused(3, "api.host 203.0.113.1")


def test_notifications_by_command(
    command: CommandLine, runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with runtime.database.transaction() as tx:
        runtime.notify.notices.tell(tx, Notice(NoticeKind.LANE_STUCK, "shop/0", "lane 0 of shop is stuck"))
    with webhook() as taken:
        target = f'name = "ops"\nurl = "{taken.url}"\nsecret = "a secret of the test"\nkinds = ["lane_stuck"]\n'
        file = tmp_path / "notify.toml"
        file.write_text(f"[[notify.webhooks]]\n{target}")
        listed = command.ok("--config", file, "notify", "list")
        assert [listed.lines[1].split()[at] for at in (0, 1, 3)] == ["ops", "webhook", "lane_stuck"]
        assert "secret" not in listed.out
        assert "lane 0 of shop is stuck" in listed.out
        as_json: Any = command.ok("--config", file, "notify", "list", "--json").json
        assert (as_json["targets"][0]["name"], as_json["items"][0]["kind"]) == ("ops", "lane_stuck")
        said = command.ok("--config", file, "notify", "try", "ops").out
        assert taken.posts[0].headers["webhook-id"] in said
        taken.statuses = [500]
        monkeypatch.setattr("towpath.notify.courier.FIRST_PAUSE_S", 600.0)  # no second try meanwhile
        _deliver_once(file)
        listed = command.ok("--config", file, "notify", "list")
        assert "failing" in listed.out
        assert " 500" in listed.lines[1]
        delivery = command.ok("--config", file, "notify", "list", "--json").json["targets"][0]["delivery"]
        assert (delivery["waiting"], delivery["tries"], delivery["delivered_at"]) == (1, 1, None)
        command("--config", file, "notify", "try", "ops").refused(1, " 500")
        command("--config", file, "notify", "try", "nobody").refused(1, "'nobody'")


def _deliver_once(file: Path) -> None:
    """Until the first delivery has failed."""
    with Runtime(settings.load(file=file)) as runtime:
        runtime.notify.collector().hand_over()
        services = runtime.notify.services()
        for service in services:
            service.start()
        wait_until(lambda: runtime.notify.deliveries()["ops"].tries == 1)
        for service in services:
            service.stop()
