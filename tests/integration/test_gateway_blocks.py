"""Block rules at the gateway: what is refused becomes a case, what is ignored no record; an upload completes anyway."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.sending_clients import MakeGateway, connected, opened, taken_records
from tests.support.tables import events, rows

from towpath.blocks.rule import BlockAction, BlockMatch
from towpath.gateway.service import Gateway
from towpath.gateway.uploads.model import SenderPlan
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

DATA = b"A1,,1\nA2,JFK,2\nA3,,3\nbad\nA5,,5\n"
KEYED = {"flights": {"inputs": {"flights": {"schema": "id string not null, stops string, fare bigint", "key": "id"}}}}


@pytest.fixture
def runtime(make_gateway: MakeGateway) -> Runtime:
    return make_gateway(streams=KEYED)


@pytest.fixture
def gateway(runtime: Runtime) -> Gateway:
    return runtime.gateway


def block(runtime: Runtime, action: BlockAction, **match: str) -> int:
    return runtime.blocks.add(action, BlockMatch.of(**match), until="2100-01-01", who="ann", why="noise").rule.number


def values(runtime: Runtime) -> list[Any]:
    found = (json.loads(record.value or b"") for record in taken_records(runtime))
    return sorted(value["fare"] if isinstance(value, dict) else value[1]["message"] for value in found)


def caught(runtime: Runtime) -> dict[int, int]:
    return {each.rule.number: each.caught for each in runtime.blocks.list()}


def sent_all(gateway: Gateway, *, owner: str = "ann") -> Any:
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send_all(16)
    return client.finish()


def test_what_is_refused_is_a_bad_line_with_the_rule_as_its_reason(runtime: Runtime, gateway: Gateway) -> None:
    number = block(runtime, BlockAction.REFUSE, topic="flights", key="A2")
    done = sent_all(gateway)
    assert (done.upload.state, done.sender("main").refused, done.sender("main").blocked) == ("closing", 2, 0)
    refused = [json.loads(record.value or b"") for record in taken_records(runtime) if record.key is None]
    told = {value[1]["message"]: (value[1]["rule"], value[2]) for value in refused if isinstance(value, list)}
    assert told[f"line 2: block rule {number}: noise"] == ("blocked", "A2,JFK,2")
    assert len(taken_records(runtime)) == 5
    assert caught(runtime) == {number: 1}


def test_what_is_ignored_is_no_record_and_counted(runtime: Runtime, gateway: Gateway) -> None:
    first = block(runtime, BlockAction.IGNORE, where="value.fare >= 2 and value.fare <= 3")
    second = block(runtime, BlockAction.IGNORE, prefix="A")
    done = sent_all(gateway)
    assert done.upload.state == "closing"
    assert (done.sender("main").line, done.sender("main").refused, done.sender("main").blocked) == (5, 1, 4)
    assert values(runtime) == ["line 4: 1 fields; there are 3 columns"], "what is no record is a case all the same"
    assert caught(runtime) == {first: 2, second: 2}
    [row] = events(runtime.database, "sender_finished")
    assert json.loads(row["data"])["blocked"] == 4


@pytest.mark.parametrize(
    ("match", "left"),
    [
        ({"stream": "flights"}, 1),
        ({"stream": "others"}, 5),
        ({"user": "ann"}, 1),
        ({"user": "bob"}, 5),
        ({"sender": "main"}, 1),
        ({"sender": "other"}, 5),
        ({"topic": "flights", "user": "ann", "key": "A1"}, 4),
        ({"where": "headers.line = '3'"}, 4),
    ],
)
def test_by_where_it_comes_from(match: dict[str, str], left: int, runtime: Runtime, gateway: Gateway) -> None:
    block(runtime, BlockAction.IGNORE, **match)
    sent_all(gateway)
    assert len(taken_records(runtime)) == left


def test_a_rule_of_another_process_counts_within_a_moment(make_gateway: MakeGateway, runtime: Runtime) -> None:
    other = make_gateway(streams=KEYED)
    client = connected(other.gateway, opened(other.gateway).upload.id, DATA)
    client.send(6)
    block(runtime, BlockAction.IGNORE, prefix="A")
    wait_until(lambda: other.blocks.in_force(), 10, "the rule is known")
    client.send_all()
    assert client.finish().sender("main").blocked == 3


def test_a_plan_that_was_sent_is_counted_once(runtime: Runtime, gateway: Gateway) -> None:
    """Whoever settles what a process has left under way counts what rules had caught."""
    number = block(runtime, BlockAction.IGNORE, key="A2")
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send(6)
    run = gateway._slots._slots[client.upload, "main"].run
    assert run is not None
    plan = SenderPlan(15, 2, 2, 7, 0, blocked=1, caught={number: 1})
    with runtime.database.transaction() as tx:
        run._parts.senders.plan(tx, run.sender, client.session, plan)
    run._send(plan, [])  # and there its process has died
    gateway.close()
    told = gateway.session(client.upload, "main", owner="ann")
    assert (told.position, told.blocked, told.plan) == (15, 1, None)
    gateway.session(client.upload, "main", owner="ann")
    assert caught(runtime) == {number: 1}


def test_a_plan_that_was_never_sent_is_not_counted(runtime: Runtime, gateway: Gateway) -> None:
    number = block(runtime, BlockAction.IGNORE, key="A2")
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send(6)
    run = gateway._slots._slots[client.upload, "main"].run
    assert run is not None
    with runtime.database.transaction() as tx:
        run._parts.senders.plan(
            tx, run.sender, client.session, SenderPlan(15, 2, 2, 7, 0, blocked=1, caught={number: 1})
        )
    gateway.close()
    client.connect()
    assert caught(runtime) == {number: 0}
    client.send_all()
    assert client.finish().sender("main").blocked == 1
    assert caught(runtime) == {number: 1}
    assert rows(runtime.database, "upload_sender")[0]["plan"] is None
