"""DBOS: a workflow of five steps that do nothing, called by as many threads as there are runs at once.

Its quickest way: `start_workflow` and its queues are slower, and are not measured.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa  # type: ignore[import-not-found]  # of the peers' environment
from dbos import DBOS, DBOSConfig

from bench.actors.contenders.contract import STATES, Order, Shape, order, tell, wait_for_start

WARM_UPS = 2
SYNCHRONOUS = {"normal": "1", "full": "2"}


@DBOS.step()
def step(number: int) -> int:
    return number


@DBOS.workflow()
def five_steps(number: int) -> int:
    for _ in range(STATES):
        number = step(number)
    return number


def launch(given: Order) -> sa.Engine:
    if given.journal:
        sa.event.listen(sa.Engine, "connect", lambda connection, _: _set(connection, given))
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": given.url,
        "application_version": "bench",
        "log_level": "ERROR",
        "run_admin_server": False,
    }
    made = DBOS(config=config)
    DBOS.launch()
    return made._sys_db.engine


def _set(connection, given: Order) -> None:
    connection.execute(f"PRAGMA journal_mode={given.journal}")
    connection.execute(f"PRAGMA synchronous={given.synchronous}")


def check(engine: sa.Engine, given: Order) -> None:
    """That everything is written down, with the durability that was asked for."""
    is_sqlite = engine.dialect.name == "sqlite"
    with engine.connect() as connection:
        table = "operation_outputs" if is_sqlite else "dbos.operation_outputs"
        written = connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar()
        assert written == STATES * (given.runs + WARM_UPS), f"{written} steps are written down"
        if is_sqlite:
            synchronous = str(connection.exec_driver_sql("PRAGMA synchronous").scalar())
            journal = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
            assert (synchronous, journal) == (SYNCHRONOUS[given.synchronous], given.journal or "delete")
        else:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


def run_all(given: Order) -> None:
    if given.shape is Shape.ONE_BY_ONE:
        for number in range(given.runs):
            assert five_steps(number) == number
        return
    with ThreadPoolExecutor(given.at_once) as callers:
        assert list(callers.map(five_steps, range(given.runs))) == list(range(given.runs))


def main() -> None:
    given = order()
    engine = launch(given)
    for number in range(WARM_UPS):
        five_steps(number)
    wait_for_start()
    began = time.perf_counter()
    run_all(given)
    took_s = time.perf_counter() - began
    check(engine, given)
    tell(STATES * given.runs / took_s)
    DBOS.destroy()


if __name__ == "__main__":
    main()
