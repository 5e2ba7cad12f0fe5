"""Looks after what senders leave behind that do not come back."""

from __future__ import annotations

from towpath.boundary.gateway import Gateway
from towpath.events import Events
from towpath.service import Result, Service
from towpath.settings import GatewaySettings


class GatewayCaretaker(Service):
    """Runs in every process that has opened the gateway; two at once only share the work."""

    name = "gateway caretaker"

    def __init__(self, gateway: Gateway, settings: GatewaySettings, events: Events) -> None:
        super().__init__(events)
        self._gateway = gateway
        self._pause_s = min(settings.idle_s, settings.settle_s) / 2

    def run_once(self) -> Result:
        return Result(self._gateway.close_idle() + self._gateway.settle_idle(), self._pause_s)
