"""A test of one rule for many values: one case that tries all of them, and names each that fails."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest

Test = Callable[..., None]
_AXES = "axes_of_sweep"  # on a swept test: the test of one combination, and the values that are tried


def sweep(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but all in one case, whose fixtures are made once.

    Use it where nothing is left of one combination that could mean something to the next: where each changes nothing,
    or makes what it changes. Two sweeps over one test try every pair.
    """
    split = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    axis = [(split, value if len(split) > 1 else (value,)) for value in values]
    assert axis, f"nothing to try for {', '.join(split)}"

    def decorate(test: Test) -> Test:
        one, axes = getattr(test, _AXES, (test, ()))
        axes = (axis, *axes)

        @functools.wraps(one)
        def swept(**fixtures: Any) -> None:
            _try_all(one, [_combined(parts) for parts in product(*axes)], fixtures)

        swept_names = {name for each in axes for name in each[0][0]}
        signature = inspect.signature(one)
        assert swept_names <= set(signature.parameters), f"{test.__name__} takes no {swept_names}"
        kept = [each for name, each in signature.parameters.items() if name not in swept_names]
        swept.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        setattr(swept, _AXES, (one, axes))
        return swept

    return decorate


def _combined(parts: Iterable[tuple[tuple[str, ...], Any]]) -> dict[str, Any]:
    return {name: value for names, values in parts for name, value in zip(names, values, strict=True)}


def _try_all(test: Test, combinations: list[dict[str, Any]], fixtures: dict[str, Any]) -> None:
    failed: list[tuple[str, BaseException]] = []
    for combination in combinations:
        try:
            test(**combination, **fixtures)
        except (Exception, pytest.fail.Exception) as error:
            if "pytest-timeout" in str(error):
                raise  # it is rung once: without it the next one could hang for ever
            failed.append((_name(combination), error))
    if failed:
        told = "\n".join(f"- {name}: {type(error).__name__}: {error}" for name, error in failed)
        # The trace of the first one is shown with it.
        raise AssertionError(f"{len(failed)} of {len(combinations)} failed:\n{told}") from failed[0][1]


def _name(combination: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in combination.items())


def _short(value: Any) -> str:
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
