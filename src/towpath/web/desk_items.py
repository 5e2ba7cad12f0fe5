"""Cases, groups and jobs as the API shows them: as the command line does with `--json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from towpath.desk.desk_json import (
    attempt_item,
    case_item,
    done_item,
    edit_item,
    fingerprint_item,
    group_item,
    headers_item,
    item_item,
    job_item,
    text_or_base64,
)
from towpath.desk.group import Group
from towpath.desk.jobs import JobView
from towpath.desk.looking import CaseView
from towpath.desk.masking import MASK, Masks
from towpath.desk.operating_groups import GroupView

Item = dict[str, Any]


def case_view(view: CaseView) -> Item:
    return {
        **case_item(view.case),
        **text_or_base64("value", view.value),
        "headers": headers_item(view.headers),
        "is_masked": view.is_masked,
        "seen": asdict(view.seen),
        "of_group": group_item(view.group),
        "attempts_made": [attempt_item(each) for each in view.attempts],
        "edits": [
            {**edit_item(each.edit), "changes": [change._asdict() for change in each.changes]} for each in view.edits
        ],
        "history": [done_item(each) for each in view.history],
    }


def group_shown(group: Group, masks: Masks) -> Item:
    """A title is the message of an error, and nobody can tell what of it is hidden in one of its many records."""
    return {**group_item(group), **({"title": MASK} if masks.of(group.flow) else {})}


def group_view(view: GroupView, masks: Masks) -> Item:
    fingerprints = [fingerprint_item(each) for each in view.fingerprints]
    if masks.of(view.group.flow):
        fingerprints = [{**each, "made_of": {**each["made_of"], "message": MASK}} for each in fingerprints]
    return {
        **group_shown(view.group, masks),
        "fingerprints": fingerprints,
        "history": [done_item(each) for each in view.history],
    }


def job_view(view: JobView) -> Item:
    return {
        **job_item(view.job),
        "cases_now": {state.value: count for state, count in view.now.items()},
        "first_refused": [item_item(each) for each in view.refused],
    }
