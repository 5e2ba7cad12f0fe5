"""Looking without touching: eavesdrop, browse, page, follow, and the tree of what belongs together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.quiet import Quiet
from tests.support.sweep import sweep
from tests.support.tables import rows

from towpath.errors import UnknownMessage
from towpath.queue import MessageState, OnOwnerDeath
from towpath.queue.browser import MOST_RELATIVES
from towpath.queue.model import Handling, handling
from towpath.queue.payload import new_id


@pytest.fixture(autouse=True)
def nothing_changes(request: pytest.FixtureRequest, quiet: Quiet) -> Iterator[None]:
    """Every test of this file fills the queue through `fill`; what it does afterwards must leave no trace."""
    yield
    before = getattr(request.node, "filled", None)
    if before is not None:
        assert [rows(quiet.database, table) for table in ("message", "event", "inbox")] == before


@pytest.fixture
def fill(request: pytest.FixtureRequest, quiet: Quiet) -> list[str]:
    """Twelve messages in two inboxes and all states."""
    inbox, other = quiet.queue.inbox("work"), quiet.queue.inbox("other", "err", 2)
    outbox = quiet.queue.outbox("me")
    ids = outbox.notice_many("work", "DO", range(8))
    ids += [outbox.notice("work", "ELSE", 8, delay_s=600)]
    ids += outbox.notice_many("other", "DO", range(9, 12))
    claimed = inbox.claim(5)
    inbox.finish(claimed[:2])
    inbox.fail(claimed[2], "broke")
    quiet.queue.operator("ada").set_state(claimed[3].id, MessageState.DEAD, "why")
    assert other.name == "other"
    request.node.filled = [rows(quiet.database, table) for table in ("message", "event", "inbox")]
    return ids


def test_eavesdrop_sees_what_waits_and_what_is_worked_on(quiet: Quiet, fill: list[str]) -> None:
    inbox = quiet.queue.inbox("work")
    seen = inbox.eavesdrop(10)
    assert [(message.id, message.state) for message in seen] == [
        (fill[4], MessageState.ACK),
        *((one, MessageState.NEW) for one in fill[5:9]),
    ]
    assert [message.id for message in inbox.eavesdrop()] == [fill[4]]
    assert [message.id for message in inbox.eavesdrop(3)] == fill[4:7]


def test_last_gives_the_newest_that_were_handled_well(quiet: Quiet, fill: list[str]) -> None:
    inbox = quiet.queue.inbox("work")
    assert [message.id for message in inbox.last(10)] == fill[:2]
    assert [message.id for message in inbox.last(1)] == [fill[1]]


def test_inboxes_are_counted_by_state(quiet: Quiet, fill: list[str]) -> None:
    other, work = quiet.queue.browser().inboxes()
    assert (work.name, work.on_owner_death, work.max_attempts) == ("work", OnOwnerDeath.AGAIN, 5)
    counts = {MessageState.NEW: 4, MessageState.ACK: 1, MessageState.OK: 2, MessageState.ERR: 1, MessageState.DEAD: 1}
    assert work.counts == counts
    assert work.oldest_new == quiet.queue.browser().message(fill[5]).created_at
    assert (other.name, other.on_owner_death, other.max_attempts) == ("other", OnOwnerDeath.ERR, 2)
    assert other.counts == {MessageState.NEW: 3}


def test_an_empty_inbox_is_counted_too(quiet: Quiet) -> None:
    quiet.queue.inbox("empty")
    [inbox] = quiet.queue.browser().inboxes()
    assert (inbox.name, inbox.counts, inbox.oldest_new) == ("empty", {}, None)


def test_pages_follow_each_other_without_gap_or_overlap(quiet: Quiet, fill: list[str]) -> None:
    browser = quiet.queue.browser()
    found: list[str] = []
    before = None
    while page := browser.page(limit=5, before=before):
        found += [message.id for message in page]
        before = page[-1].seq
    assert found == fill[::-1]


@sweep(
    ("filters", "expected"),
    [
        ({}, list(range(12))),
        ({"inbox": "other"}, [9, 10, 11]),
        ({"state": MessageState.OK}, [0, 1]),
        ({"function": "ELSE"}, [8]),
        ({"inbox": "work", "state": MessageState.NEW, "function": "DO"}, [5, 6, 7]),
        ({"inbox": "nowhere"}, []),
        ({"state": MessageState.ERR, "inbox": "other"}, []),
    ],
)
def test_filters(quiet: Quiet, fill: list[str], filters: dict[str, str], expected: list[int]) -> None:
    page = quiet.queue.browser().page(**filters)  # type: ignore[arg-type]
    assert [message.payload for message in page] == expected[::-1]


def test_filter_by_owner(quiet: Quiet, fill: list[str]) -> None:
    browser = quiet.queue.browser()
    assert [message.payload for message in browser.page(owner=quiet.process.id)] == [4, 3, 2, 1, 0]
    assert browser.page(owner="nobody") == []


def test_following_gives_what_came_after(quiet: Quiet, fill: list[str]) -> None:
    browser = quiet.queue.browser()
    start = browser.message(fill[8]).seq
    assert [message.id for message in browser.newer(start)] == fill[9:]
    assert [message.id for message in browser.newer(start, inbox="work")] == []
    assert [message.id for message in browser.newer(0, limit=2)] == fill[:2]
    assert browser.last_seq() == browser.message(fill[-1]).seq


def test_an_empty_queue(quiet: Quiet) -> None:
    browser = quiet.queue.browser()
    assert (browser.inboxes(), browser.page(), list(browser.newer(0)), browser.last_seq()) == ([], [], [], 0)


@pytest.mark.parametrize("message_id", ["01900000-0000-7000-8000-000000000001", "nonsense", ""])
def test_a_message_that_is_not_there(quiet: Quiet, message_id: str) -> None:
    with pytest.raises(UnknownMessage):
        quiet.queue.browser().message(message_id)


def test_the_tree_holds_all_that_belongs_together(quiet: Quiet) -> None:
    """A request, what its handler sent meanwhile, the answers to that, and its own answer."""
    inbox, deep = quiet.queue.inbox("work"), quiet.queue.inbox("deep")
    outbox, worker = quiet.queue.outbox("me"), quiet.queue.outbox("worker")
    stranger = outbox.send("work", "OTHER")
    root = outbox.send("work", "DO")
    inbox.claim()
    [message] = inbox.claim()
    with handling(Handling(message)):
        asked = [worker.send("deep", "PART", n) for n in range(2)]
    deep.finish(deep.claim(2), "part")
    follow_up = worker.notice("deep", "NEXT", related_id=asked[1])
    inbox.finish(message, "whole")
    browser = quiet.queue.browser()
    tree = browser.tree(root)
    assert [m.function for m in tree] == ["DO", "PART", "PART", "REPLY", "REPLY", "NEXT", "REPLY"]
    for member in (asked[0], follow_up, tree[-1].id):
        assert browser.tree(member) == tree
    assert [m.id for m in browser.tree(stranger)] == [stranger]


def test_a_large_tree_is_cut(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    root = outbox.notice("work", "DO")
    [message] = inbox.claim()
    with handling(Handling(message)):
        outbox.notice_many("work", "PART", range(MOST_RELATIVES + 50))
    assert len(quiet.queue.browser().tree(root)) == MOST_RELATIVES


def test_the_tree_of_nothing(quiet: Quiet) -> None:
    assert quiet.queue.browser().tree(new_id()) == []


def test_events_page_and_follow(quiet: Quiet) -> None:
    operator = quiet.queue.operator("ada")
    quiet.queue.inbox("work")
    sent = [operator.send("work", "DO", n, f"why {n}") for n in range(5)]
    log = quiet.runtime.event_log
    with quiet.database.read() as tx:
        newest = log.page(tx, limit=2)
        rest = log.page(tx, limit=10, before=newest[-1].seq)
        one = log.page(tx, limit=10, subject=sent[2])
        none = log.page(tx, limit=10, kind="process_died")
        after = list(log.after(tx, newest[-1].seq))
        last = log.last_seq(tx)
    assert [event.why for event in newest + rest] == [f"why {n}" for n in (4, 3, 2, 1, 0)]
    assert [(event.subject, event.who, event.data) for event in one] == [
        (sent[2], "ada", {"inbox": "work", "function": "DO"})
    ]
    assert none == []
    assert after == newest[:1]
    assert last == newest[0].seq
