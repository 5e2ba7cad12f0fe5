"""The secret with which all that peers and processes say to each other is signed."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from towpath.errors import BadSettings
from towpath.settings import Settings
from towpath.supervision.packet import SHORTEST_SECRET

SQLITE_PREFIX = "sqlite:///"
DEFAULT_FILE = Path(".towpath/secret")
BYTES = 32


def secret_of(settings: Settings) -> str:
    """The one in the settings, or that in the file; the file is made when it is missing."""
    if settings.supervision.secret:
        return _checked(settings.supervision.secret, "supervision.secret")
    path = secret_file(settings)
    try:
        return _read(path)
    except FileNotFoundError:
        _make(path)
        return _read(path)


def secret_file(settings: Settings) -> Path:
    """Where the secret is when it is not in the settings."""
    if settings.supervision.secret_file:
        return Path(settings.supervision.secret_file).expanduser()
    url = settings.database.url
    if not url.startswith(SQLITE_PREFIX):
        return DEFAULT_FILE
    database = Path(url.removeprefix(SQLITE_PREFIX)).expanduser()
    return database.with_name(database.name + "-secret")


def _read(path: Path) -> str:
    try:
        if path.stat().st_mode & 0o077:
            raise BadSettings(f"{path} holds a secret and can be read by others; type: chmod 600 {path}")
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"the secret in {path} cannot be read: {error}") from error
    return _checked(text, str(path))


def _checked(text: str, place: str) -> str:
    if len(text) < SHORTEST_SECRET:
        raise BadSettings(f"{place} has {len(text)} characters; a secret needs at least {SHORTEST_SECRET}")
    return text


def _make(path: Path) -> None:
    """Under its name only when it is whole; of several that make it at once one wins, and all read that one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(secrets.token_urlsafe(BYTES) + "\n")
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    except OSError as error:
        raise BadSettings(
            f"the secret cannot be written to {path}: {error.strerror}; set supervision.secret"
        ) from error
