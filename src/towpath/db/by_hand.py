"""Changes by hand: who makes one and why is asked of each, and kept with it in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db.database import Database, Transaction
from towpath.errors import BadName, BadValue

T = TypeVar("T")


def check_who(who: str) -> str:
    """The name, if it is one."""
    if not who.strip():
        raise BadName("a change by hand needs the name of the person who makes it")
    return who


def check_why(why: str) -> str:
    """The reason, if it is one."""
    if not why.strip():
        raise BadValue("a change by hand needs a reason: why")
    return why


def commit_by_hand(database: Database, act: Callable[[Transaction], T]) -> T:
    """Make the change, and write down that it was made."""
    with database.transaction() as tx:
        result = act(tx)
        if (also := _also.get()) is not None:
            also(tx)
        crash.here(CrashPoint.OPERATE_BEFORE_COMMIT)
    crash.here(CrashPoint.OPERATE_AFTER_COMMIT)
    return result


_also: ContextVar[Callable[[Transaction], None] | None] = ContextVar("also", default=None)


@contextmanager
def alongside(also: Callable[[Transaction], None]) -> Iterator[None]:
    """Whatever is changed by hand in this block, `also` is done in the same transaction; what it raises undoes both."""
    token = _also.set(also)
    try:
        yield
    finally:
        _also.reset(token)
