"""`python -m examples.harvest`: the whole example, or one thing of it."""

from __future__ import annotations

import argparse
import getpass
import sys
from pathlib import Path

from examples.harvest import show
from examples.harvest.home import DEFAULT, Home, WebPlace
from examples.harvest.search import search
from examples.harvest.show import say
from examples.harvest.station import begin_to_watch, let_go, opened
from examples.harvest.web.server import SmallWeb
from examples.harvest.web.sites import FIRST_DAY, SECOND_DAY, small_web
from examples.harvest.workflow import HARVEST, PARTS, Begin, Harvest, Plan

from towpath.errors import TowpathError
from towpath.queue.states import MessageState
from towpath.runtime import Runtime

SHOWN = ("harvest", "whole", "recrawl", *PARTS)


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 1 when a run has failed."""
    given = _parser().parse_args(arguments)
    home = Home(given.home.absolute())
    database = None if given.database is None else {"url": given.database}
    try:
        match given.what:
            case "search":
                if not home.search_file.exists():
                    raise TowpathError(f"nothing was loaded in {home.path} yet; run python -m examples.harvest")
                say(show.hits(search(home.search_file, " ".join(given.words))))
                return 0
            case "sets" | "delete" | "answer":
                with opened(home, database) as runtime:
                    return _ask(runtime, given)
        with opened(home, database) as runtime, _web(home) as web:
            return _run(runtime, web, home, given)
    except TowpathError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _web(home: Home) -> SmallWeb:
    """At the same address each time: a run that was cut off goes on when this program is started again."""
    known = home.read_web()
    try:
        web = SmallWeb(port=0 if known is None else known.port, day=FIRST_DAY if known is None else known.day)
    except OSError as error:
        raise TowpathError(
            f"the web cannot be served at port {known and known.port}: {error.strerror}. Another harvest may be at "
            f"work in {home.path}: wait for it, or take another --home"
        ) from error
    home.keep_web(WebPlace(int(web.address.rpartition(":")[2]), web.day))
    return web


def _run(runtime: Runtime, web: SmallWeb, home: Home, given: argparse.Namespace) -> int:
    host = runtime.actors.host()
    host.start()
    begin_to_watch(runtime)
    try:
        _go_on(runtime, web)
        for day, parts in _acts(given, runtime):
            web.day = day
            home.keep_web(WebPlace(int(web.address.rpartition(":")[2]), day))
            if not _act(runtime, web, home, given, parts):
                return 1
    finally:
        let_go(runtime)
        host.stop()
    if home.search_file.exists():
        say(f"\n{show.documents(home)}\n")
        say("search it: python -m examples.harvest search lock keeper")
    return 0


def _go_on(runtime: Runtime, web: SmallWeb) -> None:
    """What was cut off the last time comes to its end first."""
    for instance in runtime.actors.instances(actor=HARVEST):
        if instance.is_live and instance.run_id is not None:
            say(f"day {web.day}: a run goes on that was cut off in {instance.step}")
            show.follow(runtime, instance.run_id)


def _acts(given: argparse.Namespace, runtime: Runtime) -> list[tuple[int, tuple[str, ...]]]:
    """Days and parts, one after the other."""
    if given.what == "harvest":
        return [(FIRST_DAY, tuple(PARTS)), (SECOND_DAY, tuple(PARTS))]
    is_first = not runtime.data_sets.list(kind="crawl", limit=1)
    day = given.day or (FIRST_DAY if is_first else SECOND_DAY)
    return [(day, (given.what,) if given.what in PARTS else tuple(PARTS))]


def _act(runtime: Runtime, web: SmallWeb, home: Home, given: argparse.Namespace, parts: tuple[str, ...]) -> bool:
    """One run of the workflow; whether it came to a good end."""
    sites = tuple(given.site or web.sites)
    plan = Plan(str(home.path), sites, dict.fromkeys(web.sites, web.address), parts, asks_before=tuple(given.ask or ()))
    instance = given.site[0] if given.site else "main"
    say(f"day {web.day}: {', '.join(parts)} of {', '.join(sites)}")
    run_id = runtime.actors.start(Harvest, Begin(plan), instance=instance, wants_answer=True)
    ended = show.follow(runtime, run_id)
    if ended.state is not MessageState.OK:
        sys.stderr.write(f"the run has failed: {ended.reason}\n")
        return False
    _tell(runtime.actors.outbox().wait(run_id, timeout_s=30).payload)
    return True


def _tell(made: dict[str, dict[str, object]]) -> None:
    """What came of each part."""
    for part, result in made.items():
        if part == "crawl":
            for site, facts in result.items():
                assert isinstance(facts, dict)  # noqa: S101 - as `crawl` returns it
                told = ", ".join(
                    f"{count} {name}" for name, count in facts.items() if name not in ("data_set", "pages")
                )
                say(f"  crawl    {site:<13} {facts['pages']:>3} pages: {told or 'robots are not welcome'}")
        else:
            say(f"  {part:<8} {result.get('why') or str(result['documents']) + ' documents'}")


def _ask(runtime: Runtime, given: argparse.Namespace) -> int:
    match given.what:
        case "sets":
            say(show.data_sets(runtime.data_sets.list()))
        case "delete":
            for id in given.words:
                deleted = runtime.data_sets.delete(id, who=getpass.getuser(), why="by hand, from a terminal")
                say(f"{deleted.id} is {deleted.state}")
        case "answer":
            asked = show.questions(runtime)
            if not asked or given.words not in (["yes"], ["no"]):
                sys.stderr.write("nobody has asked anything\n" if not asked else "answer yes or no\n")
                return 1
            operator = runtime.queue.operator(getpass.getuser())
            operator.reply(asked[0][0], given.words == ["yes"], "from a terminal")
            say(f"{asked[0][1]}: {given.words[0]}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.harvest",
        description="Crawl a small web, make documents of its pages, load them into a table, and search it.",
        epilog="Without WHAT: the whole workflow on the first day of the web, and again on the second.",
    )
    parser.add_argument(
        "what",
        metavar="WHAT",
        nargs="?",
        default="harvest",
        choices=[*SHOWN, "search", "sets", "delete", "answer"],
        help=f"whole or recrawl (all parts once), {', '.join(PARTS)} (one part), search WORDS, sets, delete ID, "
        "answer yes or no",
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, default=DEFAULT, help="where everything is kept (%(default)s)")
    parser.add_argument("--site", action="append", choices=sorted(small_web()), help="only this site; may be repeated")
    parser.add_argument(
        "--ask", action="append", choices=list(PARTS), help="wait for a person before this part; may be repeated"
    )
    parser.add_argument("--day", type=int, choices=(FIRST_DAY, SECOND_DAY), help="of the web that is served")
    parser.add_argument("--database", help="a database elsewhere, such as postgresql://user@host/name")
    return parser


if __name__ == "__main__":
    sys.exit(main())
