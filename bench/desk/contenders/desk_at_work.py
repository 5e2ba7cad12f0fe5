"""All that `towpath desk run` runs, until nobody watches any more."""

from __future__ import annotations

from bench.desk.contenders.connected import connected, my_turn
from bench.flow.contenders.turn import wait_for_end, wait_for_start

GRACE_S = 10.0


def main() -> None:
    with connected(my_turn()) as runtime:
        services = runtime.desk_services()
        services.start()
        wait_for_start()
        wait_for_end()
        services.stop(GRACE_S)


if __name__ == "__main__":
    main()
