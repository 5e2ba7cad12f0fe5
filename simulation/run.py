"""One run: faults for a while, then healing, then deaths in quiet times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulation.checks import BACK_S, ELECTION_TIMEOUTS, TAKEOVER_S, Checks, Violated
from simulation.cluster import SIGKILL, Cluster
from simulation.faults import plan_faults, split_without_database
from simulation.peer import Peer
from simulation.twins import Twin
from simulation.world import World
from towpath.supervision.coordinator.watch import Exit

FAULTS_FROM_S = 0.5
LONGEST_FAULTS_S = 20.0
LOOK_EVERY_S = 0.1
QUIET_S = 1.0  # a state of affairs that has lasted for so long is taken for lasting
DATABASE_LAST = 0.3  # part of the runs in which the network is healed before the database is back
HANDOVER_S = 10.0  # from the moment when a coordinator loses the database until another acts
PHASES = (60, 18, 18, 4)  # how often none, the first, the second, the third of the longer phases is played
JOIN_S = 10.0  # until peers that were killed in quiet times are back in their group


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    seed: int
    size: int
    violation: str | None
    virtual_s: float
    events: int
    terms: int
    deaths: int
    healed_in_s: float  # until there was one group with one coordinator
    taken_over_in_s: float  # from the death of a coordinator until another acted


def run(seed: int, size: int, twin: Twin | None = None, trace: Callable[[str], None] | None = None) -> Outcome:
    """Play one seed with so many peers."""
    return Run(seed, size, twin, trace).play()


class Run:
    """The phases of a run."""

    def __init__(self, seed: int, size: int, twin: Twin | None, trace: Callable[[str], None] | None) -> None:
        self.seed = seed
        self.size = size
        self.world = World((seed, size), trace)
        self.checks = Checks(self.world)
        self.cluster = Cluster(self.world, self.checks, size, twin)
        self.liveness_s = ELECTION_TIMEOUTS * self.cluster.timing.election_timeout_s
        self.healed_in_s = self.taken_over_in_s = 0.0

    def play(self) -> Outcome:
        violation = None
        try:
            self._faults()
            self._healing()
            self._members_die()
            self._coordinator_dies()
            self._one_more()
        except Violated as broken:
            violation = str(broken)
        return Outcome(
            self.seed,
            self.size,
            violation,
            self.world.now,
            self.world.events,
            self.cluster.database.term,
            self.checks.deaths,
            self.healed_in_s,
            self.taken_over_in_s,
        )

    def _faults(self) -> None:
        until_s = self.world.rng.uniform(2.0, LONGEST_FAULTS_S)
        plan_faults(self.cluster, FAULTS_FROM_S, until_s)
        self.world.run_until(until_s)

    def _healing(self) -> None:
        """One group with one coordinator within ten election time-outs, and soon everything is ready again."""
        if self.world.rng.random() < DATABASE_LAST:
            self._network_heals_first()
        self.world.say("healed")
        self.cluster.heal()
        self.healed_in_s = self._wait(self._trouble_with_acting, self.liveness_s, "after healing")
        self._wait(self.cluster.trouble_with_duties, BACK_S, "after healing")
        self._wait(self._not_all_here, JOIN_S, "after healing")

    def _network_heals_first(self) -> None:
        """The election has to make one group also while the database is away, and nobody acts."""
        self.cluster.heal()
        split_without_database(self.cluster)
        self.world.run_until(self.world.now + self.world.rng.uniform(1.0, 5.0))
        self.world.say("the network is healed, the database is away")
        self.cluster.network.heal()
        self._wait(lambda: self.cluster.trouble_with_group(QUIET_S), self.liveness_s, "after the network healed")

    def _members_die(self) -> None:
        """Whoever was killed and started again joins its group: the coordinator and the term stay as they are."""
        leader = self._coordinator()
        term = self.cluster.database.term
        members = [peer for peer in self.cluster.peers if peer is not leader]
        self.world.say("members die in quiet times")
        for peer in self.world.rng.sample(members, self.world.rng.randint(min(1, len(members)), len(members))):
            peer.die(Exit(signal=SIGKILL))

        def trouble() -> str | None:
            if self.cluster.database.term != term or not leader.acting_term():
                self.checks.fail(f"members came back and term {term} of {leader.id} ended: {self.cluster.picture()}")
            return self._not_all_here()

        self._wait(trouble, JOIN_S, "after members died")

    def _coordinator_dies(self) -> None:
        leader = self._coordinator()
        self.world.say("the coordinator dies in quiet times")
        leader.die(Exit(signal=SIGKILL))
        self.taken_over_in_s = self._wait(self._nobody_acts, TAKEOVER_S, "after the coordinator died", lasting_s=0.0)
        self._wait(self._not_all_here, JOIN_S, "after the takeover")

    def _one_more(self) -> None:
        """Now and then something that takes longer."""
        phases = [self._coordinator_loses_database, self._coordinator_sleeps, self._database_away_for_a_minute]
        if (phase := self.world.rng.choices([None, *phases], PHASES)[0]) is not None:
            phase(self._coordinator())
            self._wait(self._not_all_here, JOIN_S, "after " + phase.__name__.strip("_").replace("_", " "))

    def _coordinator_loses_database(self, leader: Peer) -> None:
        """One that cannot act makes way for one that can."""
        self.world.say("the coordinator loses the database")
        self.cluster.database.cut_off.add(leader.name)

        def trouble() -> str | None:
            return f"{leader.id} still has the term" if self.cluster.coordinator() is leader else self._nobody_acts()

        self._wait(trouble, HANDOVER_S, "after the coordinator lost the database", lasting_s=0.0)
        self.cluster.heal()

    def _coordinator_sleeps(self, leader: Peer) -> None:
        """Another acts, and the sleeper finds out before it does anything: `Checks.acted` sees to that."""
        self.world.say("the coordinator is stopped for longer than its lease")
        leader.pause()
        self._wait(self._nobody_acts, TAKEOVER_S, "after the coordinator was stopped", lasting_s=0.0)
        self.world.run_until(self.world.now + self.world.rng.uniform(0.0, 2.0))
        self.cluster.heal()

    def _database_away_for_a_minute(self, _: Peer) -> None:
        """Nobody is restarted by mistake, neither then nor when it is back."""
        deaths = self.checks.deaths
        self.world.say("the database is away for a minute")
        self.cluster.database.is_away = True
        self.world.run_until(self.world.now + 60.0)
        self.cluster.heal()
        self._wait(self._trouble_with_acting, self.liveness_s, "after the database was back", lasting_s=5.0)
        if self.checks.deaths != deaths:
            self.checks.fail("the database was away, and somebody was declared dead who lived")

    def _coordinator(self) -> Peer:
        leader = self.cluster.coordinator()
        if leader is None:
            raise Violated(f"at {self.world.now:.3f} s: nobody coordinates in quiet times")
        return leader

    def _nobody_acts(self) -> str | None:
        coordinator = self.cluster.coordinator()
        return (
            None if coordinator is not None and coordinator.acting_term() else f"nobody acts: {self.cluster.picture()}"
        )

    def _trouble_with_acting(self) -> str | None:
        return self.cluster.trouble_with_group(QUIET_S) or self.cluster.trouble_with_term()

    def _not_all_here(self) -> str | None:
        missing = self.cluster.peers_wanted() - len(self.cluster.peers)
        if missing:
            return f"{missing} peers are not back"
        return self.cluster.trouble_with_group(0.0) or self.cluster.trouble_with_term()

    def _wait(self, trouble: Callable[[], str | None], limit_s: float, when: str, lasting_s: float = QUIET_S) -> float:
        """Go on until there has been no trouble for a while; how long it took to begin."""
        begun = good_since = self.world.now
        while True:
            self.world.run_until(self.world.now + LOOK_EVERY_S)
            found = trouble()
            if found is not None:
                good_since = self.world.now
                if self.world.now - begun > limit_s:
                    self.checks.fail(f"{self.world.now - begun:.1f} s {when}: {found}")
            elif self.world.now - good_since >= lasting_s:
                return good_since - begun
