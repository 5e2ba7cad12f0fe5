"""A host with default settings, until it is killed or its input ends."""

from __future__ import annotations

import towpath
from bench.actors.cast import CAST, Lingerer
from bench.actors.contenders.contract import HostOrder, told, wait_for_end, wait_for_start


def main() -> None:
    given = HostOrder(**told())  # type: ignore[arg-type]
    Lingerer.process = given.name
    with towpath.connect(given.url) as runtime:
        runtime.actors.register(*CAST)
        host = runtime.actors.host()
        wait_for_start()
        host.start()
        wait_for_end()
        host.stop()


if __name__ == "__main__":
    main()
