"""`towpath desk`: what is done to cases by hand, to some that are named or to all that match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.context import FAILED, UsageError, open_runtime
from towpath.cli.desk.options import CaseFilterOptions, CaseName, Cases, found_cases
from towpath.cli.options import NEVER, AsJson, Who, Why, Yes, confirm, parse_age_s, spread
from towpath.cli.output import counted, print_done

if TYPE_CHECKING:
    from towpath.desk.actions.service import ActionResult


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
    yes: Yes = False
    who: Who = ""
    as_json: AsJson = False

    @property
    def has_job_options(self) -> bool:
        """Whether an option was given that only a bulk job has."""
        return any((self.dry_run, self.rate, self.name, self.wait))


def check_asked(names: Sequence[str], given: CaseFilterOptions, doing: ActionOptions) -> None:
    """Refuse options that name cases and also describe them, or do neither."""
    if names and (doing.all_ or given.is_given):
        raise UsageError("name cases, or say --all with what they have in common; not both")
    if not names and not doing.all_:
        what = "these options match perhaps many: say --all" if given.is_given else "name cases, or say --all"
        raise UsageError(what)
    if not doing.all_ and doing.has_job_options:
        raise UsageError("--dry-run, --rate, --name and --wait are for --all")


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
    delay_s = read_delay_s(delay)
    carry_out(
        ctx,
        "replay",
        cases,
        given,
        doing=doing,
        why=why,
        what="sent back" if delay_s is None else "in a lane",
        arguments={} if delay_s is None else {"delay_s": delay_s},
    )


@app.command()
@spread
def resend(ctx: typer.Context, why: Why, given: CaseFilterOptions, doing: ActionOptions, cases: Cases = None) -> None:
    """Send records to the topic they came from, where they count as new; their cases are closed."""
    carry_out(ctx, "resend", cases, given, doing=doing, why=why, what="on the way to the source")


@app.command()
@spread
def abandon(ctx: typer.Context, why: Why, given: CaseFilterOptions, doing: ActionOptions, cases: Cases = None) -> None:
    """Dismiss records for good, in your name; a gap is acknowledged by that. Bodies are let go."""
    check_asked(cases or (), given, doing)
    if not doing.all_ and not doing.yes:
        confirm(f"Abandon {counted(len(cases or ()), 'case')}? The bodies are let go.", "nothing was abandoned")
    carry_out(ctx, "abandon", cases, given, doing=doing, why=why, what="abandoned")


@app.command("open")
@spread
def open_(ctx: typer.Context, why: Why, given: CaseFilterOptions, doing: ActionOptions, cases: Cases = None) -> None:
    """Take back what a rule has ignored, or what is parked behind another record of its key."""
    carry_out(ctx, "open", cases, given, doing=doing, why=why, what="open")


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
    carry_out(
        ctx,
        "assign",
        cases,
        given,
        doing=doing,
        why=why,
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
    with open_runtime(ctx) as runtime:
        found = runtime.desk.cases.find(case)
        runtime.desk.operate.note(found.id, text, who=who)
    print_done({"id": found.id}, f"noted with case {found.seq}", as_json)


def carry_out(
    ctx: typer.Context,
    kind: str,
    names: Sequence[str] | None,
    given: CaseFilterOptions,
    *,
    doing: ActionOptions,
    why: str,
    what: str,
    arguments: dict[str, Any] | None = None,
) -> None:
    """Do one thing to the cases that are named, or to all that match, as a bulk job.

    `kind` names the job and the method of `CaseActions` that does the same to named cases, with the same arguments.
    """
    from towpath.cli.desk.case_views import say_performed
    from towpath.cli.desk.group_views import start_job
    from towpath.desk.actions.actions import JobKind
    from towpath.desk.actions.service import MOST_AT_ONCE
    from towpath.desk.cases.model import CaseSelection

    check_asked(names or (), given, doing)
    with open_runtime(ctx) as runtime:
        named = found_cases(runtime.desk, names or ())
        ids = tuple(case.id for case in named)
        if doing.all_ or len(ids) > MOST_AT_ONCE:
            selection = given.selection(runtime.database.now() // 1000) if doing.all_ else CaseSelection(ids=ids)
            start_job(runtime, JobKind(kind), selection, doing, why=why, arguments=arguments)
            return
        act: Callable[..., ActionResult] = getattr(runtime.desk.operate, kind)
        done = act(ids, who=doing.who, why=why, **(arguments or {}))
    say_performed(done, what, doing.as_json, named)
    if done.refused:
        raise typer.Exit(FAILED)


def read_delay_s(text: str | None) -> float | None:
    """The option `--delay`."""
    if text is None:
        return None
    seconds = parse_age_s(text, "--delay")
    if seconds == NEVER:
        raise UsageError("--delay never: then leave it where it is")
    return float(seconds)
