"""What was collected of an upload, for steps that look something up in it. Needs no Spark and no database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from towpath.boundary.result_files import COLLECTED, files_in, stage_directories
from towpath.errors import BadSettings

UPLOADS = "TOWPATH_UPLOADS"  # in the environment of Spark's workers: the directory of uploads


def environment_root() -> Path:
    """The directory of uploads, as this process was told."""
    root = os.environ.get(UPLOADS)
    if not root:
        raise BadSettings(f"variable {UPLOADS} is not set: give directory=, or run the flow with towpath run")
    return Path(root)


def documents_of(root: Path, upload: str, name: str) -> Iterator[dict[str, Any]]:
    """All lines that can be seen, by stage, batch and unit."""
    for directory in stage_directories(root / upload / COLLECTED / name):
        for file in files_in(directory):
            for line in file.path.read_bytes().splitlines():
                yield orjson.loads(line)
