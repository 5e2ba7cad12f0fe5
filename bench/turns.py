"""Everything that is compared, in turn, round after round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.findings import Samples
from bench.line import Line, Measure

Act = Callable[[], float | list[float]]


def take_turns(lines: Sequence[Line], acts: Mapping[Measure, Act], rounds: int, say: Callable[[str], None]) -> Samples:
    """Each measure once a round; who comes first alternates. What fails is said, and not tried again."""
    samples = Samples()
    measures = list(dict.fromkeys(measure for line in lines for measure in line.measures))
    for number in range(rounds):
        for measure in reversed(measures) if number % 2 else measures:
            if measure not in samples.failures:
                say(f"round {number + 1}/{rounds}: {measure}")
                _take(measure, acts[measure], samples, say)
    return samples


def _take(measure: Measure, act: Act, samples: Samples, say: Callable[[str], None]) -> None:
    try:
        values = act()
        samples.add(measure, values if isinstance(values, list) else [values])
    except Exception as error:
        samples.failures[measure] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        say(f"  failed: {samples.failures[measure]}")
