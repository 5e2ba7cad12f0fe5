"""File, then variables, then flags; what cannot be used is refused with its place and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from towpath.actors.spawner.launch import variables
from towpath.errors import BadSettings
from towpath.settings import DatabaseSettings, ProcessSettings, Settings, all_keys, load


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(directory: Path, text: str, name: str = "towpath.toml") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_need_no_file() -> None:
    settings = load()
    assert settings == Settings()
    assert settings.database.url == "sqlite:///towpath.db"
    assert settings.queue.max_payload_bytes == 1 << 20
    assert settings.queue.retention.err_s is None


def test_flags_overrule_variables_overrule_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, '[database]\nurl = "sqlite:///file.db"\nschema = "of_file"\n[queue]\npoll_s = 3\njanitor_s = 9\n')
    monkeypatch.setenv("TOWPATH_DATABASE__URL", "sqlite:///variable.db")
    monkeypatch.setenv("TOWPATH_QUEUE__POLL_S", "4")
    monkeypatch.setenv("TOWPATH_QUEUE__RETENTION__OK_S", "77")
    settings = load({"database": {"url": "sqlite:///flag.db"}})
    assert settings.database.url == "sqlite:///flag.db"
    assert settings.queue.poll_s == 4
    assert settings.queue.janitor_s == 9
    assert settings.queue.retention.ok_s == 77
    assert settings.database.db_schema == "of_file"


def test_a_file_can_be_named_by_variable_or_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_variable = write(tmp_path, '[process]\nname = "variable"\n', "a.toml")
    by_argument = write(tmp_path, '[process]\nname = "argument"\n', "b.toml")
    monkeypatch.setenv("TOWPATH_CONFIG", str(by_variable))
    assert load().process.name == "variable"
    assert load(file=by_argument).process.name == "argument"


def test_a_named_file_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadSettings, match=r"nowhere\.toml"):
        load(file=tmp_path / "nowhere.toml")
    monkeypatch.setenv("TOWPATH_CONFIG", str(tmp_path / "gone.toml"))
    with pytest.raises(BadSettings, match=r"gone\.toml"):
        load()


@pytest.mark.parametrize("text", ["[database", "a = \n", 'x = "\\ud800"'])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(BadSettings, match="TOML") as caught:
        load(file=path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "towpath.toml"
    path.write_bytes(b'[process]\nname = "\xff"\n')
    with pytest.raises(BadSettings, match=r"towpath\.toml .*TOML"):
        load(file=path)


def test_bad_value_in_file_names_file_and_key(tmp_path: Path) -> None:
    path = write(tmp_path, "[queue]\npoll_s = -1\n")
    with pytest.raises(BadSettings, match=r"queue\.poll_s") as caught:
        load(file=path)
    assert str(caught.value).startswith(f"{path}: ")


def test_bad_value_in_variable_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_QUEUE__POLL_S", "soon")
    with pytest.raises(BadSettings, match=r"TOWPATH_QUEUE__POLL_S.*queue\.poll_s"):
        load()


def test_bad_value_in_flag_says_so(tmp_path: Path) -> None:
    write(tmp_path, "[queue]\npoll_s = 1\n")
    with pytest.raises(BadSettings, match=r"command line: queue\.poll_s"):
        load({"queue": {"poll_s": 0}})


def test_bad_value_in_the_aliased_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_DATABASE__SCHEMA", "No Good")
    with pytest.raises(BadSettings, match=r"TOWPATH_DATABASE__SCHEMA.*database\.schema"):
        load()


@pytest.mark.parametrize("text", ["[queue]\npol_s = 1\n", "[qeue]\npoll_s = 1\n", "[queue.retention]\nok = 1\n"])
def test_unknown_key_in_file(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(BadSettings, match=r"pol_s|qeue|retention") as caught:
        load(file=path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["TOWPATH_QUEUE__POL_S", "TOWPATH_POLL_S", "TOWPATH_DATABASE_URL", "towpath_nonsense"])
def test_unknown_variable(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(BadSettings, match=f"{name} .*TOWPATH_DATABASE__URL"):
        load()


@pytest.mark.parametrize("name", ["towpath_queue__poll_s", "Towpath_Queue__Poll_S"])
def test_variables_in_any_case_overrule_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    write(tmp_path, "[queue]\npoll_s = 3\n")
    monkeypatch.setenv(name, "4")
    assert load().queue.poll_s == 4


def test_a_section_that_is_not_one_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "queue = 3\n")
    with pytest.raises(BadSettings, match="queue"):
        load()


@pytest.mark.parametrize(
    ("heartbeat_s", "lease_s", "fits"), [(2.0, 6.0, True), (2.0, 5.9, False), (1.0, 0.5, False), (0.1, 10.0, True)]
)
def test_a_lease_holds_three_beats(heartbeat_s: float, lease_s: float, fits: bool) -> None:
    values: dict[str, Any] = {"process": {"heartbeat_s": heartbeat_s, "lease_s": lease_s}}
    if fits:
        assert load(values).process == ProcessSettings(heartbeat_s=heartbeat_s, lease_s=lease_s)
    else:
        with pytest.raises(BadSettings, match="heartbeat_s"):
            load(values)


@pytest.mark.parametrize("url", ["", "mysql://x", "sqlite://", "sqlite:///", "towpath.db", "postgresql://"])
def test_unusable_urls(url: str) -> None:
    with pytest.raises(BadSettings, match=r"database\.url"):
        load({"database": {"url": url}})


@pytest.mark.parametrize("url", ["sqlite:///x.db", "sqlite:////abs/x.db", "postgres://h/d", "postgresql://u:p@h:1/d"])
def test_usable_urls(url: str) -> None:
    assert load({"database": {"url": url}}).database.url == url


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        DatabaseSettings().url = "sqlite:///other.db"  # type: ignore[misc]


def test_every_key_has_a_description_and_is_a_variable() -> None:
    keys = all_keys()
    assert ("database", "schema") in keys
    assert ("queue", "retention", "ok_s") in keys
    assert len(keys) == len(set(keys))


def test_paths_count_from_the_directory_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a command from elsewhere, and what is started, mean the same; a flag is seen from where one types."""
    home = tmp_path / "home"
    home.mkdir()
    file = write(home, '[log]\nurl = "sqlite:///topics.db"\n[desk]\ndirectory = "/srv/desk"\n')
    monkeypatch.setenv("TOWPATH_GATEWAY__DIRECTORY", "uploads")
    found = load(file=Path("home") / file.name)
    assert (found.database.url, found.log.url) == (f"sqlite:///{home}/towpath.db", f"sqlite:///{home}/topics.db")
    assert (found.desk.directory, found.gateway.directory) == ("/srv/desk", f"{home}/uploads")
    assert (found.flow.directory, found.notify.ca_file) == (f"{home}/.towpath/flows", "")
    assert load({"database": {"url": "sqlite:///flag.db"}}, file).database.url == "sqlite:///flag.db"

    monkeypatch.chdir(home)
    assert load().database.url == "sqlite:///towpath.db"


def test_what_is_not_a_path_stays(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    file = write(home, '[database]\nurl = "postgresql://h/d"\n[log]\nurl = "kafka://h:1"\n')
    found = load(file=file)
    assert (found.database.url, found.log.url) == ("postgresql://h/d", "kafka://h:1")
    # Where the settings are there is one secret, wherever what is started works.
    assert found.supervision.secret_file == f"{home}/.towpath/secret"


def test_settings_survive_the_way_through_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is how spawned processes get them, also those that say: no limit."""
    before = load()
    for name, value in variables(before).items():
        monkeypatch.setenv(name, value)
    assert load() == before
