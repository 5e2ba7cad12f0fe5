"""Files for systemd and Compose: read by those who have to read them, also with hostile names."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from towpath.cli import main
from towpath.supervision.deploy import Deployment, compose_file, systemd_unit

HOSTILE = '/srv/a b%n/$HOME/it\'s "so"; rm'


def deployment(directory: str = "/srv/towpath", *options: str, cluster: str = "towpath") -> Deployment:
    return Deployment(cluster, ("/usr/bin/env", "towpath", *options), Path(directory), 30)


def unit_of(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


def test_unit_runs_up_as_its_user_and_never_gives_up() -> None:
    unit = unit_of(systemd_unit(deployment(), "towpath"))
    service = unit["Service"]
    assert service["ExecStart"] == "/usr/bin/env towpath up --foreground"
    assert (service["User"], service["WorkingDirectory"]) == ("towpath", "/srv/towpath")
    assert (service["Restart"], service["KillMode"], service["TimeoutStopSec"]) == ("always", "process", "75")
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"


def test_nothing_in_a_name_is_read_as_an_order() -> None:
    service = unit_of(systemd_unit(deployment(HOSTILE, "--config", HOSTILE), "x\nExecStart=/bin/false"))["Service"]
    assert service["User"] == "x ExecStart=/bin/false"
    assert service["ExecStart"].startswith("/usr/bin/env towpath --config ")
    assert service["ExecStart"].endswith('"/srv/a b%%n/$$HOME/it\'s \\"so\\"; rm" up --foreground')


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
@pytest.mark.parametrize("options", [(), ("--config", HOSTILE)])
def test_systemd_itself_finds_nothing_wrong(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = tmp_path / "towpath.service"
    path.write_text(systemd_unit(deployment(str(tmp_path), *options), "root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "towpath.service" not in done.stderr


def service_of(text: str) -> dict[str, Any]:
    service: dict[str, Any] = yaml.safe_load(text)["services"]["towpath"]
    return service


def test_compose_runs_up_and_asks_for_its_health() -> None:
    service = service_of(compose_file(deployment(), "towpath:1"))
    assert service["command"] == ["/usr/bin/env", "towpath", "up", "--foreground"]
    assert service["healthcheck"]["test"] == ["CMD", "/usr/bin/env", "towpath", "status", "--check"]
    assert (service["image"], service["restart"], service["init"]) == ("towpath:1", "unless-stopped", True)
    assert service["volumes"] == ["/srv/towpath:/srv/towpath"]


def test_compose_takes_no_name_for_a_variable() -> None:
    service = service_of(compose_file(deployment(HOSTILE, cluster="Über $X"), "i: {}"))
    assert service["working_dir"] == HOSTILE.replace("$", "$$")
    assert service["image"] == "i: {}"


def test_command_prints_it_or_writes_a_new_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "towpath.toml"
    config.write_text('[up.desk]\nkind = "desk"\n')
    target = tmp_path / "compose.yaml"
    assert main(["--config", str(config), "deploy", "systemd", "--user", "ann"]) == 0
    assert "User=ann\n" in capsys.readouterr().out
    assert main(["--config", str(config), "deploy", "compose", "--output", str(target)]) == 0
    service = service_of(target.read_text())
    assert service["working_dir"] == str(tmp_path)
    # What is in the image, and nothing of this machine but the directory that it sees.
    assert service["command"] == ["towpath", "--config", str(config), "up", "--foreground"]
    assert service["healthcheck"]["test"] == ["CMD", "towpath", "--config", str(config), "status", "--check"]
    assert main(["--config", str(config), "deploy", "compose", "--output", str(target)]) == 2
    assert "not overwritten" in capsys.readouterr().err


def test_an_address_of_a_database_is_not_written_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--database", "postgresql://ann:secret@host/db", "deploy", "systemd"]) == 2
    said = capsys.readouterr()
    assert "password" in said.err
    assert "secret" not in said.out + said.err
