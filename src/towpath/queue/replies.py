"""Answers: new messages to the asker's reply inbox, written with the move that they tell of."""

from __future__ import annotations

from typing import Any

from towpath.db import Transaction
from towpath.queue.message import Draft, Message
from towpath.queue.parts import Parts
from towpath.queue.payload import new_id, to_json

REPLY = "REPLY"


def answer(parts: Parts, tx: Transaction, message_id: str, reply_to: str, payload: Any) -> None:
    """Write the answer to a request. The caller moves the request in the same transaction."""
    parts.messages.insert(
        tx,
        Draft(
            id=new_id(),
            inbox=reply_to,
            function=REPLY,
            related_id=message_id,
            audit_id=message_id,
            payload_json=to_json(payload, parts.settings.max_payload_bytes, "answer"),
            ttl_s=parts.settings.reply_ttl_s,
        ),
    )


def answer_with_failure(parts: Parts, tx: Transaction, message_id: str, reply_to: str, reason: str) -> None:
    answer(parts, tx, message_id, reply_to, {"error": reason})


def answer_all(parts: Parts, tx: Transaction, messages: list[Message], payload: Any) -> None:
    """The same answer to many requests, in one go: a batch keeps other writers waiting until it is written."""
    asked = [(new_id(), message.id, message.reply_to) for message in messages if message.reply_to is not None]
    if len(asked) == 1:
        [(_, message_id, reply_to)] = asked
        answer(parts, tx, message_id, reply_to, payload)
    elif asked:
        text = to_json(payload, parts.settings.max_payload_bytes, "answer")
        parts.messages.insert_answers(tx, REPLY, asked, text, parts.settings.reply_ttl_s)
