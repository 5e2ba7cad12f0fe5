"""What an answer that is no success means: later, never, or somebody else's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from towpath.client.connection import Answer, Cut, Later
from towpath.errors import GatewayRefused, SenderReplaced

LATER = frozenset({425, 429, 502, 503, 504})
FAULT = 500
REPLACED = "session_replaced"
RUNNING = "request_running"  # the same request, sent by us before, is still being worked on
CUT_OFF = "cut_off"
TOO_SLOW = 408
LONGEST_RETRY_AFTER_S = 3600.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error in the one shape that the gateway has for it, or what could be made of something else."""

    status: int
    code: str
    message: str
    details: Mapping[str, Any]

    @classmethod
    def read(cls, answer: Answer) -> Refusal:
        try:
            said = json.loads(answer.body)["error"]
            details = said["details"] if isinstance(said["details"], dict) else {}
            return cls(answer.status, str(said["code"]), str(said["message"]), details)
        except (ValueError, KeyError, TypeError):
            return cls(answer.status, "", _of_another(answer), {})

    def error(self) -> GatewayRefused | SenderReplaced:
        if self.code == REPLACED:
            return SenderReplaced(
                f"{self.message}: another sender has taken over this part of the upload, with the same state file or "
                "key. What was acknowledged is safe; end the other one if this one is to go on"
            )
        return GatewayRefused(self.status, self.code, self.message, self.details)


def check(answer: Answer) -> Answer:
    """The answer, if it is a success; otherwise `Later`, or the error that it means."""
    if 200 <= answer.status < 300:
        return answer
    refusal = Refusal.read(answer)
    if answer.status == TOO_SLOW or refusal.code == CUT_OFF:
        raise Cut(refusal.message)
    if answer.status in LATER or answer.status == FAULT or refusal.code == RUNNING:
        raise Later(refusal.message, _retry_after_s(answer))
    raise refusal.error()


def _retry_after_s(answer: Answer) -> float:
    try:
        return min(max(0.0, float(answer.headers.get("retry-after", "0"))), LONGEST_RETRY_AFTER_S)
    except ValueError:
        return 0.0  # a date: no server of ours says one


def _of_another(answer: Answer) -> str:
    if 300 <= answer.status < 400:
        return f"answered {answer.status} and points to {answer.headers.get('location', 'nowhere')}; give that address"
    return f"answered {answer.status}, and not as Towpath does; is that the right address?"
