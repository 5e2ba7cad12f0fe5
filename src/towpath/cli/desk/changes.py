"""`towpath desk`: what is done to cases by hand, to some that are named or to all that match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.context import FAILED, UsageError, open_runtime
from towpath.cli.desk.options import CaseFilterOptions, CaseName, Cases, found_cases
from towpath.cli.options import AsJson, Who, Why, spread

if TYPE_CHECKING:
    from towpath.desk.actions.actions import JobKind
    from towpath.desk.actions.service import ActionResult
    from towpath.desk.cases.model import CaseSelection
    from towpath.runtime import Runtime


app = typer.Typer()

Delay = Annotated[
    str | None, typer.Option(metavar="TIME", help="After waiting in a lane for so long, such as 90s, 15m or 12h.")
]


@dataclass(frozen=True)
class ActionOptions:
    """Options of a command that does something to cases, also to all that match; see `spread`."""

    all_: Annotated[bool, typer.Option("--all", help="All cases that match the other options, as a bulk job.")] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --all: name and count the job, and do not begin it.")
    ] = False
    rate: Annotated[
        float | None,
        typer.Option(min=0, metavar="N", help="With --all: at most so many cases a second.", show_default=False),
    ] = None
    name: Annotated[str | None, typer.Option(metavar="NAME", help="With --all: what the job is called.")] = None
    wait: Annotated[bool, typer.Option("--wait", help="With --all: show how far the job is, until it has ended.")] = (
        False
    )
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False
    who: Who = ""
    as_json: AsJson = False

    @property
    def job(self) -> dict[str, Any]:
        """What is said about a job."""
        return {"dry_run": self.dry_run, "rate_s": self.rate, "name": self.name, "wait": self.wait}


def check_asked(names: Sequence[str], given: CaseFilterOptions, doing: ActionOptions) -> None:
    """Either cases are named, or all that match are meant."""
    if names and (doing.all_ or given.is_given):
        raise UsageError("name cases, or say --all with what they have in common; not both")
    if not names and not doing.all_:
        what = "these options match perhaps many: say --all" if given.is_given else "name cases, or say --all"
        raise UsageError(what)
    if not doing.all_ and any(doing.job.values()):
        raise UsageError("--dry-run, --rate, --name and --wait are for --all")


class ActionRequest:
    """What a command was asked: one thing, for cases that are named or for all that match."""

    def __init__(
        self, ctx: typer.Context, names: Sequence[str] | None, given: CaseFilterOptions, doing: ActionOptions, why: str
    ) -> None:
        self.ctx = ctx
        self.names = list(names or ())
        self.given = given
        self.doing = doing
        self.why = why
        check_asked(self.names, given, doing)

    def carry_out(
        self,
        kind: JobKind,
        act: Callable[..., ActionResult],
        *,
        what: str,
        arguments: dict[str, Any] | None = None,
    ) -> None:
        """`act` is given ids, who and why; `arguments` are those of a job of that kind."""
        from towpath.cli.desk.case_views import say_performed
        from towpath.desk.actions.service import MOST_AT_ONCE
        from towpath.desk.cases.model import CaseSelection

        with open_runtime(self.ctx) as runtime:
            if self.doing.all_:
                selection = self.given.selection(runtime.database.now() // 1000)
                self._start(runtime, kind, selection, arguments, **self.doing.job)
                return
            named = found_cases(runtime.desk, self.names)
            ids = [case.id for case in named]
            if len(ids) > MOST_AT_ONCE:
                self._start(runtime, kind, CaseSelection(ids=tuple(ids)), arguments)
                return
            done = act(runtime.desk, ids, who=self.doing.who, why=self.why)
        say_performed(done, what, self.doing.as_json, named)
        if done.refused:
            raise typer.Exit(FAILED)

    def _start(
        self, runtime: Runtime, kind: JobKind, selection: CaseSelection, arguments: dict[str, Any] | None, **job: Any
    ) -> None:
        from towpath.cli.desk.group_views import start_job

        doing = self.doing
        how: dict[str, Any] = {"yes": doing.yes, "as_json": doing.as_json, "arguments": arguments, **job}
        start_job(runtime, kind, selection, doing.who, self.why, **how)


@app.command()
@spread
def replay(
    ctx: typer.Context,
    why: Why,
    given: CaseFilterOptions,
    doing: ActionOptions,
    cases: Cases = None,
    delay: Delay = None,
) -> None:
    """Send records back to the stage in which they have failed, now or after a delay."""
    from towpath.desk.actions.actions import JobKind

    delay_s = read_delay_s(delay)
    ActionRequest(ctx, cases, given, doing, why).carry_out(
        JobKind.REPLAY,
        lambda desk, ids, **by: desk.operate.replay(ids, delay_s=delay_s, **by),
        what="sent back" if delay_s is None else "in a lane",
        arguments={} if delay_s is None else {"delay_s": delay_s},
    )


@app.command()
@spread
def resend(ctx: typer.Context, why: Why, given: CaseFilterOptions, doing: ActionOptions, cases: Cases = None) -> None:
    """Send records to the topic they came from, where they count as new; their cases are closed."""
    from towpath.desk.actions.actions import JobKind

    ActionRequest(ctx, cases, given, doing, why).carry_out(
        JobKind.RESEND,
        lambda desk, ids, **by: desk.operate.resend(ids, **by),
        what="on the way to the source",
    )


@app.command()
@spread
def abandon(ctx: typer.Context, why: Why, given: CaseFilterOptions, doing: ActionOptions, cases: Cases = None) -> None:
    """Dismiss records for good, in your name; a gap is acknowledged by that. Bodies are let go."""
    from towpath.desk.actions.actions import JobKind

    request = ActionRequest(ctx, cases, given, doing, why)
    if not doing.all_ and not doing.yes:
        _ask_to_abandon(len(cases or ()))
    request.carry_out(JobKind.ABANDON, lambda desk, ids, **by: desk.operate.abandon(ids, **by), what="abandoned")


@app.command("open")
@spread
def open_(ctx: typer.Context, why: Why, given: CaseFilterOptions, doing: ActionOptions, cases: Cases = None) -> None:
    """Take back what a rule has ignored, or what is parked behind another record of its key."""
    from towpath.desk.actions.actions import JobKind

    ActionRequest(ctx, cases, given, doing, why).carry_out(
        JobKind.OPEN, lambda desk, ids, **by: desk.operate.open(ids, **by), what="open"
    )


@app.command()
@spread
def assign(
    ctx: typer.Context,
    why: Why,
    given: CaseFilterOptions,
    doing: ActionOptions,
    cases: Cases = None,
    to: Annotated[str | None, typer.Option(metavar="NAME", help="Who is to look at them; nobody if not given.")] = None,
) -> None:
    """Give cases to a person."""
    from towpath.desk.actions.actions import JobKind

    ActionRequest(ctx, cases, given, doing, why).carry_out(
        JobKind.ASSIGN,
        lambda desk, ids, **by: desk.operate.assign(ids, to, **by),
        what=f"for {to}" if to else "for nobody in particular",
        arguments={"assignee": to},
    )


@app.command()
def recall(
    ctx: typer.Context,
    why: Why,
    cases: Annotated[list[str], typer.Argument(metavar="CASE...", show_default=False, help="Cases.")],
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Undo replays: what still waits in its lane, or lies unread in its flow's re-entry topic."""
    from towpath.cli.desk.case_views import say_performed

    with open_runtime(ctx) as runtime:
        desk = runtime.desk
        named = found_cases(desk, cases)
        done = desk.operate.recall([case.id for case in named], who=who, why=why)
    say_performed(done, "back on the desk", as_json, named)
    if done.refused:
        raise typer.Exit(FAILED)


@app.command()
def note(
    ctx: typer.Context,
    case: CaseName,
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False, help="What is to be remembered.")],
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Keep a remark with a case."""
    from towpath.cli.output import print_json

    with open_runtime(ctx) as runtime:
        found = runtime.desk.cases.find(case)
        runtime.desk.operate.note(found.id, text, who=who)
    if as_json:
        print_json({"id": found.id})
    else:
        typer.echo(f"noted with case {found.seq}")


def read_delay_s(text: str | None) -> float | None:
    """The option `--delay`."""
    from towpath.cli.options import NEVER, parse_age_s

    if text is None:
        return None
    seconds = parse_age_s(text, "--delay")
    if seconds == NEVER:
        raise UsageError("--delay never: then leave it where it is")
    return float(seconds)


def _ask_to_abandon(cases: int) -> None:
    from towpath.cli.desk.case_views import counted
    from towpath.cli.options import confirm

    confirm(f"Abandon {counted(cases)}? The bodies are let go.", "nothing was abandoned")
