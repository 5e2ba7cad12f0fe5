"""The gateway on both databases: what is acknowledged is in the log, once, whatever clients and processes do."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.sending_clients import (
    COLUMNS,
    LINE_BYTES,
    SCHEMA,
    Client,
    MakeGateway,
    connected,
    opened,
    shown,
    taken_records,
)
from tests.support.sweep import sweep
from tests.support.tables import events, rows

from towpath.core import crash
from towpath.errors import (
    BadName,
    BadSettings,
    BadValue,
    ChunkGap,
    ChunkTooLarge,
    IllegalUploadMove,
    LineTooLong,
    LogError,
    NotYet,
    Refused,
    SessionReplaced,
    SumDiffers,
    UnknownSender,
    UnknownStream,
    UnknownUpload,
    UploadExists,
    UploadTooLarge,
)
from towpath.flow.stage.store import StageStore
from towpath.gateway.completion.plan import PassStore
from towpath.gateway.sender_run import SPOT, sender_group, sender_producer
from towpath.gateway.service import Gateway
from towpath.gateway.uploads.model import SenderPlan, SenderRequest, UploadMove, UploadState
from towpath.gateway.uploads.store import UploadStore
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

DATA = b"A1,,1\nA2,JFK,2\nA3,,3\nbad\nA5,,5\n"
VALUES = [("A1", 1), ("A2", 2), ("A3", 3), "bad", ("A5", 5)]


def values(runtime: Runtime, topic: str = "flights") -> list[Any]:
    """What lies in the topic: id and fare of records, the text of refused lines."""
    found = (json.loads(record.value or b"") for record in taken_records(runtime, topic))
    return [(value["id"], value["fare"]) if isinstance(value, dict) else value[2] for value in found]


@pytest.fixture
def runtime(make_gateway: MakeGateway) -> Runtime:
    return make_gateway()


@pytest.fixture
def gateway(runtime: Runtime) -> Gateway:
    return runtime.gateway


def test_from_the_opening_to_the_end(runtime: Runtime, gateway: Gateway) -> None:
    status = opened(gateway, label="the first")
    assert (status.upload.state, status.upload.owner, status.upload.label) == ("receiving", "ann", "the first")
    client = connected(gateway, status.upload.id, DATA)
    taken = client.send(len(DATA))
    assert (taken.position, taken.line, taken.sequence, taken.refused) == (len(DATA), 5, 1, 1)
    assert taken.crc32 == zlib.crc32(DATA)
    assert values(runtime) == VALUES
    done = client.finish()
    assert done.upload.state == "closing"
    assert done.upload.closed_at is not None
    assert done.sender("main").ends == runtime.log.ends("flights")
    assert client.finish() == done
    kinds = ("upload_opened", "sender_finished", "upload_received")
    assert [row["kind"] for row in events(runtime.database, *kinds)] == list(kinds)
    assert [upload.id for upload in gateway.list(owner="ann", state=UploadState.CLOSING)] == [status.upload.id]


def test_a_refused_line_tells_which_it_was(runtime: Runtime, gateway: Gateway) -> None:
    status = opened(gateway, SenderRequest("main", "flights", "csv", COLUMNS, first_line=2))
    connected(gateway, status.upload.id, DATA).send(len(DATA))
    refused = taken_records(runtime)[3]
    assert dict(refused.headers) == {"upload": status.upload.id.encode(), "sender": b"main", "line": b"5"}
    assert json.loads(refused.value or b"")[1]["message"] == "line 5: 1 fields; there are 3 columns"


def test_the_same_chunk_twice_is_taken_once(runtime: Runtime, gateway: Gateway) -> None:
    client = connected(gateway, opened(gateway).upload.id, DATA)
    first = client.send(10)
    again = client.send(10, back=10, sequence=1)
    assert (again.position, again.is_repeat) == (first.position, True)
    known = client.send(6, back=6)  # a new number, and nothing new in it
    assert (known.position, known.sequence, known.is_repeat) == (6, 1, True)
    client.send(99, back=3)  # an overlap
    assert values(runtime) == VALUES


def test_a_gap_is_refused_with_the_offset_expected(gateway: Gateway) -> None:
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send(10)
    client.position = 20
    with pytest.raises(ChunkGap) as told:
        client.send(5)
    assert told.value.position == 6


def test_a_chunk_without_a_whole_line_takes_nothing(runtime: Runtime, gateway: Gateway) -> None:
    client = connected(gateway, opened(gateway).upload.id, DATA)
    assert client.send(4).position == 0
    assert client.send(0).position == 0
    assert client.send(7).position == 6
    assert values(runtime) == VALUES[:1]


def test_the_last_line_needs_no_end(runtime: Runtime, gateway: Gateway) -> None:
    client = connected(gateway, opened(gateway).upload.id, b"A1,,1\nA2,,2")
    client.send_all()
    assert values(runtime) == [("A1", 1), ("A2", 2)]
    assert client.finish().upload.state == "closing"


def test_finish_is_refused_when_something_is_missing_or_was_changed(gateway: Gateway) -> None:
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send(10)
    with pytest.raises(SumDiffers):
        client.finish()
    client.send_all()
    client.data = DATA.replace(b"A2", b"B2")
    with pytest.raises(SumDiffers):
        client.finish()
    client.data = DATA
    client.finish()
    client.data = DATA[:-1]
    with pytest.raises(SumDiffers):
        client.finish()


def test_an_upload_closes_with_its_last_sender(runtime: Runtime, gateway: Gateway) -> None:
    senders = [SenderRequest("a", "flights", "csv", COLUMNS), SenderRequest("b", "airports", "jsonl")]
    id = opened(gateway, *senders).upload.id
    one, two = connected(gateway, id, DATA, "a"), connected(gateway, id, b'{"code":"JFK"}\n', "b")
    one.send_all()
    assert one.finish().upload.state == "receiving"
    with pytest.raises(BadValue, match="finished"):
        one.gateway.take(id, "a", owner="ann", session=one.session, offset=len(DATA), sequence=9, data=b"x,,1\n")
    two.send_all()
    assert two.finish().upload.state == "closing"
    assert [sender.name for sender in gateway.status(id, owner="ann").senders] == ["a", "b"]


def test_two_last_senders_at_once_close_it(make_gateway: MakeGateway) -> None:
    gateway = make_gateway().gateway
    senders = [SenderRequest(f"s{number}", "flights", "csv", COLUMNS) for number in range(6)]
    id = opened(gateway, *senders).upload.id
    clients = [connected(gateway, id, b"", each.name) for each in senders]
    threads = [threading.Thread(target=client.finish) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gateway.status(id, owner=None).upload.state == "closing"


def test_the_newest_session_counts(gateway: Gateway) -> None:
    id = opened(gateway).upload.id
    older = connected(gateway, id, DATA)
    older.send(10)
    newer = connected(gateway, id, DATA)
    assert (newer.session, newer.position, newer.sequence) == (older.session + 1, 6, 1)
    for act in (lambda: older.send(20), older.finish, older.skip):
        with pytest.raises(SessionReplaced):
            act()
    newer.send_all()
    newer.finish()
    told = gateway.session(id, "main", owner="ann")
    assert (told.state, told.session) == ("finished", newer.session)


def test_only_who_opened_it_goes_on_with_it(gateway: Gateway) -> None:
    id = opened(gateway).upload.id
    client = connected(gateway, id, DATA)
    client.owner = "eve"
    acts: list[Callable[[], object]] = [
        client.connect,
        lambda: client.send(10),
        client.finish,
        lambda: gateway.status(id, owner="eve"),
        lambda: gateway.ready(id, "main", owner="eve"),
        lambda: gateway.abort(id, owner="eve", who="eve", why="mine"),
    ]
    for act in acts:
        with pytest.raises(UnknownUpload):
            act()
    assert gateway.list(owner="eve") == []
    assert gateway.status(id, owner=None).upload.state == "receiving"


@sweep("id", ["", "x", "../..", "6f1c2a90-0000-4000-8000-000000000001"])
def test_what_is_not_there_is_not_found(gateway: Gateway, id: str) -> None:
    with pytest.raises(UnknownUpload):
        gateway.status(id, owner="ann")
    known = opened(gateway).upload.id
    with pytest.raises(UnknownSender):
        gateway.session(known, "nobody", owner="ann")


def test_opened_twice_under_one_id_it_is_one(gateway: Gateway) -> None:
    id = str(uuid4())
    first = opened(gateway, id=id)
    assert opened(gateway, id=id) == first
    connected(gateway, id, DATA).send_all()
    assert opened(gateway, id=id).sender("main").position == len(DATA)
    for other in (
        lambda: opened(gateway, id=id, owner="eve"),
        lambda: opened(gateway, SenderRequest("main", "airports"), id=id),
        lambda: opened(gateway, SenderRequest("main", "flights", "csv", COLUMNS[::-1]), id=id),
    ):
        with pytest.raises(UploadExists):
            other()


@sweep(
    ("senders", "error", "message"),
    [
        ([], BadValue, "1000"),
        ([SenderRequest("a b", "flights")], BadName, "sender"),
        ([SenderRequest("a", "flights"), SenderRequest("a", "airports")], BadValue, "two"),
        ([SenderRequest("a", "nowhere")], UnknownStream, "airports, flights, late"),
        ([SenderRequest("a", "flights", "xml")], BadValue, "csv or jsonl"),  # type: ignore[arg-type]
        ([SenderRequest("a", "flights", "csv", ["stops"])], BadValue, "id"),
        ([SenderRequest("a", "flights", "csv", ["id", "upload"])], BadValue, "field"),
        ([SenderRequest("a", "flights", "csv", ["id", "a\x00"])], BadValue, "NUL"),
        ([SenderRequest("a", "flights", "jsonl", ["id"])], BadValue, "columns"),
        ([SenderRequest("a", "flights", "csv", None, 0)], BadValue, "from 1"),
    ],
)
def test_an_upload_that_could_take_nothing_is_not_opened(
    gateway: Gateway, senders: list[SenderRequest], error: type[Refused], message: str
) -> None:
    with pytest.raises(error, match=message):
        gateway.open("flights", senders, owner="ann")
    assert gateway.list() == []


def test_wrong_words_are_refused(gateway: Gateway) -> None:
    with pytest.raises(UnknownStream, match="flights"):
        gateway.open("fligths", [SenderRequest("a", "a")], owner="ann")
    with pytest.raises(BadValue, match="UUID"):
        opened(gateway, id="7")
    with pytest.raises(BadValue, match="200"):
        opened(gateway, label="x" * 201)
    client = connected(gateway, opened(gateway).upload.id, DATA)
    with pytest.raises(BadValue, match="offset=-1"):
        gateway.take(client.upload, "main", owner="ann", session=1, offset=-1, sequence=1, data=b"")
    with pytest.raises(BadValue, match="bytes=0"):
        gateway.skip(client.upload, "main", owner="ann", session=1, offset=0, sequence=1, bytes=0, crc32=0)


def test_columns_may_be_said_with_the_first_session(runtime: Runtime, gateway: Gateway) -> None:
    id = opened(gateway, SenderRequest("main", "flights")).upload.id
    client = connected(gateway, id, DATA)
    with pytest.raises(BadValue, match="columns"):
        client.send(10)
    with pytest.raises(BadValue, match="id"):
        gateway.session(id, "main", owner="ann", columns=["x"])
    assert gateway.session(id, "main", owner="ann", columns=COLUMNS).columns == COLUMNS
    with pytest.raises(BadValue, match="id, stops, fare"):
        gateway.session(id, "main", owner="ann", columns=("id", "fare", "stops"))
    client.connect()
    client.send_all()
    assert values(runtime) == VALUES


# Limits


def test_a_line_that_is_too_long_can_be_skipped_and_is_the_same_as_one_that_was_seen(
    runtime: Runtime, gateway: Gateway
) -> None:
    long = b"L" + b"x" * 2 * LINE_BYTES + b"\n"
    data = b"A1,,1\n" + long + b"A3,,3\n"
    seen = connected(gateway, opened(gateway).upload.id, data)
    seen.send(len(data))
    skipped = connected(gateway, opened(gateway).upload.id, data)
    skipped.send(6 + LINE_BYTES)
    with pytest.raises(LineTooLong) as caught:
        skipped.send(LINE_BYTES + 1)
    assert (caught.value.line, caught.value.position) == (2, 6)
    skipped.skip()
    skipped.send_all()
    assert skipped.finish().sender("main").refused == seen.finish().sender("main").refused == 1
    found = [[shown(record) for record in taken_records(runtime, upload=client.upload)] for client in (seen, skipped)]
    assert found[0] == found[1]
    assert [line for line, *_ in found[0]] == [1, 2, 3]


def test_a_line_may_be_skipped_for_another_reason(runtime: Runtime, gateway: Gateway) -> None:
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.skip()
    client.send_all()
    about = json.loads(taken_records(runtime)[0].value or b"")
    assert (about[1]["rule"], about[1]["message"], about[2]) == ("skipped", "line 1: too long", "A1,,1")
    assert client.finish().upload.state == "closing"


def test_limits_of_chunks_and_uploads(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(upload_bytes=20).gateway
    client = connected(gateway, opened(gateway).upload.id, DATA)
    with pytest.raises(ChunkTooLarge, match="4096"):
        gateway.take(client.upload, "main", owner="ann", session=1, offset=0, sequence=1, data=b"x" * 4097)
    client.send(10)
    with pytest.raises(UploadTooLarge, match="20"):
        client.send(20)
    few = make_gateway(upload_lines=2).gateway
    client = connected(few, opened(few).upload.id, DATA)
    client.send(18)
    with pytest.raises(UploadTooLarge, match="2 lines"):
        client.send(20)


def test_a_gateway_whose_lines_no_record_could_hold_is_not_opened(make_gateway: MakeGateway) -> None:
    runtime = make_gateway(line_bytes=2 << 20, chunk_bytes=8 << 20)
    with pytest.raises(BadSettings, match="log"):
        _ = runtime.gateway


def test_more_lines_than_one_transaction_holds_are_taken_in_several(
    runtime: Runtime, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.gateway.sender_run.SQLITE_LINES", 3)
    monkeypatch.setattr("towpath.gateway.sender_run.SQLITE_BYTES", 100)  # of JSON two of them
    data = b"".join(b"A%d,,%d\n" % (number, number) for number in range(50))
    client = connected(gateway, opened(gateway).upload.id, data)
    taken = client.send(len(data))
    assert (taken.position, taken.line, taken.sequence) == (len(data), 50, 1)
    assert values(runtime) == [(f"A{number}", number) for number in range(50)]
    assert runtime.log.positions(sender_group(client.upload, "main")) == {SPOT: len(data)}


def test_what_the_topic_does_not_take_is_refused_and_the_rest_goes_on(make_gateway: MakeGateway) -> None:
    """A broker may take less than the settings say: it is found out when it refuses."""
    runtime = make_gateway(line_bytes=30_000, chunk_bytes=100_000)
    gateway = runtime.gateway
    data = b"A1,,1\nA2,%b,2\nA3,,3\n" % (b"x" * 25_000)
    client = connected(gateway, opened(gateway).upload.id, data)
    client.send(6)
    run = gateway._slots._slots[client.upload, "main"].run
    assert run is not None
    producer: Any = run._producer
    producer._log.settings = producer._log.settings.model_copy(update={"max_record_bytes": 20_000})
    taken = client.send(len(data))
    assert (taken.position, taken.line, taken.refused) == (len(data), 3, 1)
    mark = json.loads(taken_records(runtime)[1].value or b"")
    assert (mark[1]["rule"], mark[2]) == ("record too large", "A2," + "x" * 997)
    assert [values(runtime)[place] for place in (0, 2)] == [("A1", 1), ("A3", 3)]


# Waiting


def test_an_input_waits_for_another(runtime: Runtime, gateway: Gateway) -> None:
    senders = [SenderRequest("late", "late", "jsonl"), SenderRequest("airports", "airports", "jsonl")]
    id = opened(gateway, *senders).upload.id
    late, airports = connected(gateway, id, b'{"a":1}\n', "late"), connected(gateway, id, b'{"b":1}\n', "airports")
    with pytest.raises(NotYet) as told:
        late.send(99)
    assert (told.value.reason, told.value.retry_after_s) == ("after", 0.05)
    with pytest.raises(NotYet):
        gateway.ready(id, "late", owner="ann")
    airports.send_all()
    airports.finish()
    with runtime.database.transaction() as tx:
        passes = PassStore(runtime.database)
        passes.add(tx, id, "airports", "")
        passes.mark(tx, id, "airports", "")
    late.send_all()
    assert late.finish().upload.state == "closing"


def test_an_input_does_not_wait_for_one_that_nobody_sends(gateway: Gateway) -> None:
    id = opened(gateway, SenderRequest("late", "late", "jsonl")).upload.id
    connected(gateway, id, b'{"a":1}\n', "late").send_all()


def test_senders_wait_while_the_flow_is_behind(make_gateway: MakeGateway) -> None:
    streams = {"flights": {"flow": "slow", "inputs": {"flights": {"partitions": 1, "schema": SCHEMA}}}}
    runtime = make_gateway(streams=streams, behind_records=3)
    client = connected(runtime.gateway, opened(runtime.gateway).upload.id, DATA)
    client.send(20)  # nobody has run the flow yet
    told_position(runtime, 0)
    readiness = runtime.gateway._readiness
    client.send(10)  # what was found out a moment ago is believed
    readiness._behind.clear()
    with pytest.raises(NotYet) as told:
        client.send(99)
    assert told.value.reason == "behind"
    told_position(runtime, 2)
    readiness._behind.clear()
    client.send_all()
    assert values(runtime) == VALUES


def told_position(runtime: Runtime, position: int) -> None:
    """As the stage of a running flow tells it."""
    stages, owner = StageStore(runtime.database), runtime.process().id
    with runtime.database.transaction() as tx:
        stages.ensure(tx, "slow", "main", {})
        stages.take(tx, "slow", "main", owner, dead=owner)
        sample = {"partitions": [{"topic": "flights", "partition": 0, "position": position}]}
        stages.save_sample(tx, "slow", "main", owner, sample)


# States


STATES: dict[UploadState, list[UploadMove]] = {
    UploadState.RECEIVING: [],
    UploadState.CLOSING: [UploadMove.CLOSE],
    UploadState.SENDING: [UploadMove.CLOSE, UploadMove.SEND],
    UploadState.FINISHED: [UploadMove.CLOSE, UploadMove.SEND, UploadMove.FINISH],
    UploadState.ABORTED: [UploadMove.ABORT],
    UploadState.EXPIRED: [UploadMove.EXPIRE],
}


# Where each move leads from which state; from every other one it is refused.
WHERE_TO: dict[UploadMove, dict[UploadState, UploadState]] = {
    UploadMove.CLOSE: {UploadState.RECEIVING: UploadState.CLOSING},
    UploadMove.SEND: {UploadState.CLOSING: UploadState.SENDING},
    UploadMove.FINISH: {UploadState.SENDING: UploadState.FINISHED},
    UploadMove.ABORT: {
        UploadState.RECEIVING: UploadState.ABORTED,
        UploadState.CLOSING: UploadState.ABORTED,
        UploadState.SENDING: UploadState.ABORTED,
    },
    UploadMove.EXPIRE: {UploadState.RECEIVING: UploadState.EXPIRED, UploadState.SENDING: UploadState.EXPIRED},
}


@sweep("state", UploadState)
def test_every_move_from_every_state(runtime: Runtime, gateway: Gateway, state: UploadState) -> None:
    store = UploadStore(runtime.database)
    for move in UploadMove:
        id = opened(gateway).upload.id
        with runtime.database.transaction() as tx:
            for step in STATES[state]:
                store.move(tx, id, step, who="ann", why="a test")
        before = rows(runtime.database, "upload")[-1]
        wanted = WHERE_TO[move].get(state)
        if wanted is not None:
            with runtime.database.transaction() as tx:
                assert store.move(tx, id, move, who="ann", why="a test").state is wanted
        else:
            with pytest.raises(IllegalUploadMove) as caught, runtime.database.transaction() as tx:
                store.move(tx, id, move, who="ann", why="a test")
            assert (caught.value.state, set(caught.value.allowed)) == (state, set(WHERE_TO[move]))
            assert rows(runtime.database, "upload")[-1] == before


def test_an_aborted_upload_takes_nothing_more(runtime: Runtime, gateway: Gateway) -> None:
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send(10)
    told = gateway.abort(client.upload, owner="ann", who="ann", why="wrong file")
    assert (told.upload.state, told.upload.who, told.upload.why) == ("aborted", "ann", "wrong file")
    assert gateway.abort(client.upload, owner="ann", who="ann", why="again") == told
    for act in (lambda: client.send(20), client.connect, client.finish):
        with pytest.raises(IllegalUploadMove) as caught:
            act()
        assert caught.value.state == "aborted"
    assert values(runtime) == VALUES[:1]
    [event] = events(runtime.database, "upload_aborted_by_hand")
    assert (event["who"], event["why"]) == ("ann", "wrong file")


def test_what_has_ended_can_be_forgotten_and_nothing_else(runtime: Runtime, gateway: Gateway) -> None:
    client = connected(gateway, opened(gateway).upload.id, DATA)
    store = UploadStore(runtime.database)
    with pytest.raises(IllegalUploadMove), runtime.database.transaction() as tx:
        store.forget(tx, client.upload)
    gateway.abort(client.upload, owner=None, who="ann", why="a test")
    with runtime.database.transaction() as tx:
        store.forget(tx, client.upload)
    assert [rows(runtime.database, table) for table in ("upload", "upload_sender")] == [[], []]


def test_pages_go_on_where_the_last_one_ended(gateway: Gateway) -> None:
    ids = [opened(gateway, owner=owner).upload.id for owner in ("ann", "bob", "ann")]
    newest = gateway.list(limit=2)
    assert [upload.id for upload in newest] == ids[:0:-1]
    assert [upload.id for upload in gateway.list(limit=2, before=newest[-1].seq)] == ids[:1]
    assert [upload.id for upload in gateway.list(owner="ann")] == [ids[2], ids[0]]
    with pytest.raises(BadValue, match="limit=0"):
        gateway.list(limit=0)


# Several processes


def test_two_processes_may_serve_one_sender(make_gateway: MakeGateway) -> None:
    one, two = make_gateway(), make_gateway()
    client = connected(one.gateway, opened(one.gateway).upload.id, DATA)
    for turn in range(5):
        client.gateway = (two if turn % 2 else one).gateway
        wait_until(lambda: sent(client), 10, "a chunk is taken")
    assert values(one) == VALUES
    assert client.finish().upload.state == "closing"


def sent(client: Client) -> bool:
    """Send one line, as a client that is told to come again."""
    end = DATA.find(b"\n", client.position) + 1
    try:
        return client.send(end - client.position).position == end
    except NotYet:
        return False


def test_many_at_once_with_one_sender_take_every_line_once(make_gateway: MakeGateway) -> None:
    """As behind a load balancer that sends the requests of one client, and their repeats, wherever it likes."""
    processes = [make_gateway(), make_gateway()]
    data = b"".join(b"A%d,,%d\n" % (number, number) for number in range(60))
    first = connected(processes[0].gateway, opened(processes[0].gateway).upload.id, data)
    failures: list[BaseException] = []

    def send(number: int) -> None:
        client = replace(first, gateway=processes[number % 2].gateway)
        while client.position < len(data):
            try:
                client.send(40 + number)
            except NotYet:
                continue
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert values(processes[0]) == [(f"A{number}", number) for number in range(60)]
    assert first.finish().upload.state == "closing"


def test_who_was_fenced_says_so_and_goes_on_with_the_next_request(runtime: Runtime, gateway: Gateway) -> None:
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send(10)
    runtime.log.producer(sender_producer(client.upload, "main")).close()
    with pytest.raises(NotYet) as caught:
        client.send(20)
    assert caught.value.reason == "busy"
    client.send_all()
    assert values(runtime) == VALUES


def test_who_was_overtaken_while_it_opened_decides_nothing(
    make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Between its look at the log and that at the row another one opens, plans and sends: the plan is not its own."""
    slow, quick = make_gateway(), make_gateway()
    client = connected(quick.gateway, opened(quick.gateway).upload.id, DATA)
    client.send(10)
    ask = slow.log.positions

    def overtaken(group: str) -> Any:
        found = ask(group)
        monkeypatch.undo()
        quick.gateway.close()
        crash.arm(crash.Armed("chunk_sent", once=tmp_path / "once", victim=0))
        with pytest.raises(crash.Crashed):
            client.send(10)
        crash.arm(None)
        return found

    monkeypatch.setattr(slow.log, "positions", overtaken)
    late = replace(client, gateway=slow.gateway)
    with pytest.raises(NotYet) as caught:
        late.send(15)
    assert caught.value.reason == "busy"
    assert _plan(slow) is not None
    late.connect()
    assert late.position == 15
    late.send_all()
    assert values(slow) == VALUES


def test_a_session_that_is_replaced_in_the_middle_of_a_chunk_takes_nothing(
    make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, other = make_gateway(), make_gateway()
    client = connected(runtime.gateway, opened(runtime.gateway).upload.id, DATA)
    client.send(10)
    run = runtime.gateway._slots._slots[client.upload, "main"].run
    assert run is not None
    make = run._maker.make

    def late(*told: Any) -> Any:
        other.gateway.session(client.upload, "main", owner="ann")
        return make(*told)

    monkeypatch.setattr(run._maker, "make", late)
    with pytest.raises(SessionReplaced):
        client.send(20)
    assert values(runtime) == VALUES[:1]


def test_what_is_not_used_is_closed_and_opened_again(runtime: Runtime, gateway: Gateway) -> None:
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send(10)
    assert gateway.close_idle() == 0
    gateway._slots.close_idle(-1)
    assert gateway._slots._slots == {}
    client.send_all()
    assert values(runtime) == VALUES


def test_what_was_left_under_way_is_decided_also_if_nobody_comes_back(make_gateway: MakeGateway) -> None:
    runtime = make_gateway(settle_s=0.01)
    gateway = runtime.gateway
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send(10)
    # Not by the run that has taken it: the gateway's own caretaker lets go of that, where a chunk takes its time.
    sender = gateway.status(client.upload, owner=None).sender("main")
    with runtime.database.transaction() as tx:
        assert gateway._parts.senders.plan(tx, sender, 1, SenderPlan(15, 2, 2, 7, 0)) is not None
    wait_until(lambda: gateway.settle_idle() >= 0 and _plan(runtime) is None, 10, "the plan is decided")
    assert gateway.status(client.upload, owner=None).sender("main").position == 6
    client.send_all()
    assert values(runtime) == VALUES


def _plan(runtime: Runtime) -> Any:
    return rows(runtime.database, "upload_sender")[0]["plan"]


def test_the_log_may_forget_how_far_a_sender_is(runtime: Runtime, gateway: Gateway) -> None:
    """As a broker does after a week without a sign."""
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send(10)
    gateway.close()
    runtime.log.forget_group(sender_group(client.upload, "main"))
    client.connect()
    client.send_all()
    assert values(runtime) == VALUES


@pytest.mark.parametrize(("point", "position"), [("chunk_planned", 6), ("chunk_sent", 15)])
def test_also_while_something_is_under_way(
    runtime: Runtime, gateway: Gateway, tmp_path: Path, point: str, position: int
) -> None:
    """Whether it has gone is then found out from the records themselves."""
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send(10)
    crash.arm(crash.Armed(point, once=tmp_path / "once", victim=0))
    with pytest.raises(crash.Crashed):
        client.send(10)
    crash.arm(None)
    runtime.log.forget_group(sender_group(client.upload, "main"))
    client.connect()
    assert client.position == position
    gateway.close()
    client.send_all()
    assert values(runtime) == VALUES


def test_a_log_and_a_database_of_different_times_are_told_apart(runtime: Runtime, gateway: Gateway) -> None:
    """As when one of them was brought back from a copy: nothing is taken, and nothing guessed."""
    client = connected(gateway, opened(gateway).upload.id, DATA)
    client.send(10)
    gateway.close()
    runtime.log.commit_positions(sender_group(client.upload, "main"), {SPOT: 21})
    with pytest.raises(LogError, match="time"):
        client.send(10)
    assert values(runtime) == VALUES[:1]


def test_the_positions_of_senders_hold_nothing_back(runtime: Runtime, gateway: Gateway) -> None:
    """In the topic of the lines they would look like a reader that is behind for ever."""
    connected(gateway, opened(gateway).upload.id, DATA).send_all()
    assert all(topic != "flights" for group in runtime.log.groups() for topic, _ in runtime.log.positions(group))
