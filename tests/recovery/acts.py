"""What the child processes of the recovery tests do: `python -m tests.recovery.acts '{"act": …}'`.

Every act says in the journal what it did, so that the tables can be held against a record that is not theirs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import towpath
from towpath import Runtime, settings
from towpath.core.logs import configure
from towpath.db.processes import leave_at_once
from towpath.errors import ClaimLost, DuplicateMessage, ProcessDead, RequestDied
from towpath.queue import GiveBack, Message, MessageState, janitor, outbox
from towpath.queue.consumers import Worker
from towpath.queue.states import TERMINAL
from towpath.settings import LoggingSettings
from towpath.testing.clock import wait_for_handler, wait_until, wait_while_it_goes_on
from towpath.testing.processes import leave_with_parent, order
from towpath.testing.queue_ledger import Journal, QueueLedger, read_ledger

INBOX = "work"
ASKER = "asker"
SETTLE_S = 45.0

Args = dict[str, Any]
Act = Callable[[Runtime, Journal, Args], None]


def main() -> None:
    leave_with_parent()
    configure(LoggingSettings(level="warning"))
    told = order()
    journal = Journal(Path(told["journal"]))
    # Small portions, so that a handful of messages passes a point more than once.
    outbox.MOST_PER_COMMIT = janitor.MOST_FREED_PER_COMMIT = janitor.MOST_PER_COMMIT = told["portion"]
    with _connect(told, journal) as runtime:
        ACTS[told["act"]](runtime, journal, told.get("args", {}))


def _connect(told: Args, journal: Journal) -> Runtime:
    if told["act"] != "finish_late":
        return towpath.connect(**told["sections"])
    # Only here the order is staged: the dead process lives until its late finish has been tried.
    return Runtime(settings.load(told["sections"]), on_dead=lambda: _leave_after(_late_finish_tried, journal))


def nothing(runtime: Runtime, journal: Journal, args: Args) -> None:
    """Opening the database was the act: it makes the tables."""


def send_each(runtime: Runtime, journal: Journal, args: Args) -> None:
    """Send one by one with ids made before, as whoever must be able to send again does."""
    box = runtime.queue.outbox(ASKER)
    for number, message_id in enumerate(args["ids"]):
        send = box.notice if number % 2 else box.send
        try:
            send(INBOX, "double", {"n": number}, message_id=message_id)
        except DuplicateMessage:
            journal.write(did="found", id=message_id)
        journal.write(did="sent", id=message_id)


def send_many(runtime: Runtime, journal: Journal, args: Args) -> None:
    for message_id in runtime.queue.outbox(ASKER).send_many(INBOX, "double", ({"n": n} for n in range(args["count"]))):
        journal.write(did="sent", id=message_id)


def work(runtime: Runtime, journal: Journal, args: Args) -> None:
    """Handle what there is, one at a time or several at once, until told to stop."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    worker = _worker(runtime, journal, args)
    worker.start()
    journal.write(did="started", process=runtime.process().id)
    wait_for_handler(stop)
    worker.stop()


def recover(runtime: Runtime, journal: Journal, args: Args) -> None:
    """What a fresh process does after a death: work until all is at rest, and fetch every answer."""
    worker = _worker(runtime, journal, args)
    worker.start()
    wait_while_it_goes_on(lambda: _is_at_rest(runtime), lambda: _states(runtime), SETTLE_S, "all at rest")
    worker.stop()
    box = runtime.queue.outbox(ASKER)
    for request in read_ledger(runtime.database).asked:
        if request.expects_answer:
            try:
                answer = box.poll(request.id)
                assert answer is not None, request
                journal.write(did="answered", id=request.id, state=answer.state, payload=answer.payload)
            except RequestDied:
                journal.write(did="died", id=request.id)


def send_again_and_recover(runtime: Runtime, journal: Journal, args: Args) -> None:
    """What an asker does that was interrupted, and then everybody else."""
    send_each(runtime, journal, args)
    recover(runtime, journal, args)


def _leased(runtime: Runtime, claim: Callable[[], list[Message]]) -> list[Message]:
    """A lease so short may end on a busy machine: then nothing is claimed until it is renewed."""
    while True:
        try:
            return claim()
        except ProcessDead:
            wait_until(lambda: runtime.process().is_leased, SETTLE_S, "its lease")


def work_in_batches(runtime: Runtime, journal: Journal, args: Args) -> None:
    """Claim and finish by hand, several with each statement."""
    inbox = runtime.queue.inbox(INBOX)
    while messages := _leased(runtime, partial(inbox.claim, args["batch"])):
        for message in messages:
            journal.write(did="handled", id=message.id)
        inbox.finish(messages, {"done": True})


def exchange_batches(runtime: Runtime, journal: Journal, args: Args) -> None:
    """The same with the finish of one batch and the claim of the next in one transaction."""
    inbox = runtime.queue.inbox(INBOX)
    messages = _leased(runtime, partial(inbox.claim, args["batch"]))
    while messages:
        for message in messages:
            journal.write(did="handled", id=message.id)
        messages = _leased(runtime, partial(inbox.exchange, messages, {"done": True}, args["batch"]))


def care(runtime: Runtime, journal: Journal, args: Args) -> None:
    """Look after the dead and handle nothing."""
    journal.write(did="caring", process=runtime.process().id)
    signal.pause()


def hold(runtime: Runtime, journal: Journal, args: Args) -> None:
    """Claim from each inbox, and wait for death."""
    for name, policy in args["inboxes"].items():
        inbox = runtime.queue.inbox(name, policy)
        for message in _leased(runtime, partial(inbox.claim, args["count"])):
            journal.write(did="held", id=message.id)
    journal.write(did="holding")
    signal.pause()


def finish_late(runtime: Runtime, journal: Journal, args: Args) -> None:
    """Handle one message, wait in the middle, and try to finish it after another has taken it over."""
    inbox = runtime.queue.inbox(INBOX)
    message = _leased(runtime, partial(inbox.claim, 1))[0]
    journal.write(did="handled", id=message.id)
    wait_until(Path(args["gate"]).exists, SETTLE_S, "the gate")
    try:
        inbox.finish(message, {"late": True})
        journal.write(did="finished late", id=message.id)
    except ClaimLost as lost:
        journal.write(did="refused", ids=lost.message_ids)
    _late_finish_tried.set()
    signal.pause()


def stay_in_transaction(runtime: Runtime, journal: Journal, args: Args) -> None:
    """Finish one message, and never come to the commit."""
    inbox = runtime.queue.inbox(INBOX)
    message = _leased(runtime, partial(inbox.claim, 1))[0]
    with runtime.database.transaction() as tx:
        inbox.finish(message, tx=tx)
        journal.write(did="inside", id=message.id)
        signal.pause()


def reap(runtime: Runtime, journal: Journal, args: Args) -> None:
    journal.write(did="reaped", count=runtime.queue.caretaker().reap())


def clean(runtime: Runtime, journal: Journal, args: Args) -> None:
    journal.write(did="cleaned", **runtime.queue.janitor().clean())


def operate(runtime: Runtime, journal: Journal, args: Args) -> None:
    """One change of each kind by hand, in this order."""
    operator = runtime.queue.operator("ann")
    to_edit, to_answer, to_kill = args["ids"]
    operator.send(INBOX, "double", {"n": 1}, "a test")
    operator.edit(to_edit, "a test", payload={"n": 21})
    operator.reply(to_answer, {"by": "hand"}, "a test")
    operator.set_state(to_kill, MessageState.DEAD, "a test")


def _worker(runtime: Runtime, journal: Journal, args: Args) -> Worker:
    threads = args.get("threads", 0)
    queue = runtime.queue
    worker: Worker = queue.asynchronous(INBOX, threads) if threads else queue.synchronous(INBOX)
    pause = threading.Event()  # never set: only its timeout is used

    def handled(message: Message) -> None:
        if "pause_s" in args:
            journal.write(did="begun", id=message.id)
            pause.wait(args["pause_s"])
        journal.write(did="handled", id=message.id)

    @worker.on("double")
    def double(message: Message) -> Any:
        handled(message)
        return {"doubled": 2 * message.payload["n"]}

    @worker.on("fail")
    def fail(message: Message) -> Any:
        handled(message)
        raise ValueError("this one fails")

    @worker.on("later")
    def later(message: Message) -> Any:
        if message.give_backs == 0:
            return GiveBack()
        handled(message)
        return {"came": "later"}

    return worker


def _states(runtime: Runtime) -> list[object]:
    return [(message.id, message.state, message.attempts) for message in read_ledger(runtime.database).asked]


def _is_at_rest(runtime: Runtime) -> bool:
    ledger: QueueLedger = read_ledger(runtime.database)
    return (
        all(message.state in TERMINAL for message in ledger.asked)
        and [p.id for p in ledger.processes if p.state == "alive"] == [runtime.process().id]
        and all(process.is_settled for process in ledger.dead)
    )


def _leave_after(tried: threading.Event, journal: Journal) -> None:
    journal.write(did="read itself dead")
    tried.wait(SETTLE_S)
    leave_at_once()


_late_finish_tried = threading.Event()

ACTS: dict[str, Act] = {
    act.__name__: act
    for act in (
        nothing,
        send_each,
        send_many,
        work,
        recover,
        send_again_and_recover,
        work_in_batches,
        exchange_batches,
        care,
        hold,
        finish_late,
        stay_in_transaction,
        reap,
        clean,
        operate,
    )
}

if __name__ == "__main__":
    main()
