"""Learning from operators: what they have put where, and whether rules would have put the same."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db import Database, Transaction
from towpath.desk.corrections.count import Counts
from towpath.desk.corrections.evidence_store import EditToLearn, EvidenceStore
from towpath.desk.corrections.fields import Flat, flattened, token
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.proposing import Finding, examine
from towpath.desk.corrections.rule import Rule, RuleKind
from towpath.desk.corrections.rule_store import RuleStore
from towpath.desk.corrections.tally import Taken, Wanted, meant
from towpath.errors import LogError
from towpath.log.log import Log

PORTION = 200  # edits in one transaction
MEANT_SUPPORT = 3  # edits of the same value, before they may be made without asking
MOST_FIELDS = 10  # that differ, above which an edit is another record and not a correction


def learn_edits(database: Database, log: Log, flow: str) -> tuple[int, list[Rule]]:
    """How many edits were counted, and the rules that were found by them."""
    counted, rules = 0, []
    while edits := _next(database, flow):
        befores = {edit: _before(log, edit) for edit in edits}
        portion, new = _learn(database, flow, befores)
        counted += portion
        rules += new
        if len(edits) < PORTION:
            break
    return counted, rules


def _next(database: Database, flow: str) -> list[EditToLearn]:
    with database.read() as tx:
        return EvidenceStore(database).edits(tx, flow, PORTION)


def _before(log: Log, edit: EditToLearn) -> bytes | None:
    """The record as it has failed for the first time; None if the log does not have it any more."""
    try:
        record = log.record(edit.topic, edit.partition, edit.offset)
    except LogError:
        return None
    return None if record is None else record.value


def _learn(database: Database, flow: str, befores: dict[EditToLearn, bytes | None]) -> tuple[int, list[Rule]]:
    """L2."""
    evidence, rules = EvidenceStore(database), RuleStore(database)
    with database.transaction() as tx:
        known = rules.list(tx, flow)
        knowledge = Knowledge(known, evidence.read(tx, flow))
        counts, done = Counts(), 0
        for edit, before in befores.items():
            if evidence.mark(tx, edit):
                done += 1
                _add(tx, evidence, knowledge, flow, edit, before, counts)
        evidence.add(tx, flow, edited=counts)
        new = rules.add(tx, _meant_rules(flow, counts, known))
        crash.here(CrashPoint.LEARN_EDITS_BEFORE_COMMIT)
    crash.here(CrashPoint.LEARN_EDITS_AFTER_COMMIT)
    return done, new


def _add(
    tx: Transaction,
    evidence: EvidenceStore,
    knowledge: Knowledge,
    flow: str,
    edit: EditToLearn,
    before: bytes | None,
    counts: Counts,
) -> None:
    old, new = _flat(before), _flat(edit.value)
    if old is None or new is None:
        return
    changed = [field for field in new if token(old.get(field)) != token(new[field])]
    if not 0 < len(changed) <= MOST_FIELDS:
        return
    Taken(_wanted(knowledge.rules, changed)).add_decided(new, counts)
    counts.update(filter(None, (meant(new, field, old.get(field)) for field in changed)))
    findings = {each.suspect.field: each for each in examine(knowledge, old, edit.message)}
    for field in changed:
        rule, agrees = _verdict(findings.get(field), new, field)
        evidence.verdict(tx, flow, edit, field, rule, agrees)


def _verdict(finding: Finding | None, new: Flat, field: str) -> tuple[int | None, bool | None]:
    """The rule that has suggested something for a field, and whether the operator has put the same."""
    if finding is None or not finding.proposals:
        return None, None
    best = finding.proposals[0]
    return best.rule.id, token(best.value) == token(new[field])


def _wanted(rules: Iterable[Rule], changed: Iterable[str]) -> Wanted:
    """What an edit says about rules: only about the fields that it has changed."""
    fields = set(changed)
    return Wanted.of([rule for rule in rules if rule.kind is RuleKind.DECIDED and rule.field in fields])


def _meant_rules(flow: str, counts: Counts, known: Iterable[Rule]) -> list[Rule]:
    fields = {count.field for count in counts if count.aspect == "meant"}
    fields -= {rule.field for rule in known if rule.kind is RuleKind.MEANT}
    return [Rule(flow, field, RuleKind.MEANT, support=MEANT_SUPPORT) for field in sorted(fields)]


def _flat(body: bytes | None) -> Flat | None:
    try:
        document = None if body is None else orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return flattened(document) if isinstance(document, dict) else None
