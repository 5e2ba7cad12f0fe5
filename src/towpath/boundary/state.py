"""The states of an upload and of its senders, and every move between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class UploadState(StrEnum):
    """How far an upload is."""

    RECEIVING = "receiving"  # its senders may send; after a crash it waits for them
    CLOSING = "closing"  # all have finished; the flow passes what they sent, and the closing computations run
    SENDING = "sending"  # its results are there, and its client has not had all of them
    FINISHED = "finished"  # its client has had all; what was kept for it is removed
    ABORTED = "aborted"  # its client or an operator gave it up
    EXPIRED = "expired"  # nobody went on with it, and a rule with an approver ended it


class UploadMove(StrEnum):
    """What can happen to an upload. The value is the label of its arrow in a chart."""

    CLOSE = "all senders have finished"
    SEND = "closing computations done"
    FINISH = "all results acknowledged"
    ABORT = "aborted"
    EXPIRE = "expired by a rule"


class SenderState(StrEnum):
    """Whether more comes from a sender."""

    RECEIVING = "receiving"  # it may send
    FINISHED = "finished"  # it has said that this was all


class SenderMove(StrEnum):
    """What can happen to a sender."""

    FINISH = "finished"


@dataclass(frozen=True, slots=True)
class Arrow:
    """One move: from which states, to which."""

    sources: tuple[UploadState, ...]
    target: UploadState


@dataclass(frozen=True, slots=True)
class SenderArrow:
    """The same for a sender."""

    sources: tuple[SenderState, ...]
    target: SenderState


_RECEIVING, _CLOSING, _SENDING, _FINISHED, _ABORTED, _EXPIRED = UploadState

MOVES: dict[UploadMove, Arrow] = {
    UploadMove.CLOSE: Arrow((_RECEIVING,), _CLOSING),
    UploadMove.SEND: Arrow((_CLOSING,), _SENDING),
    UploadMove.FINISH: Arrow((_SENDING,), _FINISHED),
    UploadMove.ABORT: Arrow((_RECEIVING, _CLOSING, _SENDING), _ABORTED),
    UploadMove.EXPIRE: Arrow((_RECEIVING, _SENDING), _EXPIRED),
}
SENDER_MOVES: dict[SenderMove, SenderArrow] = {
    SenderMove.FINISH: SenderArrow((SenderState.RECEIVING,), SenderState.FINISHED),
}
ENDED = (_FINISHED, _ABORTED, _EXPIRED)
