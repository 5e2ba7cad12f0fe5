"""What the last segment of a plan has to know about each output: by which ways rows come to it, and what they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from towpath.errors import BadFlow
from towpath.flow.endings import Way, template_fields
from towpath.flow.nodes import Each, Node, Output, Source
from towpath.flow.rows import Rows
from towpath.flow.taking import check_types
from towpath.flow.worker import ways as worker
from towpath.flow.worker.calling import Call
from towpath.flow.worker.loading import Load
from towpath.flow.worker.preparing import Columns

Ways = Sequence[Sequence[Way]]  # of each output


def loads_of(
    outputs: Sequence[Output],
    ways: Ways,
    shared: int,
    roots: Sequence[Node],
    rows: Sequence[Rows],
    call: Callable[[Each], Call],
) -> tuple[Load, ...]:
    """The loads; the first `shared` calls are made for all of them together."""
    places = {id(root): at for at, root in enumerate(roots)}
    is_one = len(roots) == 1

    def made(way: Way) -> worker.Way:
        at = places[id(way.root)]
        hops = tuple(hop if isinstance(hop, str) else call(hop) for hop in way.hops[shared:])
        return worker.Way(None if is_one else at, hops, _edits(way.root, rows[at], is_one))

    def load(output: Output, own: Sequence[Way]) -> Load:
        found = tuple(map(made, own))
        if is_one and len(own) == 1 and all(isinstance(hop, Each) for hop in own[0].hops):
            return Load(output.name, output.sink, tuple(map(call, own[0].calls[shared:])), found[0].columns)
        return Load(output.name, output.sink, (), found[0].columns, found)

    return tuple(load(output, own) for output, own in zip(outputs, ways, strict=True))


def _edits(root: Node, rows: Rows, is_one: bool) -> Columns:
    # As one of several branches, the documents of a source are those of the records, whatever columns it has.
    return rows.edits() if is_one or not isinstance(root, Source) else Columns(only=rows.only)


def needed(root: Node, rows: Rows, outputs: Sequence[Output], ways: Ways) -> tuple[str, ...]:
    """The columns that are needed as Python values: all for functions, else what was changed or makes names."""
    names = rows.columns
    own = [(output, way) for output, each in zip(outputs, ways, strict=True) for way in each if way.root is root]
    for first in (way.calls[0] for _, way in own if way.calls):
        check_types(rows.frame, first)
    if any(way.calls for _, way in own):
        return names
    asked = {field for output, _ in own for field in template_fields(output)}
    if missing := sorted(asked - set(names)):
        raise BadFlow(
            f"an output names field {missing[0]!r}, which is no column of what it loads; it has {', '.join(names)}"
        )
    changed = rows.edits().changed
    return tuple(name for name in names if name in changed or name in asked)
