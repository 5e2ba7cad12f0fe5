"""Jars and servers that were fetched: all that lies in the cache and can be fetched again."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from towpath.spark.artifacts import SETS, cache_directory
from towpath.stack.server_user import shared_directory

ROOT = 0  # whose servers run as somebody else, who may not reach its cache
_PROC = Path("/proc")
_UNPACKED = re.compile(rf"\.?({'|'.join(SETS)})-[0-9a-f]{{12}}(\.lock|-.*)?")


def fetched() -> list[Path]:
    """Directories and locks. Secrets of clusters lie in the same cache, and stay."""
    cache = cache_directory()
    homes = (cache, shared_directory()) if os.geteuid() == ROOT else (cache,)
    unpacked = [each for home in homes if home.is_dir() for each in home.iterdir() if _UNPACKED.fullmatch(each.name)]
    return [each for each in (cache / "artifacts", *unpacked) if each.exists()]


def remove_fetched() -> int:
    """Delete all of it; returns how many sets and servers that were."""
    found, artifacts = fetched(), cache_directory() / "artifacts"
    sets = artifacts.iterdir() if artifacts.is_dir() else ()
    count = len([each for each in (*found, *sets) if each != artifacts and each.is_dir()])
    for each in found:
        if each.is_dir():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
    return count


def users_of(places: Sequence[Path]) -> list[int]:
    """Processes of this machine that were started with these files, of whatever project; nobody where it is unknown."""
    names = [os.fsencode(each) for each in places]
    found = []
    for each in _PROC.glob("[0-9]*/cmdline"):
        try:
            command = each.read_bytes()
        except OSError:
            continue  # it is gone
        if any(name in command for name in names):
            found.append(int(each.parent.name))
    return sorted(found)
