"""What must come of a walk in which a process dies once: the rules in a few lines, and nothing of the code."""

from __future__ import annotations

from dataclasses import dataclass, field

from towpath.actors import Resume
from towpath.core.crash import CrashPoint as P

IN_TURN = (P.TURN_BEGUN, P.TURN_DONE, P.TURN_BEFORE_COMMIT, P.TURN_AFTER_COMMIT)


class _Died(Exception):
    pass


@dataclass
class Walk:
    """One walk, with a death at the n-th pass through a point."""

    policy: Resume
    point: P
    passes: int
    history: list[list[str]] = field(default_factory=list)  # states and what became of their messages, in order
    ran: list[str] = field(default_factory=list)  # whose code was run, in order
    sent: int = 0
    has_failed: bool = False

    def run(self) -> Walk:
        self._pass(P.INTAKE_BEFORE_COMMIT, P.INTAKE_AFTER_COMMIT)
        self.history = [[self._named("Begin"), "held"], [self._named("Begin"), "live"]]
        self._pass(P.ACTORS_CLAIM_BEFORE_COMMIT)
        try:
            self._die_at(P.ACTORS_CLAIM_AFTER_COMMIT)
        except _Died:
            self._resume()
        while self.history[-1][1] == "live":
            try:
                self._turn()
            except _Died:
                if self.history[-1][1] == "live":
                    self._resume()
        self.history[0][1] = "ERR" if self.has_failed else "OK"
        return self

    def _turn(self) -> None:
        head = self.history[-1]
        self._die_at(P.TURN_BEGUN)
        self.ran.append(head[0])
        self._die_at(P.TURN_DONE)
        self._die_at(P.TURN_BEFORE_COMMIT)
        head[1] = "OK"
        match head[0].removeprefix(self.policy.title()):
            case "Begin":
                self.history.append([self._named("Middle"), "live"])
            case "Middle":
                self.sent += 1
                self.history.append(["End", "live"])
        self._die_at(P.TURN_AFTER_COMMIT)

    def _resume(self) -> None:
        """The process died while it had the last message of the history."""
        head = self.history[-1]
        if head[0] in ("End", "Failed") or self.policy is Resume.RETRY:
            return
        head[1] = "DEAD" if self.policy is Resume.RESTART else "ERR"
        self.has_failed = self.policy is Resume.FAIL
        self.history.append(["Failed" if self.has_failed else self._named("Begin"), "live"])

    def _die_at(self, point: P) -> None:
        if point is self.point:
            self.passes -= 1
            if self.passes == 0:
                raise _Died

    def _pass(self, *points: P) -> None:
        """Points at which a death changes nothing: what was not committed is done again, what was is there."""
        for point in points:
            if point is self.point:
                self.passes -= 1

    def _named(self, name: str) -> str:
        return f"{self.policy.title()}{name}"
