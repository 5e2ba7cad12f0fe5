"""Changes of a body by a rule: learned corrections, and salvage, which leaves bad fields out."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from towpath.db import Transaction
from towpath.flow.failure import Failure
from towpath.flow.reentry_record import CORRECTED
from towpath.log.headers import decode_headers, encode_headers

HEADER = "header"  # among the data of what was mended: what that header is to say


@dataclass(frozen=True, slots=True)
class Mended:
    """Another body, and who has made it why."""

    value: bytes
    who: str
    why: str
    data: Mapping[str, Any] = field(default_factory=dict)


class Made(NamedTuple):
    """An edit that a rule has made of a case."""

    case_id: str
    edit: int
    attempts: int  # failures before it
    mended: Mended


class Mender(Protocol):
    """Somebody who has learned how records are corrected."""

    def automatic(self, flow: str, stage: str, value: bytes, failure: Failure) -> Mended | None:
        """The correction that is sure enough to be made without a person; None: there is none."""

    def made(self, tx: Transaction, made: Sequence[Made]) -> None:
        """These of its corrections are made, by this transaction."""


class NoMender:
    """Nobody has learned anything."""

    def automatic(self, flow: str, stage: str, value: bytes, failure: Failure) -> Mended | None:
        return None

    def made(self, tx: Transaction, made: Sequence[Made]) -> None:
        pass


def marked(headers: str, mended: Mended) -> str:
    """Encoded headers, with what was changed of the record: whoever reads it can see that."""
    if HEADER not in mended.data:
        return headers
    return encode_headers((*decode_headers(headers), (CORRECTED, str(mended.data[HEADER]).encode()))) or headers


def salvaged(value: bytes, fields: Collection[str], rule: str) -> Mended | None:
    """The record without these fields; None when it has none of them, or is no JSON object."""
    from towpath.flow.text.reading import Unreadable, read_document  # needs Arrow
    from towpath.flow.text.splicing import splice

    try:
        document = read_document(value)
    except Unreadable:
        return None
    left_out = sorted(name for name in fields if name in document)
    if not left_out:
        return None
    why = f"left out: {', '.join(left_out)}"
    said = {"left_out": left_out, HEADER: json.dumps({"left_out": left_out, "rule": rule})}
    return Mended(splice(value, {}, left_out), f"rule:{rule}", why, said)
