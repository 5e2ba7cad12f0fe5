"""Which record is to be traced: by its place, its key, a document made of it, or its case."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field, model_validator

from towpath.desk.masking import Masks
from towpath.desk.tracing import CaseTracer
from towpath.errors import BadValue, FieldsMasked
from towpath.flow.trace import Tracer
from towpath.flow.trace_finding import Coordinates, by_document, by_key
from towpath.runtime import Runtime
from towpath.web.desk_models import CaseName, Named
from towpath.web.model import LARGEST, Sent

MOST_SCANNED = 200_000  # offsets that are looked at for a key
HOW = "say which record: topic, partition and offset; or topic and key; or id; or case"
_WAYS = ({"topic", "partition", "offset"}, {"topic", "key"}, {"id"}, {"case"})


class Wanted(Sent):
    """A record, or several of one key."""

    flow: Named | None = Field(None, description="Not needed with a case.")
    topic: Named | None = None
    partition: int | None = Field(None, ge=0, le=1_000_000)
    offset: int | None = Field(None, ge=0, le=LARGEST)
    key: str | None = Field(None, max_length=10_000, description="Records of that key in a topic, the newest.")
    id: Named | None = Field(None, description="Of a document, where that is made from the place of the record.")
    case: CaseName | None = Field(None, description="Its number, or its id, which is the correlation id.")

    @model_validator(mode="after")
    def _says_one(self) -> Wanted:
        if self.model_fields_set - {"flow"} not in _WAYS:
            raise ValueError(HOW)
        if self.flow is None and self.case is None:
            raise ValueError("say of which flow")
        return self


@dataclass(frozen=True, slots=True)
class Meant:
    """The records that are meant, and who traces them."""

    tracer: Tracer
    records: list[Coordinates]
    matches: int | None = None  # of a key: how many have it
    offsets_read: int | None = None  # of a key: of each partition, if not all


def find(runtime: Runtime, wanted: Wanted, masks: Masks) -> Meant:
    """Raises `UnknownFlow`, `UnknownCase`, `BadValue`; and `FieldsMasked` for who may not see keys."""
    if wanted.case is not None:
        found = CaseTracer(runtime.database).of_case(wanted.case).case
        if wanted.flow not in (None, found.flow):
            raise BadValue(f"case {wanted.case} is of flow {found.flow!r}, not {wanted.flow!r}")
        return Meant(_tracer(runtime, found.flow), [(found.topic, found.partition, found.offset, found.topic_id)])
    tracer = _tracer(runtime, wanted.flow or "")
    if wanted.id is not None:
        return Meant(tracer, [by_document(tracer, wanted.id)])
    if wanted.key is not None:
        return _of_key(runtime, tracer, wanted.topic or "", wanted.key, masks)
    return Meant(tracer, [(wanted.topic or "", wanted.partition or 0, wanted.offset or 0, None)])


def _of_key(runtime: Runtime, tracer: Tracer, topic: str, key: str, masks: Masks) -> Meant:
    if masks.of(tracer.flow).hides_key:
        raise FieldsMasked("keys are masked for you: nobody is told which records have this one")
    tracer.current_id(topic)  # says that the flow does not read it
    found = by_key(runtime.log, topic, key.encode(), MOST_SCANNED)
    places: list[Coordinates] = [(each.topic, each.partition, each.offset, None) for each in found.records]
    return Meant(tracer, places, found.total, found.offsets)


def _tracer(runtime: Runtime, flow: str) -> Tracer:
    return Tracer(runtime.database, runtime.log, flow, error_topic=runtime.policies.error_topic(flow))
