"""Is everything in its one place? Recomputed from the source, record by record; nothing of Towpath is asked.

Pure: what was found in, sentences about what is wrong out.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from soak.delivery.flow import BY_CHANCE, PARSED, ROUTES, SOURCE, Document
from soak.delivery.found import Failed, Found
from soak.delivery.records import Kind, kind_of

LAST = "+".join(ROUTES)  # the name of the last stage
BLAMED = "ends its Python worker"  # of a record during which the reaper has hit more than once
BORN = frozenset({"child", "of", "route", "draw"})

Child = tuple[str, int]  # the place of its record in the source, and which of the children


@dataclass
class Verdict:
    """What there is, and what is wrong with it."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems


def judge(found: Found) -> Verdict:
    verdict = Verdict()
    errors: dict[str, list[Failed]] = defaultdict(list)
    for each in found.errors:
        errors[each.stage].append(each)
    if strange := errors.keys() - {SOURCE, PARSED, LAST}:
        verdict.problems.append(f"errors of stages that are none: {sorted(strange)}")
    _first(found, _by((each.place, each) for each in errors[SOURCE]), verdict)
    _second(found, _by((str(_of(each)["place"]), each) for each in errors[PARSED]), verdict)
    _third(found, _by((_child(_of(each)), each) for each in errors[LAST]), verdict)
    return verdict


def _first(found: Found, errors: Mapping[str, list[Failed]], verdict: Verdict) -> None:
    """Each record of the source is parsed, or an error, or filtered."""
    parsed = _by((str(each["place"]), each) for each in found.parsed)
    for place, value in found.source.items():
        kind = kind_of(value)
        verdict.counts[f"records, {kind}"] += 1
        given, failed = parsed.get(place, []), errors.get(place, [])
        wanted = {Kind.FILTERED: (0, 0), Kind.RAISING: (0, 1), Kind.BROKEN: (0, 1)}.get(kind, (1, 0))
        if wanted == (1, 0) and _is_blamed(failed, verdict):
            wanted = (0, 1)
        _compare(verdict, f"record {place} ({kind})", {"parsed": len(given), "errors": len(failed)}, wanted)
        if any(each != {**json.loads(value), "place": place} for each in given):
            verdict.problems.append(f"record {place} was parsed to something else: {given}")
        if any(each.value != value for each in failed):
            verdict.problems.append(f"the error of record {place} has another value")
    _foreign(verdict, "parsed", parsed, found.source)
    _foreign(verdict, "errors of the first stage", errors, found.source)


def _second(found: Found, errors: Mapping[str, list[Failed]], verdict: Verdict) -> None:
    """Each parsed record has one whole family on one way, or is an error."""
    families: dict[str, list[tuple[str, Document]]] = _by(
        (str(each["place"]), (route, each)) for route in ROUTES for each in found.routes[route]
    )
    parents = {str(each["place"]): each for each in found.parsed}
    for place, parent in parents.items():
        family, failed = families.get(place, []), errors.get(place, [])
        if failed:
            _is_blamed(failed, verdict)
            verdict.counts["records that failed by chance"] += failed[0].message == BY_CHANCE
            _compare(verdict, f"record {place}", {"children": len(family), "errors": len(failed)}, (0, 1))
            if not all(each.message == BY_CHANCE or each.message.startswith(BLAMED) for each in failed):
                verdict.problems.append(f"record {place} has failed for no reason: {failed[0].message}")
        else:
            verdict.counts["families"] += 1
            _family(verdict, place, parent, family)
    _foreign(verdict, "left and right", families, parents)
    _foreign(verdict, "errors of the second stage", errors, parents)


def _family(verdict: Verdict, place: str, parent: Document, family: list[tuple[str, Document]]) -> None:
    if not family:
        verdict.problems.append(f"record {place}: its family is lost")
        return
    routes = {route for route, _ in family} | {str(child["route"]) for _, child in family}
    if len(routes) > 1:
        verdict.problems.append(f"record {place} has children on {len(routes)} ways")
    if len({(child["of"], child["draw"]) for _, child in family}) > 1:
        verdict.problems.append(f"record {place} has children of several families")
    expected = Counter(range(family[0][1]["of"]))
    there = Counter(int(child["child"]) for _, child in family)
    if lost := sorted((expected - there).elements()):
        verdict.problems.append(f"record {place}: its children {lost} are lost")
    if more := sorted((there - expected).elements()):
        verdict.problems.append(f"record {place}: its children {more} are there too often")
    if any(_without(child, BORN) != parent for _, child in family):
        verdict.problems.append(f"record {place} has children that are not its own")


def _third(found: Found, errors: Mapping[Child, list[Failed]], verdict: Verdict) -> None:
    """Each child is in the table and in the output topic, with one stamp; or, where the table refuses it, an error."""
    children = {_child(each): each for route in ROUTES for each in found.routes[route]}
    out = _by((_child(each), each) for each in found.out)
    table = _by((_child(each), each) for each in found.table)
    for id, child in children.items():
        rows, records, failed = table.get(id, []), out.get(id, []), errors.get(id, [])
        wanted = (0, 0, 1) if child["kind"] == Kind.REFUSED else (1, 1, 0)
        if wanted == (1, 1, 0) and _is_blamed(failed, verdict):
            wanted = (0, 0, 1)
        verdict.counts["children refused by the table" if child["kind"] == Kind.REFUSED else "children"] += 1
        there = {"table": len(rows), "out": len(records), "errors": len(failed)}
        _compare(verdict, f"child {id[1]} of record {id[0]} ({child['kind']})", there, wanted)
        if any(_without(each, {"stamp"}) != child for each in (*rows, *records)):
            verdict.problems.append(f"child {id[1]} of record {id[0]} was changed on its way")
        if len({str(each["stamp"]) for each in (*rows, *records)}) > 1:
            verdict.problems.append(f"child {id[1]} of record {id[0]} has one stamp in the table, another in the topic")
    for what, those in {"the table": table, "out": out, "errors of the last stage": errors}.items():
        _foreign(verdict, what, those, children)


def _compare(verdict: Verdict, what: str, there: Mapping[str, int], wanted: tuple[int, ...]) -> None:
    if tuple(there.values()) != wanted:
        places = ", ".join(
            f"{name} {found} instead of {should}"
            for (name, found), should in zip(there.items(), wanted, strict=True)
            if found != should
        )
        verdict.problems.append(f"{what}: {places}")


def _foreign(verdict: Verdict, what: str, those: Iterable[Hashable], known: Iterable[Hashable]) -> None:
    if strange := set(those) - set(known):
        verdict.problems.append(f"{what}: {len(strange)} that nobody sent, such as {next(iter(strange))}")


def _is_blamed(failed: list[Failed], verdict: Verdict) -> bool:
    """A record that a worker was at each time it was killed is set aside: nobody can know that it was not at fault."""
    is_blamed = bool(failed) and all(each.message.startswith(BLAMED) for each in failed)
    verdict.counts["set aside for a killed worker"] += is_blamed
    return is_blamed


def _by(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for name, value in pairs:
        found[name].append(value)
    return found


def _of(failed: Failed) -> Document:
    document: Document = json.loads(failed.value)
    return document


def _child(document: Document) -> Child:
    return str(document["place"]), int(document["child"])


def _without(document: Document, names: Iterable[str]) -> Document:
    left = set(names)
    return {name: value for name, value in document.items() if name not in left}
