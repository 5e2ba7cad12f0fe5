"""Putting another message in the place of the one that an instance was to run, or has run in part."""

from __future__ import annotations

from towpath.actors.instance import Instance
from towpath.actors.parts import Parts
from towpath.actors.phase import Phase
from towpath.actors.planning import Instead
from towpath.db import Transaction
from towpath.queue.held_messages import Ending, Head
from towpath.queue.payload import new_id


def redirect(parts: Parts, tx: Transaction, instance: Instance, instead: Instead) -> None:
    """End the present head and let another one be due at once. The caller has locked the instance."""
    planned, head_id, now_us = instead.planned, new_id(), parts.database.now()
    parts.held.end(tx, [Ending(instance.head, instead.state, instead.reason)])
    parts.held.insert(
        tx,
        [Head(head_id, instance.head, instance.inbox, planned.function, planned.payload_json, due_us=now_us)],
        now_us,
    )
    parts.instances.forget_waits(tx, [instance.inbox])
    moved = instance._replace(
        phase=Phase.READY,
        step=planned.function,
        head_id=head_id,
        last_id=instance.head,
        owner=None,
        due_us=now_us,
        needs=0,
        restarts=instead.restarts or instance.restarts,
        abort=None,
    )
    parts.instances.move(tx, [(instance.head, moved)])
    parts.queue.ring_after(tx, instance.inbox)


def run_again(parts: Parts, tx: Transaction, instance: Instance) -> None:
    """Let the present head be due at once, whoever had it. The caller has locked the instance."""
    now_us = parts.database.now()
    parts.held.wait_again(tx, [instance.head], now_us)
    ready = instance._replace(phase=Phase.READY, owner=None, due_us=now_us, needs=0)
    parts.instances.move(tx, [(instance.head, ready)])
    parts.queue.ring_after(tx, instance.inbox)
