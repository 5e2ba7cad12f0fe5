"""The process from which Spark forks its Python workers: loads once what each of them would load by itself.

A worker that finds everything loaded is ready half a second of CPU sooner. Spark forks new ones after each failure of
a task, after each idle minute and for each session; they then share the memory of what is loaded.

Spark's own daemon loads nothing, because libraries may start threads, and a lock that another thread holds at a fork is
held in the child for ever. Here they are told not to start any, and should one still do it, Spark's own takes over.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path

OF_STEPS = "pyspark.worker"  # Spark has a daemon for each kind of worker; those of sources need little
NEEDED = (
    "pandas",
    "pyarrow",
    "pyarrow.compute",
    "pyspark.sql.streaming.stateful_processor_util",
    "towpath.db.open",
    "towpath.flow.flow",
    "towpath.flow.sinks.files.sink",
    "towpath.flow.sinks.index.writer",
    "towpath.flow.sinks.table.writer",
    "towpath.flow.sinks.table.postgres_writer",
    "towpath.flow.sinks.topic.sink",
    "towpath.flow.stateful.operators",
    "towpath.flow.worker.segment",
    "towpath.flow.worker.loader",
    "towpath.log.open",
    "towpath.log.spark.sqlite",
)
# NumPy's algebra and Arrow's second allocator, which nobody here uses, would start one each.
WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


def load() -> None:
    for name, value in WITHOUT_THREADS.items():
        os.environ.setdefault(name, value)
    for name in NEEDED:
        importlib.import_module(name)
    _leave_out_java()
    gc.freeze()  # a worker that collects garbage after each task would look at all this and copy its pages


def _leave_out_java() -> None:
    """Spark puts a jar of its own on Python's path, and each worker reads what is in it before each of its tasks."""
    sys.path[:] = [path for path in sys.path if not is_java(path)]
    for path in filter(is_java, list(sys.path_importer_cache)):
        del sys.path_importer_cache[path]


def is_java(path: str) -> bool:
    """Whether it is Spark's own jar, in which there is no Python. Those of other people may hold some."""
    return Path(path).name.startswith("spark-core_")


def is_alone() -> bool:
    """Whether this process has one thread, as far as can be known."""
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


if __name__ == "__main__":
    if sys.argv[1:2] == [OF_STEPS]:
        load()
        if not is_alone():
            os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])  # noqa: S606 - no shell
    # Not before: where it is loaded, Spark takes the process for one of its workers.
    from pyspark import daemon

    daemon.manager()
