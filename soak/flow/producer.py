"""Fills the topic: `python -m soak.flow.producer URL TOPIC RECORDS`."""

from __future__ import annotations

import sys
import tempfile

import towpath
from towpath.log import NewRecord

PARTITIONS = 2
AT_ONCE = 20_000
VALUE = b'{"type":"page.viewed","user":"user-%d","at":%d,"url":"/section%d/page%d","from":"https://example.org/start"}'


def main() -> None:
    url, topic, records = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with (
        tempfile.TemporaryDirectory() as home,
        towpath.connect(database={"url": f"sqlite:///{home}/p.db"}, log={"url": url}) as runtime,
    ):
        for first in range(0, records, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, records))
            runtime.log.append(
                topic,
                [NewRecord(VALUE % (n % 5_000, n, n % 7, n % 1_000), partition=n % PARTITIONS) for n in numbers],
            )


if __name__ == "__main__":
    main()
