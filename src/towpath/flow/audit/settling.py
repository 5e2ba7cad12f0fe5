"""Where the records that failed are by now: what the desk says, held against the ledger and the log.

At every moment, for each record that has failed: one failure more than returns that were read, unless the last return
was loaded or filtered. So the failures that were not read again are as many as there are cases at the desk that are not
resolved, with those that it has not come to. The desk may know more than the ledger: a batch tells its errors and
outcomes before it is committed. What it knows from such a batch does not count yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from towpath.flow.audit.balance import Balance, settle
from towpath.flow.audit.errors import ErrorsFound
from towpath.flow.audit.problem import Problem, ProblemKind, Unproven
from towpath.flow.audit.returns import Returns, returns_to
from towpath.flow.audit.view import View
from towpath.flow.place import Holdings, Place, Places
from towpath.log.log import Log

AT_ONCE = 1_000  # correlation ids that are asked for together


@dataclass(slots=True)
class Settling:
    """One comparison of one view."""

    log: Log
    view: View
    errors: ErrorsFound
    places: Places
    holdings: Holdings

    def run(self, balance: Balance) -> Iterator[Problem | Unproven]:
        yield from self._taken()
        returns = self._returns()
        yield from settle(balance, self._elsewhere(returns), returns.superseded, self.errors.beyond)

    def _taken(self) -> Iterator[Problem | Unproven]:
        """What the desk says that it has read is in the topic, and what it has made of it is there."""
        held = self.holdings
        if held.records - held.repeats != held.attempts:
            told = (f"{held.records - held.repeats} failures that were taken in", f"{held.attempts} that are kept")
            yield Problem(ProblemKind.TAKEN, "-", *told)
        topic = self.view.errors
        if any(topic.starts.values()) or any(id != topic.id for id, _ in held.positions):
            yield Unproven("-", "that the desk has read every error", "the error topic is not whole any more")
        elif self.errors.taken != held.records - held.strays:
            told = (f"{self.errors.taken} error records in the topic", f"{held.records - held.strays} that it has read")
            yield Problem(ProblemKind.TAKEN, "-", *told)

    def _returns(self) -> Returns:
        returns = Returns()
        for stage in self.view.stages:
            found = list(returns_to(self.log, stage))
            known = self._known({each.correlation for each in found})
            returns.add(stage, found, known, self.errors.marks)
        return returns

    def _known(self, correlations: set[str]) -> set[str]:
        left = iter(sorted(correlations))
        known: set[str] = set()
        while some := list(islice(left, AT_ONCE)):
            known |= self.places.known(some)
        return known

    def _elsewhere(self, returns: Returns) -> Counter[Place]:
        early = {batch.hash for stage in self.view.stages for batch in stage.batches if not batch.is_committed}
        found: Counter[Place] = Counter()
        for (hash, place), count in self.holdings.places.items():
            if hash not in early:
                found[place] += count
        for correlation, (hash, attempt) in self.holdings.sent.items():
            found[Place.REPLAYING] += hash not in early and (correlation, attempt) not in returns.read
        found[Place.REPLAYING] += self._resolved_early(returns)
        return +found

    def _resolved_early(self, returns: Returns) -> int:
        """Cases that are resolved by a batch which has told its outcomes, and is not committed."""
        told = {correlation for correlation, _ in returns.pending - returns.read} - set(self.holdings.sent)
        return len(self.places.resolved(sorted(told), self.holdings.at_us)) if told else 0
