"""Where the Spark that pyspark carries is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from towpath.errors import NotInstalled


def spark_home() -> Path:
    """The directory with Spark's programs and jars; looked for and not imported, which would take a second."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise NotInstalled("pyspark", "pip install towpath")
    return Path(spec.origin).parent
