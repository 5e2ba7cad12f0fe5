"""`towpath doctor`: is this machine fit, and what to do if not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from towpath.cli.failures import FAILED, say
from towpath.cli.given import Given
from towpath.cli.options import AsJson
from towpath.cli.output import STYLES, console, plain, print_json
from towpath.doctor.check import Check, Health, Purpose


def doctor(
    ctx: typer.Context,
    purpose: Annotated[
        list[Purpose] | None,
        typer.Option(
            "--for",
            metavar="PURPOSE",
            help="What the machine is to be used for: test, demo or flows; may be given several times.",
        ),
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Install missing packages with apt-get if root; say the command if not.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check this machine, and say what to do about each thing missing. Exit code 1 when a needed one is."""
    from towpath.doctor.examination import examine
    from towpath.doctor.packages import install, install_command

    given, purposes = ctx.ensure_object(Given), purpose or []
    checks = examine(given.flags(), given.config, purposes)
    packages = [check.package for check in checks if check.package and check.health is Health.MISSING]
    if fix and packages:
        install_packages = install_command(packages)
        say(f"installing {', '.join(packages)} with apt-get …")
        install(install_packages)
        checks = examine(given.flags(), given.config, purposes)
    if as_json:
        print_json({"items": [_item(check) for check in checks]})
    else:
        _print(checks)
    if any(check.health is Health.MISSING for check in checks):
        raise typer.Exit(FAILED)


def _item(check: Check) -> dict[str, str]:
    return {"name": check.name, "health": check.health, "found": check.found, "remedy": check.remedy}


def _print(checks: Sequence[Check]) -> None:
    """Not a table: a finding can be long, and what to do must not be cut off."""
    from rich.text import Text

    out = console()
    widest = max(len(check.name) for check in checks)
    for check in checks:
        health = (f"{check.health:<7}", STYLES[check.health])
        out.print(Text.assemble(health, f"  {check.name:<{widest}}  {plain(check.found)}"), soft_wrap=True)
        if check.remedy:
            out.print(Text(f"{'':<{9 + widest}}  → {plain(check.remedy)}", style="bold"), soft_wrap=True)
