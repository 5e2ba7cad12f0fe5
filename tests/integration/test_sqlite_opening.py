"""Many processes that open a new file of SQLite at once, and close it as the last, do not fail each other."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from queue import Empty
from typing import Any

from towpath.db.sqlite.database import SqliteDatabase

PROCESSES = 6
FILES = 40


def _use(home: Path, together: Barrier, told: Any) -> None:
    for number in range(FILES):
        together.wait(30)
        database = SqliteDatabase(home / f"{number}.db", "normal", 20.0)
        try:
            with database.transaction():
                database.query("create table if not exists t (n)")
            database.query("select 1 from sqlite_schema")
        except Exception as error:
            told.put(f"{number}: {error}")
        finally:
            database.close()


def test_processes_that_open_and_close_a_new_file_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    together, told = context.Barrier(PROCESSES), context.Queue()
    processes = [context.Process(target=_use, args=(tmp_path, together, told)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    failed = []
    try:
        while True:
            failed.append(told.get(timeout=0.1))
    except Empty:
        pass
    assert failed == []
