"""Places for states and moves in a picture: in layers, from the first state down to the last ones. Pure.

1. Moves that lead back are turned round while places are sought, so that all lead down; a state lies one layer below
   the lowest one that leads to it.
2. Between two layers of states lies one for labels. A move has a bend in each layer that it crosses.
3. Within a layer, everything stands in the order in which moves cross the least, as near to its neighbours as it can.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

GAP = 28.0
SWEEPS = 12

Key = str | tuple[int, int]  # a state's name, or the number of a move and the layer of its bend


@dataclass(frozen=True, slots=True)
class Box:
    """How much room something takes to the left and to the right of its middle."""

    left: float
    right: float


@dataclass(frozen=True, slots=True)
class GraphLink:
    """A move to be drawn between two different states, with the width of its label."""

    source: str
    target: str
    label_width: float = 0.0


@dataclass
class GraphLayout:
    """The layer of each state, counted in twos, and the place in it of everything, from left to right."""

    layer: dict[str, int]
    x: dict[Key, float]
    bends: list[list[tuple[int, float]]] = field(default_factory=list)  # of each link, from above: layer and place


def lay_out(first: str, boxes: Mapping[str, Box], links: Sequence[GraphLink], last: Iterable[str]) -> GraphLayout:
    """Places for all boxes and links; those in `last` lie lowest."""
    back = _leading_back(first, boxes, links)
    down = [
        GraphLink(link.target, link.source, link.label_width) if number in back else link
        for number, link in enumerate(links)
    ]
    layer = {name: 2 * depth for name, depth in _depths(boxes, down, set(last)).items()}
    rows, neighbours, room = _rows(layer, boxes, down)
    _order(rows, neighbours)
    x = _places(rows, neighbours, room)
    bends = [
        [(row, x[number, row]) for row in range(layer[link.source] + 1, layer[link.target])]
        for number, link in enumerate(down)
    ]
    return GraphLayout(layer, x, bends)


def _leading_back(first: str, names: Iterable[str], links: Sequence[GraphLink]) -> set[int]:
    """The numbers of the links that close a circle, walking from the first state on."""
    leaving: dict[str, list[int]] = defaultdict(list)
    for number, link in enumerate(links):
        leaving[link.source].append(number)
    found: set[int] = set()
    done: set[str] = set()
    for root in (first, *names):
        walk = [] if root in done else [(root, iter(leaving[root]))]
        path = {root}
        while walk:
            name, rest = walk[-1]
            for number in rest:
                target = links[number].target
                if target in path:
                    found.add(number)
                elif target not in done:
                    path.add(target)
                    walk.append((target, iter(leaving[target])))
                    break
            else:
                walk.pop()
                path.discard(name)
                done.add(name)
    return found


def _depths(names: Iterable[str], down: Sequence[GraphLink], last: set[str]) -> dict[str, int]:
    depth = dict.fromkeys(names, 0)
    for _ in depth:  # no way down is longer than there are states
        for link in down:
            depth[link.target] = max(depth[link.target], depth[link.source] + 1)
    lowest = max((depth[name] for name in depth if name not in last), default=-1) + 1
    return {name: max(lowest, it) if name in last else it for name, it in depth.items()}


def _rows(
    layer: Mapping[str, int], boxes: Mapping[str, Box], down: Sequence[GraphLink]
) -> tuple[list[list[Key]], dict[Key, list[Key]], dict[Key, Box]]:
    """What stands in each row, what is tied to what, and how wide it all is."""
    rows: list[list[Key]] = [[] for _ in range(max(layer.values(), default=0) + 1)]
    room: dict[Key, Box] = {name: box for name, box in boxes.items()}  # noqa: C416 - a dict of states is none of keys
    neighbours: dict[Key, list[Key]] = defaultdict(list)
    for name, row in layer.items():
        rows[row].append(name)
    for number, link in enumerate(down):
        crossed = range(layer[link.source] + 1, layer[link.target])
        chain: list[Key] = [link.source, *((number, row) for row in crossed), link.target]
        for above, below in pairwise(chain):
            neighbours[above].append(below)
            neighbours[below].append(above)
        for row in crossed:
            rows[row].append((number, row))
            half = link.label_width / 2 if row == crossed[0] else 0.0
            room[number, row] = Box(half, half)
    return rows, neighbours, room


def _order(rows: list[list[Key]], neighbours: Mapping[Key, Sequence[Key]]) -> None:
    """Sort each row by where its neighbours stand, down and up again, from several beginnings; the best one counts."""
    mirrored = [list(reversed(row)) for row in rows]
    tried = []
    for tries in (rows, [*rows[:-1], mirrored[-1]], mirrored):
        tries = [list(row) for row in tries]
        tried.append((_crossings(tries, neighbours), [list(row) for row in tries]))
        for sweep in range(SWEEPS):
            _sweep(tries, neighbours, down=sweep % 2 == 0)
            tried.append((_crossings(tries, neighbours), [list(row) for row in tries]))
    rows[:] = min(tried, key=lambda each: each[0])[1]


def _sweep(rows: list[list[Key]], neighbours: Mapping[Key, Sequence[Key]], *, down: bool) -> None:
    pairs = list(pairwise(rows)) if down else [(lower, upper) for upper, lower in pairwise(rows)][::-1]
    for settled, row in pairs:
        place = {key: number for number, key in enumerate(settled)}
        wanted = {
            key: _mean([place[each] for each in neighbours.get(key, ()) if each in place], number)
            for number, key in enumerate(row)
        }
        row.sort(key=wanted.__getitem__)


def _crossings(rows: Sequence[Sequence[Key]], neighbours: Mapping[Key, Sequence[Key]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        place = {key: i for i, key in enumerate(lower)}
        ends = [sorted(place[each] for each in neighbours.get(key, ()) if each in place) for key in upper]
        for i, mine in enumerate(ends):
            count += sum(a > b for other in ends[i + 1 :] for a in mine for b in other)
    return count


def _places(
    rows: Sequence[Sequence[Key]], neighbours: Mapping[Key, Sequence[Key]], room: Mapping[Key, Box]
) -> dict[Key, float]:
    x: dict[Key, float] = {key: 0.0 for row in rows for key in row}
    for sweep in range(2 * SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [_mean([x[each] for each in neighbours.get(key, ())], x[key]) for key in row]
            apart = [room[a].right + GAP + room[b].left for a, b in pairwise(row)]
            x.update(zip(row, _kept_apart(wanted, apart), strict=True))
    return x


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _kept_apart(wanted: Sequence[float], apart: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones that keep the order and the distances: pools of those that push."""
    offset = [0.0]
    for each in apart:
        offset.append(offset[-1] + each)
    pools: list[tuple[float, int]] = []  # sum and number
    for want, moved in zip(wanted, offset, strict=False):
        pools.append((want - moved, 1))
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1] = (pools[-1][0] + total, pools[-1][1] + count)
    flat = [total / count for total, count in pools for _ in range(count)]
    return [place + moved for place, moved in zip(flat, offset, strict=True)] if wanted else []
