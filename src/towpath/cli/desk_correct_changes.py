"""`towpath desk correct`: learning, and turning rules on and off."""

from __future__ import annotations

from typing import Annotated

import typer

from towpath.cli.desk_changes import Doing, Request
from towpath.cli.desk_correct import FlowName, RuleNumber, print_rules, print_touched
from towpath.cli.desk_options import Cases, Filter
from towpath.cli.given import open_runtime
from towpath.cli.option_groups import spread
from towpath.cli.options import AsJson, Who, Why
from towpath.cli.output import print_json

app = typer.Typer()


@app.command()
def learn(
    ctx: typer.Context,
    flow: FlowName,
    most: Annotated[
        int, typer.Option("--records", min=1, metavar="N", help="Go through at most so many offsets.")
    ] = 1_000_000,
    error_topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="The error topic, where the flow has named it itself.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count what has come since the last time, on Spark: records that a flow has taken, and operators' edits."""
    from towpath.desk.corrections.corrections_json import rule_item

    with open_runtime(ctx) as runtime:
        found = runtime.corrections.learn(flow, error_topic=error_topic, most_offsets=most)
    if as_json:
        print_json(
            {
                "flow": flow,
                "offsets": found.offsets,
                "edits": found.edits,
                "right": found.right,
                "wrong": found.wrong,
                "rules": [rule_item(rule) for rule in found.rules],
                "is_full": found.is_full,
            }
        )
        return
    typer.echo(f"{flow}: {found.offsets} offsets and {found.edits} edits counted")
    if found.is_full:
        typer.echo("There is no room for more counts: nothing new is learned for this flow.")
    if found.rules:
        typer.echo("\nNew rules, which only suggest until you turn them on: towpath desk correct on RULE --why …")
        print_rules(list(found.rules))


@app.command("apply")
@spread
def apply_(
    ctx: typer.Context,
    why: Why,
    given: Filter,
    doing: Doing,
    cases: Cases = None,
    rule: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="A rule that counts as on for this, though it is not.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave them on the desk; otherwise they are sent back.")] = False,
) -> None:
    """Change the records of open cases as rules say that are on, above their thresholds, and send them back."""
    from towpath.desk.job_state import JobKind

    arguments = {"rule": rule, "replays": not keep}
    Request(ctx, cases, given, doing, why).carry_out(
        JobKind.CORRECT,
        lambda desk, ids, **by: desk.operate.correct(ids, rule=rule, replays=not keep, **by),
        what="corrected" if keep else "corrected and sent back",
        arguments=arguments,
    )


@app.command()
def on(
    ctx: typer.Context,
    rule: RuleNumber,
    why: Why,
    support: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Records that must say the same; as before if not given.")
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(min=0.5, max=1.0, metavar="SHARE", help="How sure it has to be; as before if not given."),
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Let a rule change records without asking, above its thresholds, where the policy is `correct`."""
    from towpath.desk.corrections.corrections_json import rule_item

    with open_runtime(ctx) as runtime:
        found = runtime.corrections.turn_on(rule, who=who, why=why, support=support, confidence=confidence)
    if as_json:
        print_json(rule_item(found))
    else:
        thresholds = f"{found.support} records, confidence {found.confidence:g}"
        typer.echo(f"rule {rule} is on ({found.text}; above {thresholds})")


@app.command()
def off(ctx: typer.Context, rule: RuleNumber, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let a rule neither change nor suggest anything."""
    from towpath.desk.corrections.corrections_json import rule_item

    with open_runtime(ctx) as runtime:
        found = runtime.corrections.turn_off(rule, who=who, why=why)
    if as_json:
        print_json(rule_item(found))
    else:
        typer.echo(f"rule {rule} is off ({found.text})")


@app.command()
def revert(ctx: typer.Context, rule: RuleNumber, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Do not believe a rule any more: list all that it has changed, and take back what has not gone out yet."""
    from towpath.desk.corrections.corrections_json import rule_item, touched_item

    with open_runtime(ctx) as runtime:
        found = runtime.corrections.revert(rule, who=who, why=why)
    if as_json:
        touched = [touched_item(one) for one in found.touched]
        print_json({**rule_item(found.rule), "touched": touched, "taken_back": list(found.taken_back)})
        return
    typer.echo(f"rule {rule} is reverted ({found.rule.text}); it has changed {len(found.touched)} fields")
    if found.touched:
        print_touched(list(found.touched))
    if found.taken_back:
        typer.echo(f"taken back before it went out: {len(found.taken_back)}")
