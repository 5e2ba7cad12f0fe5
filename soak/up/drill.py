"""One run: everything up, strikes, rest, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from soak.up.found import batches_between, look
from soak.up.killer import Killer
from soak.up.plan import Plan
from soak.up.project import CommandFailed, Project
from soak.up.sender import Sender
from soak.up.verdict import Verdict, judge
from soak.up.work import FLOW
from towpath.desk.cases.model import CaseState
from towpath.errors import TowpathError
from towpath.runtime import Runtime, connect
from towpath.supervision.duties.model import DutyState

READY_S = 300.0
REST_S = 600.0
LOOK_S = 1.0
UNDER_WAY = (CaseState.WAITING, CaseState.REPLAYING)

Watch = Callable[[str], None]


class Drill:
    """Runs a plan in a directory of its own."""

    def __init__(self, plan: Plan, home: Path, watch: Watch, database: str = "") -> None:
        self._plan = plan
        self._watch = watch
        self._home = home
        self._project = Project.make(home, database)

    def run(self) -> Verdict:
        self._watch("starting everything")
        try:
            self._project.towpath("up", timeout_s=READY_S)
            with connect(config=self._project.config) as runtime:
                return self._strike(runtime)
        finally:
            self._watch("stopping everything")
            self._project.towpath("down", timeout_s=READY_S)

    def _strike(self, runtime: Runtime) -> Verdict:
        sender, killer = Sender(runtime, self._plan), Killer(runtime, self._plan)
        sender.start()
        since = datetime.now(UTC)
        killer.run(lambda passed_s: self._watch(self._said(sender, killer, passed_s)))
        batches = batches_between(runtime, since, datetime.now(UTC))
        sender.stop()
        problems = [sender.trouble] if sender.trouble else []
        problems += self._rest(runtime, sender)
        self._watch("verdict")
        verdict = judge(sender.kinds, sender.runs, look(runtime, self._home))
        verdict.rows |= {
            "strikes": f"{killer.strikes}",
            "killed": ", ".join(f"{count} × {kind}" for kind, count in sorted(killer.hit.items())),
            "batches during the strikes": f"{batches}",
        }
        verdict.problems[:0] = problems
        if batches < self._plan.least_batches:
            verdict.problems.append(
                f"void: {batches} batches were committed during the strikes, {self._plan.least_batches} are needed"
            )
        verdict.problems += self._audit()
        return verdict

    def _said(self, sender: Sender, killer: Killer, passed_s: float) -> str:
        return (
            f"{passed_s:.0f}/{self._plan.seconds:.0f} s · {len(sender.kinds):,} records · {sender.runs} actors · "
            f"{killer.strikes} strikes, {killer.hit.total()} killed"
        )

    def _rest(self, runtime: Runtime, sender: Sender) -> list[str]:
        """Until everything is up and nothing is under way; what is not by then."""
        deadline = time.monotonic() + REST_S
        while time.monotonic() < deadline:
            if given_up := [duty for duty in runtime.duties.overview().duties if duty.state is DutyState.FAILED]:
                return [f"void: {duty.name} was killed so often that it never came to be ready" for duty in given_up]
            left = self._left(runtime, sender)
            if not left:
                return []
            self._watch(f"resting: {', '.join(left)}")
            time.sleep(LOOK_S)
        return [f"after {REST_S:g} s of rest: {each}" for each in left]

    def _left(self, runtime: Runtime, sender: Sender) -> list[str]:
        found = runtime.duties.overview()
        left = [f"{duty.name} is {duty.state}" for duty in found.duties if duty.is_wanted and duty.state != "ready"]
        left += [] if found.has_coordinator else ["no peer coordinates"]
        try:
            seen = look(runtime, self._home)
        except (TowpathError, OSError) as error:
            return [*left, str(error)]
        under_way = sum(count for (_, state), count in seen.cases.items() if state in UNDER_WAY)
        left += [f"{under_way} cases under way"] if under_way else []
        missing = len(sender.kinds.keys() - seen.loaded.keys() - {number for number, _ in seen.cases})
        left += [f"{missing} records not read"] if missing else []
        left += [f"{sender.runs - len(seen.ended)} actors at work"] if len(seen.ended) < sender.runs else []
        return left

    def _audit(self) -> list[str]:
        try:
            said = self._project.json("audit", FLOW, "--deep", "soak.up.work:flow")
        except CommandFailed as error:
            return [str(error)]
        found = [f"audit: {each['kind']} in {each['stage']}: {each['found']}" for each in said["problems"]]
        return found if said["is_balanced"] or found else ["audit: the flow does not balance"]
