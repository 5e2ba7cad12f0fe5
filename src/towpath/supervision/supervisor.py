"""One peer at work: it takes part in the election, sees the ends of its host's processes, and coordinates if it may."""

from __future__ import annotations

from contextlib import ExitStack

from towpath.service import Service
from towpath.supervision.coordinator import Coordinator
from towpath.supervision.peer_node import PeerNode
from towpath.supervision.reach import Reach
from towpath.supervision.role import Role
from towpath.supervision.term_service import TermService


class Supervisor:
    """The services of a peer."""

    def __init__(
        self, node: PeerNode, terms: TermService, coordinator: Coordinator, reach: Reach, local: list[Service]
    ) -> None:
        """`local` is what every peer does for its own host."""
        self.node = node
        self.terms = terms
        self._reach = reach
        self._services = [*local, node, terms, coordinator]

    def start(self) -> None:
        for service in self._services:
            service.start()

    def stop(self) -> None:
        """The coordinator first: it must not act any more when the term is given back."""
        with ExitStack() as ending:  # the last one is called first, and each even if another raises
            for service in self._services:
                ending.callback(service.stop)
            ending.callback(self._reach.close)

    @property
    def status(self) -> str:
        """What it is, for people."""
        view = self.node.view()
        if self.terms.number:
            return f"coordinates under term {self.terms.number}"
        if view.role is Role.COORDINATOR:
            return "leads, without the term"
        if view.coordinator is None:
            return "elects"
        return f"follows peer {view.coordinator}"
