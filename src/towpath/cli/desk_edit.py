"""`towpath desk edit`: change the copy of a record that goes out next."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.desk_options import CaseName
from towpath.cli.failures import UsageError
from towpath.cli.given import open_runtime
from towpath.cli.options import AsJson, Who, Why
from towpath.cli.output import print_json

if TYPE_CHECKING:
    from towpath.desk.editing import Edited
    from towpath.desk.looking import CaseView
    from towpath.flow.flow import Flow

app = typer.Typer()

EditNumber = Annotated[int, typer.Argument(metavar="EDIT", min=1, show_default=False, help="The number of the edit.")]


@app.command()
def edit(
    ctx: typer.Context,
    case: CaseName,
    why: Why,
    value: Annotated[
        str | None, typer.Option(metavar="JSON", help="The whole new body: JSON, `-` (standard input) or `@FILE`.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=JSON", help="Change one field, such as city='\"Bonn\"'; several times."),
    ] = None,
    original: Annotated[
        bool, typer.Option("--original", help="Take all edits back: the record itself goes out next.")
    ] = False,
    flow: Annotated[
        str | None,
        typer.Option(
            metavar="FLOW",
            help="Check against the JSON Schema of this flow, MODULE:FLOW or FILE.py; expectations are not checked.",
        ),
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="Send it back at once.")] = False,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Change the body that goes out next; the record itself is kept. Without options it opens your editor."""
    ways = sum((value is not None, bool(set_), original))
    if ways > 1:
        raise UsageError("--value, --set and --original: one of them")
    if ways == 0 and not sys.stdin.isatty():
        raise UsageError("say what to change: --value, --set or --original")
    code = None if flow is None else _flow(flow)
    with open_runtime(ctx) as runtime:
        desk = runtime.desk
        view = desk.cases.show(desk.cases.find(case).id)
        if original:
            desk.edits.restore(view.case.id, seen=view.seen, who=who, why=why)
            done = None
        else:
            with changed_body(view.case.seq, view.value, value, set_) as body:
                done = desk.edits.edit(view.case.id, body, seen=view.seen, who=who, why=why, flow=code)
        after = desk.cases.show(view.case.id)
        if replay and not (done is not None and done.is_proposed):
            desk.operate.replay([view.case.id], who=who, why=why)
    _say(after, done, as_json, replay)


@app.command()
def agree(
    ctx: typer.Context, case: CaseName, edit: EditNumber, why: Why, who: Who = "", as_json: AsJson = False
) -> None:
    """As a second person, let a proposed edit go out next."""
    with open_runtime(ctx) as runtime:
        found = runtime.desk.cases.find(case)
        runtime.desk.edits.agree(found.id, edit, who=who, why=why)
    _say_decided(found.id, found.seq, edit, "applied", as_json)


@app.command()
def refuse(
    ctx: typer.Context, case: CaseName, edit: EditNumber, why: Why, who: Who = "", as_json: AsJson = False
) -> None:
    """Do not let a proposed edit go out."""
    with open_runtime(ctx) as runtime:
        found = runtime.desk.cases.find(case)
        runtime.desk.edits.refuse(found.id, edit, who=who, why=why)
    _say_decided(found.id, found.seq, edit, "refused", as_json)


def changed_body(
    case: int, body: bytes | None, value: str | None, set_: list[str] | None
) -> AbstractContextManager[bytes]:
    """The new body of a case: the whole one, or the old one with changes, which the editor makes without options."""
    from towpath.cli.editor import edited_text
    from towpath.desk.editing_fields import with_fields

    if value is not None:
        return nullcontext(_read(value))
    if body is None:
        from towpath.errors import BadEdit

        raise BadEdit(f"case {case} has no body: there is nothing to change")
    if set_:
        return nullcontext(with_fields(body, [_pair(each) for each in set_]))
    return edited_text(body)


def _read(given: str) -> bytes:
    if given == "-":
        return sys.stdin.buffer.read()
    if not given.startswith("@"):
        return given.encode()
    try:
        with open(given[1:], "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"cannot read {given[1:]}: {error.strerror}") from error


def _pair(text: str) -> tuple[str, str]:
    path, sign, value = text.partition("=")
    if not sign or not path:
        raise UsageError(f"--set {text!r} is not PATH=JSON")
    return path, value


def _flow(target: str) -> Flow:
    from towpath.flow.flow_file import find_flow

    return find_flow(target).flow


def _say(view: CaseView, done: Edited | None, as_json: bool, replay: bool) -> None:
    from towpath.cli.desk_show import print_changes

    case = view.case
    shown = next((each for each in view.edits if done is not None and each.edit.edit == done.edit.edit), None)
    if as_json:
        changes = [change._asdict() for change in shown.changes] if shown else []
        item: dict[str, Any] = {"id": case.id, "edit": case.edit if done is None else done.edit.edit}
        print_json(item | {"state": "applied" if done is None else done.edit.state, "changes": changes})
        return
    if done is None:
        typer.echo(f"the record itself goes out next of case {case.seq}")
        return
    print_changes(shown.changes if shown else ())
    typer.echo(f"edit {done.edit.edit} of case {case.seq}: {done.checked}")
    if done.is_proposed:
        typer.echo(f"another person has to agree: towpath desk agree {case.seq} {done.edit.edit} --why …")
    elif replay:
        typer.echo(f"sent back: case {case.seq}")
    else:
        typer.echo(f"it goes out when you say so: towpath desk replay {case.seq} --why …")


def _say_decided(id: str, seq: int, edit: int, what: str, as_json: bool) -> None:
    if as_json:
        print_json({"id": id, "edit": edit, "state": what})
    else:
        typer.echo(f"edit {edit} of case {seq} is {what}")
