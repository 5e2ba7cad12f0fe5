"""What children of tests of the end of uploads do: `python -m tests.recovery.closing_acts '{…}'`."""

from __future__ import annotations

from tests.integration.test_upload_flow import run, trips_flow
from tests.support.upload_scene import Scene, connected
from tests.support.uploads import received

from towpath.testing.processes import leave_with_parent, order


def main() -> None:
    leave_with_parent()
    told = order()
    with connected(told["sections"]) as runtime:
        if told["act"] == "close":
            Scene.begun(runtime).settle()
        elif told["act"] == "run":
            run(runtime, trips_flow())
        else:
            for query in ("seen", "all"):
                received(runtime, told["upload"], query, most_rows=2)


if __name__ == "__main__":
    main()
