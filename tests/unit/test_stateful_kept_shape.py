"""A checkpoint with state goes on with the rule that it was begun with, or halts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from towpath import Flow, topic
from towpath.errors import FlowHalted
from towpath.flow.graph.stages import Stage
from towpath.flow.run.checkpoint import Checkpoint
from towpath.flow.stateful import Dedupe, field, header, key
from towpath.flow.stateful.operators import check_state

RULE = Dedupe(sender=header("sender"), sequence=header("n"))


def stage(dedupe: Dedupe | None) -> Stage:
    flow = Flow("f")
    flow.load(flow.source(topic("orders", dedupe=dedupe)), topic("out"))
    return flow.stages()[0]


def committed(checkpoint: Checkpoint) -> None:
    (checkpoint.spark / "commits").mkdir(parents=True)
    (checkpoint.spark / "commits" / "0").touch()


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, RULE), (RULE, None), (RULE, replace(RULE, sender=key())), (RULE, replace(RULE, epoch=field("epoch")))],
)
def test_another_rule_halts(tmp_path: Path, before: Dedupe | None, after: Dedupe | None) -> None:
    checkpoint = Checkpoint(tmp_path, "f", "orders", 1)
    check_state("f", stage(before), checkpoint)
    committed(checkpoint)
    with pytest.raises(FlowHalted, match="towpath flow reset f orders"):
        check_state("f", stage(after), checkpoint)
    check_state("f", stage(before), checkpoint)


def test_what_becomes_of_late_ones_may_change(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "f", "orders", 1)
    check_state("f", stage(RULE), checkpoint)
    committed(checkpoint)
    check_state("f", stage(replace(RULE, window=7, late="drop", missing="error")), checkpoint)


def test_before_the_first_commit_anything_may_change(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "f", "orders", 1)
    check_state("f", stage(RULE), checkpoint)
    check_state("f", stage(None), checkpoint)
    check_state("f", stage(RULE), checkpoint)
    committed(checkpoint)
    check_state("f", stage(RULE), checkpoint)
