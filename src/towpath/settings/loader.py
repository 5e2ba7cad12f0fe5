"""All settings of one process, read from the file, the variables and the flags.

An error names the place (file, variable or flag) and the key that cannot be used.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from towpath.errors import BadSettings
from towpath.settings.base import DatabaseSettings, LoggingSettings, ProcessSettings, SettingsSection
from towpath.settings.control import (
    AccessSettings,
    ActorSettings,
    ApiSettings,
    CatalogSettings,
    ComplaintSettings,
    NotifySettings,
    QueueSettings,
)
from towpath.settings.data import DeskSettings, FlowSettings, LogSettings, SparkSettings, StackSettings
from towpath.settings.gateway import GatewaySettings
from towpath.settings.supervision import SupervisionSettings, UpName, UpSettings

PREFIX = "TOWPATH_"
NESTED = "__"
FILE_NAME = "towpath.toml"
SQLITE_PREFIX = "sqlite:///"

# Paths that belong to an installation, by section.
_PATHS = {
    "actors": ("directory",),
    "flow": ("directory",),
    "desk": ("directory",),
    "stack": ("directory",),
    "notify": ("ca_file",),
    "supervision": ("directory", "secret_file"),
    "gateway": ("directory",),
}
_SECRET_FILE = ".towpath/secret"  # noqa: S105 - where it is, not what it is
# Read elsewhere, or before the settings.
NOT_SETTINGS = frozenset(
    {
        "TOWPATH_CONFIG",
        "TOWPATH_CRASH",
        "TOWPATH_KEY",
        "TOWPATH_LAUNCH",
        "TOWPATH_LAUNCH_SHOWN",
        "TOWPATH_REMOTE",
        "TOWPATH_SERVER",
    }
)


class Settings(BaseSettings):
    """All settings of one process."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=NESTED, frozen=True, extra="forbid", case_sensitive=False
    )

    database: DatabaseSettings = DatabaseSettings()
    process: ProcessSettings = ProcessSettings()
    queue: QueueSettings = QueueSettings()
    actors: ActorSettings = ActorSettings()
    catalog: CatalogSettings = CatalogSettings()
    log: LogSettings = LogSettings()
    spark: SparkSettings = SparkSettings()
    flow: FlowSettings = FlowSettings()
    desk: DeskSettings = DeskSettings()
    stack: StackSettings = StackSettings()
    access: AccessSettings = AccessSettings()
    api: ApiSettings = ApiSettings()
    notify: NotifySettings = NotifySettings()
    supervision: SupervisionSettings = SupervisionSettings()
    up: dict[UpName, UpSettings] = {}
    gateway: GatewaySettings = GatewaySettings()
    complaints: ComplaintSettings = ComplaintSettings()
    logging: LoggingSettings = LoggingSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # Flags and file both come through the constructor, merged by `load`; the environment stands between them.
        return (init_settings, env_settings)


def load(flags: dict[str, Any] | None = None, file: Path | None = None) -> Settings:
    """Read the settings of this process.

    `flags` holds nested values (`{"database": {"url": …}}`) and overrules the rest. `file` must exist when given;
    otherwise `TOWPATH_CONFIG` or a `towpath.toml` in the working directory is read if there is one.
    """
    path = _find(file)
    from_file = _read(path) if path else {}
    _check_variables()
    overruled = _merge(_without_variables(from_file), flags or {})
    try:
        return _anchored(Settings(**overruled), directory_of(file), flags or {})
    except ValidationError as error:
        raise BadSettings(_explain(error, path, flags or {})) from error
    except SettingsError as error:
        raise BadSettings(f"a {PREFIX}* variable cannot be read: {error}") from error


def file_of(file: Path | None = None) -> Path | None:
    """The settings file that `load` reads, if there is one."""
    path = _find(file)
    return None if path is None else path.resolve()


def directory_of(file: Path | None = None) -> Path:
    """The directory of the settings file that `load` reads; without one, the working directory."""
    path = _find(file)
    return Path.cwd() if path is None else path.resolve().parent


def sqlite_from(url: str, directory: Path) -> str:
    """The URL with its path made absolute from a directory; the URL of a server stays as it is."""
    if not url.startswith(SQLITE_PREFIX) or url == SQLITE_PREFIX:
        return url
    return SQLITE_PREFIX + str(directory / Path(url.removeprefix(SQLITE_PREFIX)).expanduser())


def all_keys(model: type[BaseModel] = Settings, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every setting as its path of keys, such as `("database", "url")`."""
    found: list[tuple[str, ...]] = []
    for name, field in model.model_fields.items():
        keys = (*above, field.alias or name)
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found += all_keys(inner, keys)
        else:
            found.append(keys)
    return found


def _anchored(settings: Settings, directory: Path, flags: dict[str, Any]) -> Settings:
    """Make paths count from the settings file, so that they mean the same from everywhere; not those of flags."""
    if directory == Path.cwd():
        return settings
    found = {section: _paths_from(directory, getattr(settings, section), keys) for section, keys in _PATHS.items()}
    found["database"] = {"url": sqlite_from(settings.database.url, directory)}
    found["log"] = {"url": sqlite_from(settings.log.url, directory)}
    if not settings.database.url.startswith(SQLITE_PREFIX):  # otherwise it lies beside the database
        found["supervision"].setdefault("secret_file", str(directory / _SECRET_FILE))
    parts = {}
    for section, values in found.items():
        given = flags.get(section, {})
        parts[section] = getattr(settings, section).model_copy(
            update={key: value for key, value in values.items() if key not in given}
        )
    return settings.model_copy(update=parts)


def _paths_from(directory: Path, part: SettingsSection, keys: tuple[str, ...]) -> dict[str, str]:
    return {key: str(directory / Path(value).expanduser()) for key in keys if (value := getattr(part, key))}


def _find(file: Path | None) -> Path | None:
    named = file or (Path(os.environ["TOWPATH_CONFIG"]) if os.environ.get("TOWPATH_CONFIG") else None)
    if named is not None:
        if not named.is_file():
            raise BadSettings(f"settings file {named} does not exist; make it, or leave --config away")
        return named
    default = Path(FILE_NAME)
    return default if default.is_file() else None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSettings(f"settings file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path} is not valid TOML: {error}") from error


def _variable(keys: tuple[str, ...]) -> str:
    return PREFIX + NESTED.join(keys).upper()


def _is_set(keys: tuple[str, ...]) -> bool:
    return _variable(keys) in {name.upper() for name in os.environ}


def _without_variables(values: dict[str, Any], above: tuple[str, ...] = ()) -> dict[str, Any]:
    """The file's values less those that a variable overrules."""
    kept = {}
    for key, value in values.items():
        keys = (*above, key)
        if not _is_set(keys):
            kept[key] = _without_variables(value, keys) if isinstance(value, dict) else value
    return kept


def _merge(low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def _check_variables() -> None:
    known = {_variable(keys) for keys in all_keys()} | NOT_SETTINGS
    unknown = sorted(v for v in os.environ if v.upper().startswith(PREFIX) and v.upper() not in known)
    if unknown:
        raise BadSettings(f"{unknown[0]} is not a setting; known variables: {', '.join(sorted(known))}")


def _explain(error: ValidationError, path: Path | None, flags: dict[str, Any]) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        keys = tuple(str(part) for part in problem["loc"])
        text = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            text = "there is no such setting"
        lines.append(f"{_origin(keys, path, flags)}: {'.'.join(keys)}: {text}")
    return "; ".join(lines)


def _origin(keys: tuple[str, ...], path: Path | None, flags: dict[str, Any]) -> str:
    inside: Any = flags
    for key in keys:
        inside = inside.get(key) if isinstance(inside, dict) else None
    if inside is not None:
        return "command line"
    if _is_set(keys):
        return f"variable {_variable(keys)}"
    return str(path) if path else "settings"
