"""Is everything in its one place? Pure: what was sent and what was found in, sentences about what is wrong out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from soak.up.found import Found
from soak.up.work import BAD, LATE

SETTLED = "resolved"
OPEN = "open"
SHOWN = 5


@dataclass
class Verdict:
    """What there is, and what is wrong with it."""

    rows: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems


def judge(kinds: Mapping[int, str], runs: int, found: Found) -> Verdict:
    verdict = Verdict()
    for kind, count in sorted(Counter(kinds.values()).items()):
        verdict.rows[f"records, {kind}"] = f"{count:,}"
    cases = _by_number(found.cases)
    wrong = {n: told for n, kind in kinds.items() if (told := _wrong(kind, found.loaded[n], cases.get(n, Counter())))}
    verdict.problems += [f"record {n} ({kinds[n]}): {told}" for n, told in sorted(wrong.items())[:SHOWN]]
    if len(wrong) > SHOWN:
        verdict.problems.append(f"… and {len(wrong) - SHOWN:,} more records")
    foreign = (found.loaded.keys() | cases.keys()) - kinds.keys()
    verdict.problems += [f"record {n} was never sent" for n in sorted(foreign)[:SHOWN]]
    _runs(runs, found, verdict)
    return verdict


def _by_number(cases: Counter[tuple[int, str]]) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for (number, state), count in cases.items():
        found.setdefault(number, Counter())[state] += count
    return found


def _wrong(kind: str, loaded: int, cases: Counter[str]) -> str:
    """What a record is that it should not be; empty: all is well."""
    if kind == BAD:
        expected = loaded == 0 and cases == Counter({OPEN: 1})
    elif kind == LATE:  # it may also have been read when its time had come
        expected = loaded == 1 and cases in (Counter(), Counter({SETTLED: 1}))
    else:
        expected = loaded == 1 and not cases
    return "" if expected else f"loaded {loaded} times, cases {dict(cases) or 'none'}"


def _runs(runs: int, found: Found, verdict: Verdict) -> None:
    verdict.rows["runs of actors"] = f"{runs:,}"
    lost = sorted(set(range(runs)) - found.ended.keys())
    if lost or found.others:
        told = ", ".join(f"{count} {phase}" for phase, count in sorted(found.others.items()))
        verdict.problems.append(f"{len(lost):,} runs of actors have not ended ({told or 'nobody knows them'})")
