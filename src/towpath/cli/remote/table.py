"""All commands that a server can run."""

from __future__ import annotations

from towpath.cli.remote import (
    access_calls,
    actor_calls,
    bulk_calls,
    case_calls,
    catalog_calls,
    flow_calls,
    group_calls,
    process_calls,
    queue_calls,
    rule_calls,
    schedule_calls,
    topic_calls,
)
from towpath.cli.remote.call import Call

CALLS: dict[str, Call] = {
    **queue_calls.CALLS,
    **process_calls.CALLS,
    **actor_calls.CALLS,
    **schedule_calls.CALLS,
    **flow_calls.CALLS,
    **topic_calls.CALLS,
    **case_calls.CALLS,
    **bulk_calls.CALLS,
    **group_calls.CALLS,
    **rule_calls.CALLS,
    **catalog_calls.CALLS,
    **access_calls.CALLS,
}
