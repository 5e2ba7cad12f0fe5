"""Many threads of many processes claim from one inbox: each message goes to exactly one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.support.programs import run_together
from tests.support.tables import rows

from towpath.runtime import Runtime

COUNT = 2_000
THREADS = 3

PREPARE = """
random.seed(argument)
claimed = []
runtime = towpath.connect(database=database, process={"lease_s": 600, "heartbeat_s": 5})
inbox = runtime.queue.inbox("work")
runtime.process()

def drain():
    while messages := inbox.claim(random.randint(1, 40)):
        claimed.append([m.id for m in messages])
        half = random.randint(0, len(messages))
        inbox.finish(messages[:half])
        inbox.finish(messages[half:])
"""
PROGRAM = f"""
threads = [threading.Thread(target=drain) for _ in range({THREADS})]
for thread in threads: thread.start()
for thread in threads: thread.join()
runtime.close()
print(json.dumps(claimed))
"""


def test_each_message_is_claimed_exactly_once(
    make_runtime: Callable[..., Runtime], database_settings: dict[str, Any]
) -> None:
    runtime = make_runtime()
    runtime.queue.inbox("work")
    ids = runtime.queue.outbox("me").notice_many("work", "DO", range(COUNT))
    batches = run_together(PROGRAM, database_settings, [1, 2, 3], prepare=PREPARE)
    claimed = Counter(one for process in batches for batch in process for one in batch)
    assert claimed == Counter(ids)
    order = {one: place for place, one in enumerate(ids)}
    assert all([order[one] for one in batch] == sorted(order[one] for one in batch) for p in batches for batch in p)
    found = rows(runtime.database, "message")
    assert [(row["state"], row["attempts"]) for row in found] == [("OK", 1)] * COUNT
    assert sum(1 for process in batches if process) >= 2, "only one process got any; the storm was none"
