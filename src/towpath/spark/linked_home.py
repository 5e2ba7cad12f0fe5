"""The same Spark without the zip files of pyspark that it carries beside the installed one.

Spark gives each of its Python processes a path with these files first. They have no bytecode, so every such process
compiles pyspark anew: half a second of a processor for each query, each worker that died, and each start.
"""

from __future__ import annotations

import contextlib
import hashlib
import site
import tempfile
from pathlib import Path

from towpath.spark.artifacts import cache_directory
from towpath.spark.home import spark_home

PARTS = ("bin", "jars")


def linked_home() -> Path:
    """A directory with links to what Java needs; where none can be made, Spark's own does as well, only slower."""
    home = spark_home()
    if str(home.parent) not in {*site.getsitepackages(), site.getusersitepackages()}:
        return home  # on a path of this process's own, which others do not have
    linked = cache_directory() / "spark" / hashlib.sha256(str(home).encode()).hexdigest()[:12]
    if not _is_whole(linked):
        with contextlib.suppress(OSError):
            _make(linked, home)
    return linked if _is_whole(linked) else home


def _is_whole(linked: Path) -> bool:
    return all((linked / part).is_dir() for part in PARTS)


def _make(linked: Path, home: Path) -> None:
    """All at once: of two processes that make it, one finds it made."""
    linked.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=linked.parent, prefix=".linking-") as scratch:
        made = Path(scratch, "home")
        made.mkdir()
        for part in PARTS:
            (made / part).symlink_to(home / part)
        made.rename(linked)
