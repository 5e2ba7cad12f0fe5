"""The simple ways to compare with: the most frequent value, of all records or of those with the same deciding value.

Both are told which fields are wrong, which corrections are not: they have to find that out.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from bench.corrections.data_set import DataSet
from bench.corrections.scoring import Change


def of_all(data: DataSet) -> list[Change]:
    """The most frequent value of the field."""
    counts: dict[str, Counter[object]] = defaultdict(Counter)
    for record in data.taken:
        for field, value in record.items():
            counts[field][value] += 1
    changes = []
    for at, each in enumerate(data.failing):
        for field in sorted(each.wrong):
            value, count = counts[field].most_common(1)[0]
            changes.append(Change(at, field, value == each.truth[field], count / counts[field].total()))
    return changes


def of_decided(data: DataSet) -> list[Change]:
    """The most frequent value among records with the same deciding value: the model says which field decides."""
    counts: dict[tuple[str, object], Counter[object]] = defaultdict(Counter)
    for record in data.taken:
        for field, decider in data.decided.items():
            counts[field, record.get(decider)][record.get(field)] += 1
    changes = []
    for at, each in enumerate(data.failing):
        for field in sorted(each.wrong & data.decided.keys()):
            found = counts.get((field, each.body.get(data.decided[field])))
            if found:
                value, count = found.most_common(1)[0]
                changes.append(Change(at, field, value == each.truth[field], count / found.total()))
    return changes
