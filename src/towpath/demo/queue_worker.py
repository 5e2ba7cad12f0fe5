"""One worker of the queue demo: `python -m towpath.demo.queue_worker DIRECTORY NAME`.

Squares numbers, and notes each message in its journal when the work is done but the queue does not know it yet. Told to
`hold`, it stops at just that point, so that a kill finds it there. It ends when its standard input does, which happens
also when the demo itself is killed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from towpath.demo.queue_demo import FUNCTION, HOLD, HOLDING, INBOX, READY, THREADS, WORK_S, journal_of, settings_of
from towpath.queue import Message
from towpath.runtime import connect

EXIT_CODE_LEFT_ALONE = 1


def main(directory: Path, name: str) -> None:
    journal = os.open(journal_of(directory, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    hold = threading.Event()
    with connect(**settings_of(directory, name)) as runtime:
        worker = runtime.queue.asynchronous(INBOX, workers=THREADS)

        @worker.on(FUNCTION)
        def square(message: Message) -> Any:
            time.sleep(WORK_S)
            os.write(journal, f"{message.id}\n".encode())
            if hold.is_set():
                _say(f"{HOLDING} {message.id}")
                threading.Event().wait()  # for the kill
            return {"n": message.payload["n"], "square": message.payload["n"] ** 2}

        worker.start()
        _say(READY)
        for line in sys.stdin:
            if line.strip() == HOLD:
                hold.set()
        if hold.is_set():
            os._exit(EXIT_CODE_LEFT_ALONE)  # the kill will not come, and handlers wait for it
        worker.stop()


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
