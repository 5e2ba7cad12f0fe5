"""Peers, their duties and the launcher that starts and kills processes, in one simulated world."""

from __future__ import annotations

from simulation.checks import Checks
from simulation.database import Database, DutyRow
from simulation.network import Network
from simulation.peer import Peer
from simulation.process import Process
from simulation.twins import Twin
from simulation.world import World
from towpath.supervision.coordinator.watch import Exit, Watched
from towpath.supervision.duties.model import DutyState
from towpath.supervision.election.election import PeerRole, Timing

WORKERS = 2
HOPELESS = "hopeless"  # a duty whose process dies before it is ready, always
DRIFT = 0.02  # clocks are faster or slower by up to this part
SIGKILL = 9


class Hopeless(Process):
    """Dies before it is ready."""

    def begin(self) -> None:
        self.after(0.1, self.die, Exit(code=1))


class Cluster:
    """Everything that runs."""

    def __init__(self, world: World, checks: Checks, size: int, twin: Twin | None) -> None:
        self.world = world
        self.twin = twin
        self.timing = Timing()
        self.network = Network(world)
        self.database = Database(world, checks)
        self.numbers = range(1, size + 1)
        self.number_of = {self.name_of(number): number for number in self.numbers}
        self.rates = {number: 1 + world.rng.uniform(-DRIFT, DRIFT) for number in self.numbers}
        self.processes: dict[str, Process] = {}  # the newest of each duty, if it lives
        self.unseen_exits = 0.0  # part of the ends that no launcher sees before all is healed
        self.lost_kills = 0.0
        self._unseen: list[tuple[Process, Exit]] = []
        self._lives = 0
        self._set_up()

    def next_number(self) -> int:
        self._lives += 1
        return self._lives

    @staticmethod
    def name_of(number: int) -> str:
        return f"peer-{number}"

    @property
    def peers(self) -> list[Peer]:
        """The peers that take part."""
        return [each for each in self.processes.values() if isinstance(each, Peer) and each.is_at_work]

    def coordinator(self) -> Peer | None:
        """Who holds the term, by the database."""
        database = self.database
        return next((peer for peer in self.peers if database.is_held(database.term, peer.id)), None)

    def heal(self) -> None:
        self.network.heal()
        self.database.heal()
        self.unseen_exits = self.lost_kills = 0.0
        unseen, self._unseen = self._unseen, []
        for process, exit_ in unseen:
            self._see(process, exit_)
        for process in list(self.processes.values()):
            process.resume()

    def watched(self) -> list[Watched]:
        """All duties, as the coordinator reads them."""
        now = self.world.now
        return [_watched(row, now) for row in self.database.duties.values()]

    # The launcher.

    def start(self, name: str, launch: int) -> None:
        self.world.after(self.world.rng.uniform(0.05, 0.3), self._begin, name, launch)

    def kill(self, name: str, launch: int) -> None:
        process = self.processes.get(name)
        if process is not None and process.launch == launch and self.world.rng.random() >= self.lost_kills:
            process.die(Exit(signal=SIGKILL))

    def ended(self, process: Process, exit_: Exit) -> None:
        if self.processes.get(process.name) is process:
            del self.processes[process.name]
        if self.world.rng.random() < self.unseen_exits:
            self._unseen.append((process, exit_))  # until somebody on its host looks again
        else:
            self._see(process, exit_)

    def _see(self, process: Process, exit_: Exit) -> None:
        self.world.after(self.world.rng.uniform(0.01, 0.2), self._report, process, exit_)

    def _report(self, process: Process, exit_: Exit) -> None:
        if self.database.is_away:
            self.world.after(0.5, self._report, process, exit_)
        else:
            self.database.note_exit(process.name, process.launch, exit_)

    def _begin(self, name: str, launch: int) -> None:
        number = self.number_of.get(name)
        if number is not None:
            self.processes[name] = Peer(self, number, launch)
        else:
            self.processes[name] = (Hopeless if name == HOPELESS else Process)(self, name, launch)

    def _set_up(self) -> None:
        for name in self.number_of:  # the peers are started by `towpath up`, the rest by the coordinator
            self.database.duties[name] = DutyRow(name, DutyState.STARTING, 1, is_launched=True)
            self.start(name, 1)
        workers = [f"worker-{number}" for number in range(1, WORKERS + 1)]
        if self.world.rng.random() < 0.2:
            workers.append(HOPELESS)
        for name in workers:
            self.database.duties[name] = DutyRow(name)

    # What is to be in the end.

    def trouble_with_group(self, settled_s: float) -> str | None:
        """Why the peers that have lived for a while are not one group with one coordinator."""
        peers = [peer for peer in self.peers if self.world.now - peer.born_at >= settled_s]
        leaders = [peer for peer in peers if peer.role is PeerRole.COORDINATOR]
        if len(leaders) != 1:
            return f"{len(leaders)} coordinators: {self.picture()}"
        leader = leaders[0]
        if any(peer.election.coordinator != leader.number for peer in peers):
            return f"not all follow {leader.name}: {self.picture()}"
        if not leader.election.members >= {peer.number for peer in peers}:
            return f"{leader.name} does not know all who follow it: {self.picture()}"
        return None

    def trouble_with_term(self) -> str | None:
        """Why the leader of the group does not act."""
        holder = self.coordinator()
        is_acting = holder is not None and holder.role is PeerRole.COORDINATOR and holder.acting_term()
        return None if is_acting else f"the coordinator does not act: {self.picture()}"

    def trouble_with_duties(self) -> str | None:
        """Which duty is neither done nor given up for good reason."""
        for row in self.database.duties.values():
            if row.state is not DutyState.READY and row.state is not DutyState.FAILED:
                return f"{row.name} is {row.state.value}"
        return None

    def peers_wanted(self) -> int:
        """All but those that were given up: they died too often before they were ready."""
        return sum(self.database.duties[name].state is not DutyState.FAILED for name in self.number_of)

    def picture(self) -> str:
        """One line about all peers."""
        told = [f"{peer.number} {peer.role} of {peer.election.coordinator}" for peer in self.peers if peer.role]
        return ", ".join(told) + f"; term {self.database.term} of {self.database.holder}"


def _watched(row: DutyRow, now: float) -> Watched:
    return Watched(
        row.name,
        row.state,
        row.launch,
        can_be_pinged=row.process is not None,
        is_launched=row.is_launched or row.process is not None,
        launched_s=now - row.launched_at,
        in_state_s=now - row.moved_at,
        ready_s=None if row.ready_at is None else now - row.ready_at,
        beat_s=None if row.beat_at is None else now - row.beat_at,
        exit=row.exit,
        early_deaths=row.early_deaths,
        next_try_s=row.next_try_at - now,
    )
