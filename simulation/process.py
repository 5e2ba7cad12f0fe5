"""A simulated operating system process: it can be killed, paused, and reach the database or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulation.database import Database
from simulation.network import Network
from simulation.world import World
from towpath.supervision.coordinator.watch import Exit
from towpath.supervision.election.messages import Ping, Pong

if TYPE_CHECKING:
    from simulation.cluster import Cluster

BEAT_S = 1.0
ANSWER_TIMEOUT_S = 1.0  # how long a statement waits for a database that is away
READY_S = 0.4
SIGKILL = 9


class Process:
    """One life of one duty. Whatever it plans happens only while it lives, and waits while it is paused."""

    def __init__(self, cluster: Cluster, name: str, launch: int) -> None:
        self.cluster = cluster
        self.world: World = cluster.world
        self.database: Database = cluster.database
        self.network: Network = cluster.network
        self.name = name
        self.launch = launch
        self.id = f"{name}#{launch}.{cluster.next_number()}"  # new at each start
        self.born_at = self.world.now
        self.is_alive = True
        self.is_paused = False
        self.is_at_work = False
        self._backlog: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self.network.attach(name, self._packet)
        self._register()

    def after(self, seconds: float, act: Callable[..., Any], *args: Any) -> None:
        self.world.after(seconds, self._happen, act, args)

    def ask(
        self, statement: Callable[[], Any], then: Callable[[Any], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        """Let the database carry out a statement; `otherwise` when no answer comes, carried out or not."""
        self.world.after(self._latency_s(), self._carry_out, statement, then, otherwise)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        backlog, self._backlog = self._backlog, []
        for act, args in backlog:
            self._happen(act, args)

    def die(self, exit_: Exit) -> None:
        if self.is_alive:
            self.is_alive = False
            self.world.say(self.id, "ends", exit_)
            self.cluster.ended(self, exit_)

    def begin(self) -> None:
        """What it does once it may work."""
        self.after(READY_S, self._say_ready)

    def receive(self, sender: str, message: Any) -> None:
        if isinstance(message, Ping):
            self.network.send(self.name, sender, Pong(message.nonce, self.launch))

    def _happen(self, act: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if self.is_paused:
            self._backlog.append((act, args))
        elif self.is_alive:
            act(*args)

    def _packet(self, sender: str, message: Any) -> None:
        self._happen(self.receive, (sender, message))

    def _latency_s(self) -> float:
        return self.world.rng.uniform(0.001, self.database.slowest_s)

    def _carry_out(
        self, statement: Callable[[], Any], then: Callable[[Any], None], otherwise: Callable[[], None] | None
    ) -> None:
        if self.database.reaches(self.name):
            answer = statement()
            if not self.database.lost_answers or self.world.rng.random() >= self.database.lost_answers:
                self.after(self._latency_s(), then, answer)
                return
        if otherwise is not None:
            self.after(self.world.rng.uniform(0.0, ANSWER_TIMEOUT_S), otherwise)

    def _register(self) -> None:
        """Until there is an answer; the database may have carried it out without one."""
        self.ask(
            lambda: self.database.register(self.name, self.launch, self.id),
            self._registered,
            lambda: self.after(0.2, self._register),
        )

    def _registered(self, may_work: bool) -> None:
        if not may_work:
            self.die(Exit(code=71))
            return
        self.is_at_work = True
        self.after(BEAT_S, self._beat)
        self.begin()

    def _beat(self) -> None:
        self.ask(lambda: self.database.beat(self.name, self.launch), self._beaten, lambda: self.after(0.2, self._beat))

    def _beaten(self, is_mine: bool) -> None:
        if is_mine:
            self.after(BEAT_S, self._beat)
        else:
            self.die(Exit(code=71))

    def _say_ready(self) -> None:
        def again() -> None:
            self.after(0.2, self._say_ready)

        self.ask(lambda: self.database.ready(self.name, self.launch), lambda _: None, again)
