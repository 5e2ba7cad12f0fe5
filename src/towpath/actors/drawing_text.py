"""An actor drawn as lines of text, and as a chart for mermaid. From its shape, so without its code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from towpath.actors.state import Resume

RESUMES: Mapping[str, str] = {
    Resume.RETRY: "runs again if its process dies",
    Resume.RESTART: "begins the run anew if its process dies",
    Resume.FAIL: "fails if its process dies",
}


def lines(name: str, about: str, shape: Mapping[str, Any]) -> Iterator[str]:
    """Each state with the moves out of it."""
    yield f"{name}: {about}"
    yield ""
    for state in shape["states"]:
        yield _title(state, is_first=state["name"] == shape["first"])
        moves = [(target, label) for source, target, label in shape["moves"] if source == state["name"]]
        for number, (target, label) in enumerate(moves, 1):
            branch = "└─" if number == len(moves) else "├─"
            yield f"  {branch}{f' {label} ─' if label else '─'}▶ {target}"
    yield ""
    for resume in resumes_in(shape):
        yield f"({resume}) {RESUMES[resume]}"
    yield "Every state can also fail: when its code raises, and when the run is aborted."


def mermaid(shape: Mapping[str, Any], lit: str | None = None) -> str:
    """The states and moves as a chart for mermaid, the state that is `lit` marked."""
    chart = ["stateDiagram-v2", f"    [*] --> {shape['first']}"]
    for source, target, label in shape["moves"]:
        chart.append(f"    {source} --> {target}" + (f": {label}" if label else ""))
    chart += [f"    {state['name']} --> [*]" for state in shape["states"] if state["is_terminal"]]
    if lit in {state["name"] for state in shape["states"]}:
        chart += ["    classDef lit fill:#fde68a,stroke:#b45309,color:#1f2933", f"    class {lit} lit"]
    return "\n".join(chart)


def resumes_in(shape: Mapping[str, Any]) -> list[str]:
    """The policies that the states declare, each once."""
    return list(dict.fromkeys(state["resume"] for state in shape["states"] if not state["is_terminal"]))


def _title(state: Mapping[str, Any], *, is_first: bool) -> str:
    if state["is_terminal"]:
        return f"■ {state['name']}"
    about = f"  {state['about']}" if state["about"] else ""
    return f"{'▶' if is_first else '○'} {state['name']} ({state['resume']}){about}"
