"""The daemon of Spark's workers may fork only while it is alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

LOADED = """
from towpath.flow.worker.daemon import is_alone, load
load()
print(is_alone())
"""
WITHOUT_JAVA = """
import gc, sys
from pathlib import Path
from towpath.flow.worker.daemon import load
load()
print(*{Path(each).name for each in [*sys.path, *sys.path_importer_cache]} & {"spark-core_2.13-4.2.0.jar", "mine.jar"})
print(gc.get_freeze_count() > 100_000)
"""
NOT_ALONE = """
import threading
from towpath.flow.worker.daemon import is_alone
print(is_alone())
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(is_alone())
"""


def said_by(program: str, **variables: str) -> list[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True, timeout=120
    ).stdout.split()


def test_loading_starts_no_thread() -> None:
    assert said_by(LOADED) == ["True"]


def test_a_thread_is_noticed() -> None:
    assert said_by(NOT_ALONE) == ["True", "False"]


def test_a_worker_has_little_to_look_at_between_its_tasks(tmp_path: Path) -> None:
    """Not at Spark's jar, in which no Python is, and not at all objects that were there before it."""
    paths = [tmp_path / name for name in ("spark-core_2.13-4.2.0.jar", "mine.jar")]
    for path in paths:
        with ZipFile(path, "w") as archive:
            archive.writestr("nothing", b"")
    assert said_by(WITHOUT_JAVA, PYTHONPATH=os.pathsep.join(map(str, paths))) == ["mine.jar", "True"]
