"""Whether a checkpoint's state belongs to the stage as it is now. Spark itself fails then, without a useful word."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from towpath.errors import FlowHalted

if TYPE_CHECKING:
    from towpath.flow.checkpoint import Checkpoint
    from towpath.flow.graph import Stage

FILE = "state.json"


def check_state(flow: str, stage: Stage, checkpoint: Checkpoint) -> None:
    """Raise `FlowHalted` when the state was kept by another rule; note the rule where nothing is kept yet.

    How far a window reaches and what becomes of late ones may change: what is kept is the same.
    """
    path, now = checkpoint.directory / FILE, state_shape(stage)
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    if before == now:
        return
    if checkpoint.has_commits:
        raise FlowHalted(
            f"stage {stage.name!r} of flow {flow!r} keeps another state than its checkpoint has: "
            f"{'; '.join(before) or 'none'} before, {'; '.join(now) or 'none'} now. Run the flow as it was, or begin "
            f"anew, with nothing remembered: towpath flow reset {flow} {stage.name}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{FILE}.{os.getpid()}")
    aside.write_text(json.dumps(now), encoding="utf-8")
    os.replace(aside, path)


def state_shape(stage: Stage) -> list[str]:
    """What is kept and by what it is known, in the order of the operators."""
    deduped = [
        f"numbers of {'+'.join(source.topics)}: sender {rule.sender}, sequence {rule.sequence}, epoch {rule.epoch}"
        for source in stage.sources
        if (rule := source.dedupe) is not None
    ]
    deduped += [
        f"numbers of {topic}: sender {rule.sender}, sequence {rule.sequence}, epoch {rule.epoch}"
        for source in stage.sources
        for topic, rule in source.dedupes.items()
    ]
    steps = [f"{source.name}: {source.stateful.key}" for source in stage.sources if source.stateful is not None]
    joins = [f"join of {source.join.kept}" for source in stage.sources if source.join is not None]
    return [*deduped, *steps, *joins]
