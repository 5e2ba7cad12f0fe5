"""The process of one route: does the work in whichever way it is told, and tells how long that took."""

from __future__ import annotations

import sys
import traceback

from bench.delivery.cause import cause_of
from bench.delivery.contenders.bare import run_bare
from bench.delivery.contenders.by_hand import run_by_hand, run_spark_sink
from bench.delivery.contenders.query_clock import QueryClock
from bench.delivery.contenders.routes import ROUTES, Route, TopicRoute
from bench.delivery.lines import WAYS, Part
from bench.delivery.settings import warm_up
from bench.delivery.way import GUARANTEES, NOT_DETERMINISTIC, Way
from bench.flow.contenders.towpath_flow import connect, run
from bench.flow.contenders.turn import Turn, my_turn, tell
from towpath.flow.plan.plan import check_plan
from towpath.runtime import Runtime


def work(runtime: Runtime, turn: Turn, route: Route, way: Way, source: str) -> None:
    """All of a topic, in one way."""
    flow = route.flow(source, GUARANTEES.get(way, "at-most-once"), deterministic=way not in NOT_DETERMINISTIC)
    match way:
        case Way.PLAIN:
            run_bare(runtime, flow, source)
        case Way.BY_HAND | Way.SPARK_SINK:
            assert isinstance(route, TopicRoute)
            (run_by_hand if way is Way.BY_HAND else run_spark_sink)(runtime, turn, source, route.target)
        case _:
            [stage] = flow.stages()
            is_deterministic = check_plan(runtime.spark(), stage, runtime.settings)
            assert is_deterministic is (way not in NOT_DETERMINISTIC), (
                "the flow decides where it should not, or does not"
            )
            run(runtime, flow)


def timed_s(runtime: Runtime, turn: Turn, route: Route, way: Way, clock: QueryClock) -> float:
    clock.reset()
    work(runtime, turn, route, way, turn.topic)
    took_s = clock.took_s()
    route.check(turn.topic, turn.events)
    return took_s


def get_warm(runtime: Runtime, turn: Turn, route: Route, way: Way) -> None:
    try:
        work(runtime, turn, route, way, turn.warm_up_topic)
        route.check(turn.warm_up_topic, warm_up(turn.events))
    except Exception as error:
        _say(error)
        sys.exit(f"{way} did not get warm")


def _say(error: Exception) -> None:
    """All of it, and at last the line that tells most: who watches repeats the last words."""
    traceback.print_exception(error)
    print(cause_of(f"{type(error).__name__}: {error}"), file=sys.stderr, flush=True)


def main() -> None:
    turn = my_turn()
    with connect(turn) as runtime:
        route = ROUTES[turn.kind](turn, runtime)
        route.fill()
        clock = QueryClock(runtime.spark())
        for way in WAYS[Part(turn.kind)].values():
            get_warm(runtime, turn, route, way)
        print("ready", flush=True)
        for line in sys.stdin:
            try:
                tell([turn.events / timed_s(runtime, turn, route, Way(line.strip()), clock)])
            except Exception as error:
                _say(error)
                tell([])


if __name__ == "__main__":
    main()
