"""Where the other peers are, as their process rows say: they listen on any free port, and tell which one."""

from __future__ import annotations

from towpath.db import Database
from towpath.db.processes import ProcessStore
from towpath.events import Events
from towpath.service import Result, Service
from towpath.supervision.host import peer_name, read_address
from towpath.supervision.udp import Address

READ_EVERY_S = 1.0
KIND = "peer"


class PeerRows(Service):
    """Addresses of living peers by number. While the database is away the last ones are kept."""

    name = "peer addresses"

    def __init__(self, database: Database, peers: int, events: Events) -> None:
        super().__init__(events)
        self.longest_pause_s = READ_EVERY_S
        self._database = database
        self._numbers = {peer_name(number): number for number in range(1, peers + 1)}
        self._processes = ProcessStore(database)
        self._addresses: dict[int, Address] = {}

    def get(self, number: int) -> Address | None:
        return self._addresses.get(number)

    def run_once(self) -> Result:
        with self._database.beats.glance() as tx:
            found = self._processes.addresses(tx, KIND)
        # The newest last: it is the one that counts when an older one of the same number is not known to be dead yet.
        told = {self._numbers[name]: read_address(address) for name, address in found if name in self._numbers}
        self._addresses = {**self._addresses, **told}
        return Result(len(told), READ_EVERY_S)
