"""Who does not use Spark does not wait for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HELP = """
sys.argv = ["towpath", "--help"]
from towpath.cli import main
try:
    main()
except SystemExit:
    pass
"""


@pytest.mark.parametrize(
    "program", ["import towpath.log", "import towpath.runtime", "import towpath.spark.session", HELP]
)
def test_spark_is_not_loaded_by(program: str) -> None:
    look = "print('loaded:', [name for name in ('pyspark', 'py4j', 'pyarrow', 'pandas') if name in sys.modules])"
    command = [sys.executable, "-c", f"import sys\n{program}\n{look}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.endswith("loaded: []\n")
