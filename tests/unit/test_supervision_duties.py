"""What has to run, from the settings; the chart of its states; the secret; the launch that a process is given."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from towpath.cli.context import CliContext
from towpath.cli.supervision.up import place_of
from towpath.desk.background import DeskPart
from towpath.errors import BadSettings
from towpath.settings import Settings, SupervisionSettings, UpSettings, load
from towpath.supervision.coordinator.coordinator import LATE_S, REMEMBERED_S, Strain
from towpath.supervision.duties.launch import GivenLaunch, given_launch, mark_shown
from towpath.supervision.duties.model import MOVES, RUNNING, DeathKind, DutyMove, DutySpec, DutyState, NewDuty
from towpath.supervision.duties.plan import Installation, duties_wanted
from towpath.supervision.peers.socket import peer_name, read_address, secret_file, secret_of, written_address

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "supervision-states.md"
ARROW = re.compile(r"^\s+(\S+) --> (\S+): (.+)$", re.MULTILINE)
PLACE = Installation(
    Path("/home/shop"), ("--config", "/home/shop/towpath.toml"), {"TOWPATH_DATABASE__URL": "sqlite:///x.db"}
)
TOWPATH = (sys.executable, "-m", "towpath", "--config", "/home/shop/towpath.toml")


def section() -> str:
    return PAGE.read_text(encoding="utf-8").split("## Duties")[1].split("\n## ")[0]


def test_chart_shows_exactly_the_moves() -> None:
    block = section().split("```mermaid")[1].split("```")[0]
    shown = {(source, label, target) for source, target, label in ARROW.findall(block) if source != "[*]"}
    assert shown == {(source, move.value, arrow.target) for move, arrow in MOVES.items() for source in arrow.sources}


def test_every_state_and_way_to_die_is_explained() -> None:
    assert set(re.findall(r"^\| `([^`]+)` \|", section(), re.MULTILINE)) == {*DutyState, *DeathKind}


def test_every_move_has_an_arrow_and_every_state_is_reached() -> None:
    assert set(MOVES) == set(DutyMove)
    assert {arrow.target for arrow in MOVES.values()} == set(DutyState)
    assert set(RUNNING) == {DutyState.STARTING, DutyState.READY, DutyState.STOPPING}


# From the settings


def wanted(**sections: Any) -> dict[str, NewDuty]:
    return {each.name: each for each in duties_wanted(Settings(**sections), PLACE)}


def test_three_peers_on_this_host_unless_said_otherwise() -> None:
    found = wanted(supervision={"host": "here"})
    assert list(found) == ["peer-1", "peer-2", "peer-3"]
    assert {each.host for each in found.values()} == {"here"}
    second = found["peer-2"]
    assert second.kind == "peer"
    assert second.spec.command == (*TOWPATH, "peer", "run", "--number", "2")
    assert second.spec.directory == "/home/shop"
    assert second.spec.environment == PLACE.environment


def test_peers_are_dealt_out_to_hosts_in_turn() -> None:
    found = wanted(supervision={"hosts": ["a", "b"], "peers": 5})
    assert [found[peer_name(number)].host for number in range(1, 6)] == ["a", "b", "a", "b", "a"]


@pytest.mark.parametrize(
    ("up", "command"),
    [
        ({"kind": "flow", "target": "shop:flow"}, (*TOWPATH, "run", "shop:flow")),
        ({"kind": "flow", "target": "f.py", "arguments": ["--name", "x"]}, (*TOWPATH, "run", "f.py", "--name", "x")),
        ({"kind": "actors"}, (*TOWPATH, "actor", "run")),
        ({"kind": "actors", "arguments": ["shop.actors"]}, (*TOWPATH, "actor", "run", "shop.actors")),
        ({"kind": "desk"}, (*TOWPATH, "desk", "run")),
        *(({"kind": part}, (*TOWPATH, "desk", "run", "--only", part)) for part in DeskPart),
        ({"kind": "api", "arguments": ["--port", "0"]}, (*TOWPATH, "api", "run", "--port", "0")),
        ({"kind": "gateway"}, (*TOWPATH, "gateway", "run")),
        ({"kind": "command", "command": ["sleep"], "arguments": ["9"]}, ("sleep", "9")),
        ({"kind": "desk", "launcher": "docker", "image": "shop"}, ("towpath", "desk", "run")),
    ],
)
def test_the_command_of_each_kind(up: dict[str, Any], command: tuple[str, ...]) -> None:
    duty = wanted(up={"it": up})["it"]
    assert duty.spec.command == command
    assert duty.kind == up["kind"]
    assert duty.spec.reports == (up["kind"] != "command")
    assert duty.spec.order > wanted()["peer-1"].spec.order  # peers stop last


def test_every_kind_has_a_command() -> None:
    kinds = UpSettings.model_fields["kind"].annotation.__args__  # type: ignore[union-attr]
    extra: dict[str, dict[str, Any]] = {"flow": {"target": "x:y"}, "command": {"command": ["x"]}}
    found = wanted(up={kind: {"kind": kind, **extra.get(kind, {})} for kind in kinds})
    assert all(found[kind].spec.command for kind in kinds)


def test_copies_limits_environment_and_directory() -> None:
    up = {
        "kind": "actors",
        "copies": 2,
        "environment": {"A": "1"},
        "directory": "work",
        "memory_mb": 100,
        "open_files": 50,
        "grace_s": 7,
    }
    found = wanted(up={"workers": up})
    assert {name for name in found if not name.startswith("peer")} == {"workers-1", "workers-2"}
    spec = found["workers-1"].spec
    assert spec.environment == {"TOWPATH_DATABASE__URL": "sqlite:///x.db", "A": "1"}
    assert spec.directory == "/home/shop/work"
    assert spec.limits == {"memory_mb": 100, "open_files": 50}
    assert spec.grace_s == 7
    assert DutySpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"up": {"peer-1": {"kind": "desk"}}}, "'peer-1'"),
        ({"up": {"a": {"kind": "desk", "copies": 2}, "a-1": {"kind": "api"}}}, "'a-1'"),
        ({"up": {"a": {"kind": "desk", "host": "moon"}}, "supervision": {"hosts": ["x", "y"]}}, "x, y"),
    ],
)
def test_what_cannot_run_is_refused(sections: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        wanted(**sections)


@pytest.mark.parametrize(
    ("up", "said"),
    [
        ({"kind": "flow"}, "target"),
        ({"kind": "desk", "target": "x"}, "target"),
        ({"kind": "command"}, "command"),
        ({"kind": "api", "command": ["x"]}, "command"),
        ({"kind": "flow", "target": "x", "copies": 2}, "one process"),
        ({"kind": "desk", "launcher": "docker"}, "image"),
        ({"kind": "desk", "image": "x"}, "image"),
        ({"kind": "terminal"}, "kind"),
        ({"kind": "desk", "copies": 0}, "copies"),
        ({"kind": "desk", "memory_mb": 0}, "memory_mb"),
        ({"kind": "desk", "colour": "red"}, "colour"),
    ],
)
def test_bad_up_settings(up: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        UpSettings(**up)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"silent_s": 1.0, "ping_s": 0.9}, "ping_s"),
        ({"retry_least_s": 2, "retry_most_s": 1}, "retry_most_s"),
        ({"listen": "::"}, "address"),
        ({"hosts": ["a", "a"]}, "twice"),
        ({"peers": 0}, "peers"),
        ({"host": "a b"}, "host"),
    ],
)
def test_bad_supervision_settings(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SupervisionSettings(**values)


def test_up_from_a_file_names_the_place_of_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "towpath.toml"
    file.write_text('[up.orders]\nkind = "flow"\n')
    with pytest.raises(BadSettings, match=r"towpath\.toml: up\.orders: .*target"):
        load(file=file)


# The secret


def settings_at(tmp_path: Path, **values: Any) -> Settings:
    return Settings(database={"url": f"sqlite:///{tmp_path}/t.db"}, supervision=values)


def test_a_secret_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    settings = settings_at(tmp_path)
    first = secret_of(settings)
    assert len(first) >= 32
    assert secret_of(settings) == first
    path = secret_file(settings)
    assert path == tmp_path / "t.db-secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["t.db-secret"]


def test_the_secret_of_the_settings_comes_first(tmp_path: Path) -> None:
    assert secret_of(settings_at(tmp_path, secret="a" * 16)) == "a" * 16
    assert list(tmp_path.iterdir()) == []


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("b" * 20)
    path.chmod(0o644)
    with pytest.raises(BadSettings, match=f"chmod 600 {path}"):
        secret_of(settings_at(tmp_path, secret_file=str(path)))
    path.chmod(0o600)
    assert secret_of(settings_at(tmp_path, secret_file=str(path))) == "b" * 20


@pytest.mark.parametrize("content", [b"short", b"", b"\xff" * 20])
def test_a_secret_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(BadSettings, match=re.escape(str(path))):
        secret_of(settings_at(tmp_path, secret_file=str(path)))


def test_a_secret_that_cannot_be_kept_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSettings, match="file/secret"):
        secret_of(settings_at(tmp_path, secret_file=str(tmp_path / "file" / "secret")))


# The launch that a process is given


def test_the_launch_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOWPATH_LAUNCH", raising=False)
    monkeypatch.delenv("TOWPATH_LAUNCH_SHOWN", raising=False)
    assert given_launch() is None
    monkeypatch.setenv("TOWPATH_LAUNCH", "orders:7:some-id")
    given = GivenLaunch("orders", 7, "some-id")
    assert given_launch() == given
    mark_shown(given)
    assert given_launch() is None  # a child of one that has shown it
    mark_shown(None)
    assert given_launch() == given
    load()  # no setting, and no mistake


@pytest.mark.parametrize("sign", ["orders", "orders:7", "orders:seven:id", ":7:id", "orders:7:"])
def test_a_launch_that_is_none(sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_LAUNCH", sign)
    with pytest.raises(BadSettings, match="TOWPATH_LAUNCH"):
        given_launch()


@pytest.mark.parametrize(("host", "port", "text"), [("10.0.0.1", 5, "10.0.0.1:5"), ("::1", 7, "[::1]:7")])
def test_addresses_in_process_rows(host: str, port: int, text: str) -> None:
    assert written_address(host, port) == text
    assert read_address(text) == (host, port)


# A machine that has no time


def test_strain_is_what_the_kernel_says(tmp_path: Path) -> None:
    file = tmp_path / "cpu"
    file.write_text("some avg10=39.00 avg60=90.00 avg300=9.00 total=1\nfull avg10=0.00 avg60=0 avg300=0 total=0\n")
    strain = Strain(file)
    assert not strain.is_strained(0.0)
    file.write_text("some avg10=41.00 avg60=0.00 avg300=0.00 total=1\n")
    assert not strain.is_strained(0.5)  # not read again yet
    assert strain.is_strained(1.5)


@pytest.mark.parametrize("content", ["", "some", "some avg10=x"])
def test_strain_where_the_kernel_says_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "cpu").write_text(content)
    assert not Strain(tmp_path / "cpu").is_strained(0.0)
    assert not Strain(tmp_path / "none").is_strained(0.0)


def test_late_looks_are_strain_for_a_while(tmp_path: Path) -> None:
    strain = Strain(tmp_path / "none")
    for now in (0.0, 0.25, 0.5):
        strain.note_look(now, 0.25)
    assert not strain.is_strained(0.5)
    late = 0.5 + 0.25 + LATE_S + 0.1
    strain.note_look(late, 0.25)
    assert strain.is_strained(late + REMEMBERED_S - 0.1)
    assert not strain.is_strained(late + REMEMBERED_S + 1.1)


def test_a_database_on_the_command_line_is_seen_from_where_one_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is started works elsewhere, and means the same file."""
    (tmp_path / "home").mkdir()
    config = tmp_path / "home" / "towpath.toml"
    config.touch()
    monkeypatch.chdir(tmp_path)
    place = place_of(CliContext(config=config, database="sqlite:///x.db"))
    assert (place.directory, place.environment) == (
        config.parent,
        {"TOWPATH_DATABASE__URL": f"sqlite:///{tmp_path}/x.db"},
    )
    server = "postgresql://h/d"
    assert place_of(CliContext(config=config, database=server)).environment == {"TOWPATH_DATABASE__URL": server}
