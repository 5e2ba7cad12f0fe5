"""`towpath desk correct`: learned corrections: looking at them, learning, and turning rules on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import UsageError, open_runtime
from towpath.cli.desk.changes import ActionOptions, carry_out
from towpath.cli.desk.options import CaseFilterOptions, CaseName, Cases, Flow, Masked, masks_of
from towpath.cli.flows.commands import FlowName
from towpath.cli.options import AsJson, Who, Why, spread
from towpath.cli.output import Column, print_done, print_fields, print_json, print_table

if TYPE_CHECKING:
    from towpath.desk.corrections.model import CorrectionRule, RuleState
    from towpath.desk.corrections.proposer import Suggestion
    from towpath.desk.corrections.service import CorrectionReport, Evidence
    from towpath.desk.corrections.store import Touched


app = typer.Typer(help="Learned corrections: rules, suggestions, and how right they are.", no_args_is_help=True)

RuleNumber = Annotated[int, typer.Argument(metavar="RULE", min=1, show_default=False, help="The rule's number.")]

_RULES = (
    Column("rule", right=True),
    Column("state", whole=True),
    Column("flow"),
    Column("what it does"),
    Column("support", right=True, whole=True),
    Column("confidence", right=True, whole=True),
    Column("right", right=True, whole=True),
    Column("wrong", right=True, whole=True),
)
_EVIDENCE = (Column("with"), Column("value"), Column("records", right=True), Column("edits", right=True))
_TOUCHED = (
    Column("case"),
    Column("field"),
    Column("before"),
    Column("after"),
    Column("was", whole=True),
    Column("case is", whole=True),
    Column("record"),
)
_SUGGESTIONS = (
    Column("field"),
    Column("is"),
    Column("why"),
    Column("suggested"),
    Column("confidence", right=True, whole=True),
    Column("rule", right=True),
    Column("evidence, or why not without asking"),
)
_REPORT = (
    Column("rule", right=True),
    Column("what it does"),
    Column("state", whole=True),
    Column("right", right=True),
    Column("wrong", right=True),
    Column("unknown", right=True),
    Column("precision", right=True),
    Column("agreed", right=True),
    Column("differed", right=True),
)


@app.command()
def rules(
    ctx: typer.Context,
    flow: Flow = None,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only those that are suggested, on, off or reverted.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rules, in the order in which they were found."""
    from towpath.operations.cases import rule_item

    wanted = parse_rule_state(state)
    with open_runtime(ctx) as runtime:
        found = runtime.corrections.rules(flow, wanted)
    if as_json:
        print_json({"items": [rule_item(rule) for rule in found]})
    else:
        _print_rules(found)


@app.command()
def show(
    ctx: typer.Context,
    rule: RuleNumber,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="How much evidence to show.")] = 20,
    masked: Masked = False,
    as_json: AsJson = False,
) -> None:
    """One rule: the strongest evidence for it, and what it has changed last."""
    from towpath.operations.cases import rule_view

    with open_runtime(ctx) as runtime:
        found, evidence, touched = runtime.corrections.show(rule, limit, masks=masks_of(runtime.desk, masked))
    if as_json:
        print_json(rule_view(found, evidence, touched))
    else:
        _print_rule(found, evidence, touched)


@app.command()
def suggest(ctx: typer.Context, case: CaseName, masked: Masked = False, as_json: AsJson = False) -> None:
    """What may be wrong with the record of a case, and what is suggested for it."""
    from towpath.desk.corrections.model import Doubt
    from towpath.operations.cases import suggestions_item

    with open_runtime(ctx) as runtime:
        corrections = runtime.corrections
        found, suggestions = corrections.suggest(case, masks=masks_of(runtime.desk, masked))
        change = corrections.correction(found.id)
    if as_json:
        print_json(suggestions_item(found, suggestions, change))
        return
    _print_suggestions(suggestions)
    if isinstance(change, Doubt):
        typer.echo(f"Nothing is changed without asking: {change}.")
    else:
        typer.echo("Under the policy `correct` this is done without asking.")


@app.command()
def report(ctx: typer.Context, flow: FlowName, as_json: AsJson = False) -> None:
    """How right the rules of a flow are: by what became of the records, and by what operators have put."""
    with open_runtime(ctx) as runtime:
        found = runtime.corrections.report(flow)
    if as_json:
        print_json(found.to_json())
    else:
        _print_report(found)


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
    from towpath.operations.cases import rule_item

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
        _print_rules(list(found.rules))


@app.command("apply")
@spread
def apply_(
    ctx: typer.Context,
    why: Why,
    given: CaseFilterOptions,
    doing: ActionOptions,
    cases: Cases = None,
    rule: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="A rule that counts as on for this, though it is not.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave them on the desk; otherwise they are sent back.")] = False,
) -> None:
    """Change the records of open cases as rules say that are on, above their thresholds, and send them back."""
    carry_out(
        ctx,
        "correct",
        cases,
        given,
        doing=doing,
        why=why,
        what="corrected" if keep else "corrected and sent back",
        arguments={"rule": rule, "replays": not keep},
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
    from towpath.operations.cases import rule_item

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
    from towpath.operations.cases import rule_item

    with open_runtime(ctx) as runtime:
        found = runtime.corrections.turn_off(rule, who=who, why=why)
    print_done(rule_item(found), f"rule {rule} is off ({found.text})", as_json)


@app.command()
def revert(ctx: typer.Context, rule: RuleNumber, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Do not believe a rule any more: list all that it has changed, and take back what has not gone out yet."""
    from towpath.operations.cases import rule_item, touched_item

    with open_runtime(ctx) as runtime:
        found = runtime.corrections.revert(rule, who=who, why=why)
    if as_json:
        touched = [touched_item(one) for one in found.touched]
        print_json({**rule_item(found.rule), "touched": touched, "taken_back": list(found.taken_back)})
        return
    typer.echo(f"rule {rule} is reverted ({found.rule.text}); it has changed {len(found.touched)} fields")
    if found.touched:
        _print_touched(list(found.touched))
    if found.taken_back:
        typer.echo(f"taken back before it went out: {len(found.taken_back)}")


def parse_rule_state(text: str | None) -> RuleState | None:
    """The option `--state`."""
    from towpath.desk.corrections.model import RuleState

    if text is not None and text not in set(RuleState):
        raise UsageError(f"--state {text}: it is {', '.join(RuleState)}")
    return None if text is None else RuleState(text)


def _print_rules(found: list[CorrectionRule]) -> None:
    """For people."""
    rows = [
        (each.id, each.state, each.flow, each.text, each.support, each.confidence, each.right, each.wrong)
        for each in found
    ]
    print_table(_RULES, rows)


def _print_rule(rule: CorrectionRule, evidence: list[Evidence], touched: list[Touched]) -> None:
    print_fields(
        (
            ("rule", rule.id),
            ("flow", rule.flow),
            ("does", rule.text),
            ("state", rule.state),
            ("thresholds", f"{rule.support} records, confidence {rule.confidence:g}"),
            ("since it is on", f"{rule.right} right, {rule.wrong} wrong"),
        )
    )
    if evidence:
        typer.echo("\nStrongest evidence")
        print_table(_EVIDENCE, [(each.given, each.value, each.taken, each.edited) for each in evidence])
    if touched:
        typer.echo("\nChanged last")
        _print_touched(touched)


def _print_touched(touched: list[Touched]) -> None:
    """What a rule has changed."""
    rows = [
        (one.case_id, one.field, one.before or "", one.after, one.verdict, one.state or "gone", one.input or "")
        for one in touched
    ]
    print_table(_TOUCHED, rows)


def _print_suggestions(suggestions: list[Suggestion]) -> None:
    """Field by field, the surest first."""
    from towpath.desk.corrections.model import token

    rows: list[tuple[object, ...]] = []
    for each in suggestions:
        doubt = "" if each.doubt is None else str(each.doubt)
        if not each.changes:
            rows.append((each.field, token(each.before), each.fault, "", "", "", doubt))
        for change in each.changes:
            said = f"{change.said}; {doubt}" if doubt else change.said
            confidence = f"{change.confidence:.3f}"
            rows.append(
                (each.field, token(each.before), each.fault, token(change.after), confidence, change.rule_id, said)
            )
    print_table(_SUGGESTIONS, rows)


def _print_report(found: CorrectionReport) -> None:
    """Of a flow and of each of its rules."""
    rows = [
        (
            each.rule.id,
            each.rule.text,
            each.rule.state,
            each.right,
            each.wrong,
            each.unknown,
            _share(each.precision),
            each.agreed,
            each.differed,
        )
        for each in found.rules
    ]
    print_table(_REPORT, rows)
    print_fields(
        (
            ("corrected without asking", found.corrected),
            ("of these right", _share(found.precision)),
            ("suggested where a person has edited", found.suggested),
            ("of these the same", _share(found.agreement)),
            ("nothing to suggest", found.abstained),
            ("coverage", _share(found.coverage)),
            ("abstention", _share(found.abstention)),
        )
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
