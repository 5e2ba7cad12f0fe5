"""Which error codes a test of the codes has brought about: what it says beforehand is held against what it saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

import pytest

from towpath.flow.failures import ErrorCode

Test = TypeVar("Test", bound=Callable[..., Any])
Produced = set[ErrorCode]
_NAME = "produces"


def produces(*codes: ErrorCode) -> Callable[[Test], Test]:
    """This test brings these codes about, each by its real cause."""

    def mark(test: Test) -> Test:
        setattr(test, _NAME, frozenset(codes))
        return test

    return mark


def produced_by(module: ModuleType) -> Produced:
    """By all tests of a module together."""
    return {code for each in vars(module).values() for code in getattr(each, _NAME, ())}


@pytest.fixture
def produced(request: pytest.FixtureRequest) -> Iterator[Produced]:
    """A test adds what it sees; at its end that must be what it said."""
    seen: Produced = set()
    yield seen
    assert seen == getattr(request.function, _NAME), f"this test has brought about {seen}"
