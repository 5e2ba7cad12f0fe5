"""From what is known and a bad body to suggestions and to a correction. Pure."""

from __future__ import annotations

import orjson

from towpath.desk.corrections.correction import Change, Correction, Suggestion
from towpath.desk.corrections.fields import flattened
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.proposal import Doubt
from towpath.desk.corrections.proposing import Finding, automatic, examine
from towpath.desk.corrections.putting import with_values

MOST_BYTES = 1 << 20  # of a body that is looked at


def suggestions(knowledge: Knowledge, body: bytes, message: str) -> list[Suggestion]:
    """What may be wrong with a record, field by field; nothing if it is no JSON object."""
    return [Suggestion.of(each) for each in _findings(knowledge, body, message)]


def correction(knowledge: Knowledge, body: bytes, message: str) -> Correction | Doubt:
    """The record as it should be, if all that may be wrong with it is sure enough; the untouched bytes stay."""
    findings = _findings(knowledge, body, message)
    found = automatic(findings)
    if isinstance(found, Doubt):
        return found
    befores = {each.suspect.field: each.suspect.value for each in findings}
    changes = tuple(Change.of(each, befores[each.rule.field]) for each in found)
    return Correction(changes, with_values(body, {each.field: each.after for each in changes}))


def _findings(knowledge: Knowledge, body: bytes, message: str) -> list[Finding]:
    if len(body) > MOST_BYTES:
        return []
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return []
    return examine(knowledge, flattened(document), message) if isinstance(document, dict) else []
