"""Answers: new messages to the asker's reply inbox, written with the move that they tell of."""

from __future__ import annotations

from typing import Any

from towpath.db import Transaction
from towpath.db.text import storable
from towpath.queue.message import Draft, Message
from towpath.queue.parts import Parts
from towpath.queue.payload import new_id, to_json

REPLY = "REPLY"
# An asker must learn of a failure also where payloads are kept very small.
FAILURE_BYTES = 16 << 10
LONGEST_REASON = 2_500  # characters, of which each takes six bytes at most


def answer(parts: Parts, tx: Transaction, message_id: str, reply_to: str, payload: Any) -> None:
    """Write the answer to a request. The caller moves the request in the same transaction."""
    _write(parts, tx, [(message_id, reply_to)], to_json(payload, parts.settings.max_payload_bytes, "answer"))


def answer_with_failure(parts: Parts, tx: Transaction, message_id: str, reply_to: str, reason: str) -> None:
    """Tell an asker why its request has failed."""
    _write(parts, tx, [(message_id, reply_to)], _failure(parts, reason))


def answer_all(parts: Parts, tx: Transaction, messages: list[Message], payload: Any) -> None:
    """The same answer to all of these that are requests."""
    if asked := _asked(messages):
        _write(parts, tx, asked, to_json(payload, parts.settings.max_payload_bytes, "answer"))


def answer_all_with_failure(parts: Parts, tx: Transaction, messages: list[Message], reason: str) -> None:
    """Tell all of these that are requests why they have failed."""
    if asked := _asked(messages):
        _write(parts, tx, asked, _failure(parts, reason))


def _asked(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.id, message.reply_to) for message in messages if message.reply_to is not None]


def _failure(parts: Parts, reason: str) -> str:
    said = storable(reason)[:LONGEST_REASON]
    return to_json({"error": said}, max(FAILURE_BYTES, parts.settings.max_payload_bytes), "answer")


def _write(parts: Parts, tx: Transaction, asked: list[tuple[str, str]], payload_json: str) -> None:
    ttl_s = parts.settings.reply_ttl_s
    if len(asked) == 1:
        [(message_id, reply_to)] = asked
        parts.messages.insert(
            tx,
            Draft(new_id(), reply_to, REPLY, payload_json, related_id=message_id, audit_id=message_id, ttl_s=ttl_s),
        )
    else:  # in one go: a batch keeps other writers waiting until it is written
        parts.messages.insert_answers(tx, REPLY, [(new_id(), *each) for each in asked], payload_json, ttl_s)
    for name in {reply_to for _, reply_to in asked}:
        parts.ring_after(tx, name)
