"""Faults of every kind, at random times and for random times."""

from __future__ import annotations

from collections.abc import Callable

from simulation.cluster import SIGKILL, Cluster
from simulation.process import Process
from towpath.supervision.coordinator.watch import Exit

EPISODES = 8
LONGEST_S = 6.0


def plan_faults(cluster: Cluster, from_s: float, until_s: float) -> None:
    """Plan a number of faults. Healing everything at the end is up to the caller."""
    rng = cluster.world.rng
    for _ in range(rng.randint(1, EPISODES)):
        fault = rng.choice(FAULTS)
        cluster.world.after(rng.uniform(from_s, until_s), _begin, cluster, fault, rng.uniform(0.1, LONGEST_S), until_s)


def split_without_database(cluster: Cluster) -> None:
    """Groups that have to be formed by the election alone: no term says who of them is above."""
    cluster.database.is_away = True
    cluster.world.rng.choice((_split, _all_apart, _broken_links))(cluster)


Undo = Callable[[], None]
Fault = Callable[[Cluster], Undo | None]


def _begin(cluster: Cluster, fault: Fault, lasts_s: float, until_s: float) -> None:
    undo = fault(cluster)
    cluster.world.say("fault:", fault.__name__.strip("_"))
    if undo is not None and cluster.world.now + lasts_s < until_s:
        cluster.world.after(lasts_s, undo)


def _lossy(cluster: Cluster) -> Undo:
    cluster.network.loss = cluster.world.rng.uniform(0.05, 0.6)

    def undo() -> None:
        cluster.network.loss = 0.0

    return undo


def _late(cluster: Cluster) -> Undo:
    """Delays that differ widely also reorder."""
    cluster.network.longest_s = cluster.world.rng.uniform(0.05, 1.5)

    def undo() -> None:
        cluster.network.longest_s = 0.01

    return undo


def _doubling(cluster: Cluster) -> Undo:
    cluster.network.doubling = cluster.world.rng.uniform(0.1, 0.9)
    cluster.network.longest_s = max(cluster.network.longest_s, 0.1)

    def undo() -> None:
        cluster.network.doubling = 0.0

    return undo


def _split(cluster: Cluster) -> Undo:
    """Two sides; one-way in half of the cases. Every process is on one of them."""
    rng = cluster.world.rng
    names = list(cluster.database.duties)
    side = {name for name in names if rng.random() < 0.5}
    cut = {(a, b) for a in side for b in names if b not in side}
    if rng.random() < 0.5:
        cut |= {(b, a) for a, b in cut}
    return _block(cluster, cut)


def _broken_links(cluster: Cluster) -> Undo:
    """Single directions between single processes."""
    rng = cluster.world.rng
    names = list(cluster.database.duties)
    part = rng.uniform(0.1, 0.7)
    return _block(cluster, {(a, b) for a in names for b in names if a != b and rng.random() < part})


def _all_apart(cluster: Cluster) -> Undo:
    names = list(cluster.database.duties)
    return _block(cluster, {(a, b) for a in names for b in names if a != b})


def _block(cluster: Cluster, cut: set[tuple[str, str]]) -> Undo:
    cluster.network.blocked |= cut

    def undo() -> None:
        cluster.network.blocked -= cut

    return undo


def _crash(cluster: Cluster) -> None:
    """Up to half of all processes at once, as in the seed; one peer is spared."""
    rng = cluster.world.rng
    living = list(cluster.processes.values())
    victims = rng.sample(living, rng.randint(1, max(1, len(living) // 2)))
    _kill_but_one_peer(cluster, victims)


def _crash_coordinator(cluster: Cluster) -> None:
    coordinator = cluster.coordinator()
    if coordinator is not None:
        _kill_but_one_peer(cluster, [coordinator])


def _kill_but_one_peer(cluster: Cluster, victims: list[Process]) -> None:
    peers = {process.name for process in cluster.processes.values() if process.name in cluster.number_of}
    for process in victims:
        if peers != {process.name}:
            process.die(Exit(signal=SIGKILL))
            peers.discard(process.name)


def _pause(cluster: Cluster) -> Undo | None:
    return _pause_one(cluster.world.rng.choice(list(cluster.processes.values())))


def _pause_coordinator(cluster: Cluster) -> Undo | None:
    coordinator = cluster.coordinator()
    return None if coordinator is None else _pause_one(coordinator)


def _pause_one(process: Process) -> Undo:
    process.pause()
    return process.resume


def _database_away(cluster: Cluster) -> Undo:
    cluster.database.is_away = True

    def undo() -> None:
        cluster.database.is_away = False

    return undo


def _database_slow(cluster: Cluster) -> Undo:
    cluster.database.slowest_s = cluster.world.rng.uniform(0.1, 1.5)
    cluster.database.lost_answers = cluster.world.rng.uniform(0.0, 0.3)

    def undo() -> None:
        cluster.database.slowest_s = 0.02
        cluster.database.lost_answers = 0.0

    return undo


def _cut_off_from_database(cluster: Cluster) -> Undo:
    name = cluster.world.rng.choice(list(cluster.database.duties))
    cluster.database.cut_off.add(name)

    def undo() -> None:
        cluster.database.cut_off.discard(name)

    return undo


def _blind_launcher(cluster: Cluster) -> Undo:
    cluster.unseen_exits = cluster.lost_kills = cluster.world.rng.uniform(0.2, 1.0)

    def undo() -> None:
        cluster.unseen_exits = cluster.lost_kills = 0.0

    return undo


FAULTS: tuple[Fault, ...] = (
    _lossy,
    _late,
    _doubling,
    _split,
    _broken_links,
    _all_apart,
    _crash,
    _crash_coordinator,
    _pause,
    _pause_coordinator,
    _database_away,
    _database_slow,
    _cut_off_from_database,
    _blind_launcher,
)
