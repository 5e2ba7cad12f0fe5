"""`towpath queue`: changes by hand. Each leaves an event with who, what and why."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from towpath.cli.failures import FAILED, UsageError
from towpath.cli.given import open_runtime
from towpath.cli.options import AsJson, MessageId, Who, Why
from towpath.cli.output import print_json

app = typer.Typer()

Payload = Annotated[
    str, typer.Argument(metavar="PAYLOAD", show_default=False, help="JSON; `-` reads standard input, `@FILE` a file.")
]
Headers = Annotated[
    list[str] | None, typer.Option("--header", metavar="KEY=VALUE", help="A header; may be given several times.")
]


@app.command()
def send(
    ctx: typer.Context,
    inbox: Annotated[str, typer.Argument(metavar="INBOX", show_default=False, help="Where to.")],
    function: Annotated[str, typer.Argument(metavar="FUNCTION", show_default=False, help="What to do.")],
    why: Why,
    payload: Payload = "null",
    header: Headers = None,
    delay: Annotated[float | None, typer.Option(metavar="SECONDS", help="Deliver it after this time.")] = None,
    ttl: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Let it die if nobody takes it in this time.")
    ] = None,
    reply: Annotated[bool, typer.Option("--reply", help="Expect an answer.")] = False,
    wait: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Expect an answer and wait so long for it.")
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Send a message, and print its id."""
    value, headers = read_payload(payload), read_headers(header)
    with open_runtime(ctx) as runtime:
        message_id = runtime.queue.operator(who).send(
            inbox,
            function,
            value,
            why,
            headers=headers,
            delay_s=delay,
            ttl_s=ttl,
            reply=reply or wait is not None,
        )
        if wait is None:
            _say_done(message_id, f"sent {message_id}", as_json)
            return
        answer = runtime.queue.outbox("operator").wait(message_id, wait)
    if as_json:
        print_json({"id": message_id, "answer": {"state": answer.state, "payload": answer.payload}})
    else:
        from towpath.cli.message_view import print_answer

        print_answer(message_id, answer)
    if not answer.is_ok:
        raise typer.Exit(FAILED)


@app.command()
def reply(
    ctx: typer.Context, message: MessageId, payload: Payload, why: Why, who: Who = "", as_json: AsJson = False
) -> None:
    """Answer a request in its handler's place."""
    value = read_payload(payload)
    with open_runtime(ctx) as runtime:
        runtime.queue.operator(who).reply(message, value, why)
    _say_done(message, f"answered {message}", as_json)


@app.command()
def edit(
    ctx: typer.Context,
    message: MessageId,
    why: Why,
    payload: Annotated[
        str | None, typer.Option(metavar="PAYLOAD", help="The new payload: JSON, `-` or `@FILE`.")
    ] = None,
    header: Headers = None,
    drop_header: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="A header to take away; may be given several times.")
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Change the payload or headers of a message that waits. Without options it opens your editor."""
    by_editor = payload is None and header is None and drop_header is None
    if by_editor and not sys.stdin.isatty():
        raise UsageError("say what to change: --payload, --header or --drop-header")
    value: Any = ... if payload is None else read_payload(payload)
    changed = read_headers(header)
    with open_runtime(ctx) as runtime:
        operator = runtime.queue.operator(who)
        seen = runtime.queue.browser().message(message)
        headers = {k: v for k, v in {**seen.headers, **changed}.items() if k not in (drop_header or ())}
        if by_editor:
            from towpath.cli.editor import edited

            with edited(seen) as (value, headers):
                operator.edit(seen.id, why, payload=value, headers=headers, seen=seen)
        else:
            operator.edit(seen.id, why, payload=value, headers=headers, seen=seen)
    _say_done(seen.id, f"changed {seen.id}", as_json)


@app.command("set-state")
def set_state(
    ctx: typer.Context,
    message: MessageId,
    state: Annotated[
        str,
        typer.Argument(
            metavar="STATE", show_default=False, help="NEW (again), DEAD (give up), ERR (failed) or OK (done)."
        ),
    ],
    why: Why,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Move a message to another state, if its own allows that."""
    from towpath.queue import MessageState

    wanted = MessageState.named(state)
    with open_runtime(ctx) as runtime:
        runtime.queue.operator(who).set_state(message, wanted, why)
    _say_done(message, f"{message} is {wanted}", as_json)


@app.command()
def reap(ctx: typer.Context, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let messages die now whose time to live ran out. Running processes do it by themselves."""
    with open_runtime(ctx) as runtime:
        count = runtime.queue.operator(who).reap(why)
    if as_json:
        print_json({"expired": count})
    else:
        typer.echo(f"{count:,} messages had outlived their time and are DEAD now")


@app.command()
def clean(ctx: typer.Context, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Delete now what is past its retention time. Running processes do it by themselves."""
    with open_runtime(ctx) as runtime:
        deleted = runtime.queue.operator(who).clean(why)
    if as_json:
        print_json({"deleted": deleted})
    else:
        counts = ", ".join(f"{count:,} {name.upper() if len(name) < 5 else name}" for name, count in deleted.items())
        typer.echo(f"deleted: {counts}")


def _say_done(message_id: str, text: str, as_json: bool) -> None:
    if as_json:
        print_json({"id": message_id})
    else:
        typer.echo(text)


def read_payload(given: str) -> Any:
    """JSON from the command line, `-` or `@FILE`."""
    from towpath.errors import BadPayload
    from towpath.queue.payload import from_json

    try:
        if given == "-":
            given = sys.stdin.buffer.read().decode()
        elif given.startswith("@"):
            with open(given[1:], "rb") as file:
                given = file.read().decode()
    except UnicodeDecodeError as error:
        raise BadPayload(f"the payload is not UTF-8 text: {error}") from error
    except OSError as error:
        raise UsageError(f"cannot read {given[1:]}: {error.strerror}") from error
    return from_json(given)


def read_headers(given: list[str] | None) -> dict[str, str]:
    """Those of the options `--header`."""
    headers: dict[str, str] = {}
    for pair in given or ():
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"--header {pair!r} is not KEY=VALUE")
        headers[key] = value
    return headers
