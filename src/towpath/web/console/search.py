"""The search box of every page: straight to what is meant when that is clear, otherwise all that it may mean.

Each way of reading the text is asked; what is there by that name is a hit. Every question is answered by an index, or
by a list that is short: nothing here reads a topic or a large table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from towpath.access.roles import Principal
from towpath.desk.masks import MASK, Masks
from towpath.errors import BadSettings, LogError, Refused
from towpath.flow.sinks.index.reader import parse_coordinates
from towpath.flow.stage.status import StageStatus, stage_statuses
from towpath.log.topic import Topic
from towpath.supervision.service import DutyView
from towpath.web.auth import Reader, runtime_of
from towpath.web.console.layout.filters import link, short
from towpath.web.console.layout.page import page
from towpath.web.visitors import seen_of

if TYPE_CHECKING:
    from towpath.runtime import Runtime


router = APIRouter(include_in_schema=False)

LONGEST = 300
MOST_LIKE = 20  # of one kind whose names only have the text in them

# What the box understands, for who has found nothing.
UNDERSTOOD = (
    ("orders/0/1234", "a record: topic, partition and offset"),
    ("case 17", "a case, or its id or the beginning of that, which is also the correlation id"),
    ("group 3", "a group of cases; a number alone is both"),
    ("0190f3c2-…", "a message, an upload, a bulk job or a data set by its id"),
    ("towpath-aef03ea8c5a3", "a process by its id, or what it does by its name"),
    ("orders:0:0:1234", "a document whose id is made from a record's place"),
    ("Importer:main", "an actor and its instance"),
    ("orders", "a flow, a topic, an inbox, a workflow or a stream by its name"),
)

_PLACE = re.compile(r"(?P<topic>[^/\s]+)/(?P<partition>\d{1,9})(?:/(?P<offset>\d{1,18}))?", re.ASCII)
_NUMBERED = re.compile(r"(?:(?P<kind>case|group|job|complaint)\s*)?#?\s*(?P<number>\d{1,18})", re.ASCII | re.IGNORECASE)

T = TypeVar("T")


@router.get("/find")
def find(request: Request, principal: Reader) -> Response:
    """Find something by what is known of it. `all` lists what is found, even when it is one thing."""
    text = request.query_params.get("q", "").strip()[:LONGEST]
    search = ConsoleSearch(runtime_of(request), principal, text)
    hits = search.hits()
    exact = [hit for hit in hits if hit.is_exact]
    if len(exact) == 1 and not request.query_params.get("all"):
        return RedirectResponse(exact[0].href, 303)
    return page(request, "find.html", text=text, hits=hits, further=search.further(), understood=UNDERSTOOD)


class Hit(NamedTuple):
    """Something that is there."""

    what: str
    name: str
    href: str
    about: str = ""
    is_exact: bool = True  # otherwise its name only has the text in it


@dataclass(frozen=True, slots=True)
class ConsoleSearch:
    """Somebody who looks for a text."""

    runtime: Runtime
    principal: Principal
    text: str

    @property
    def masks(self) -> Masks:
        return self.runtime.desk.masks_for(self.principal.role)

    def hits(self) -> list[Hit]:
        """All of them, each page once, the exact ones first."""
        if not self.text:
            return []
        ways = (self._places, self._documents, self._numbers, self._ids, self._processes, self._names, self._actors)
        found: dict[str, Hit] = {}
        for hit in (hit for way in ways for hit in way()):
            found.setdefault(hit.href, hit)
        return sorted(found.values(), key=lambda hit: not hit.is_exact)

    def further(self) -> list[Hit]:
        """Where a text can be looked for that is not the name of anything: this takes a longer look."""
        if not self.text:
            return []
        keys = [
            Hit(
                "records with this key",
                f"{topic}, {look.stage.flow}",
                _trace(look.stage.flow, topic=topic, key=self.text),
            )
            for look in self._looks()
            for topic in look.stage.topology.get("topics", ())
            if not self.masks.of(look.stage.flow).hides_key
        ]
        query = urlencode({"text": self.text})
        said = [Hit("cases with this in their error", self.text, f"/desk/cases?{query}")]
        with self.runtime.database.read() as tx:
            has_events = bool(self.runtime.event_log.page(tx, limit=1, subject=self.text))
        events = [Hit("events about this", self.text, f"/events?{urlencode({'subject': self.text})}")]
        return said + (events if has_events else []) + list(dict.fromkeys(keys))

    # Records

    def _places(self) -> Iterator[Hit]:
        """`topic/partition/offset`, and `topic/partition`."""
        found = _PLACE.fullmatch(self.text)
        if found is None:
            return
        topic, number, offset = found["topic"], int(found["partition"]), found["offset"]
        is_there = topic in {each.name for each in self._topics()}
        if offset is None:
            if is_there:
                yield Hit("partition", self.text, f"/topics/{link(topic)}/records?partition={number}")
            return
        readers = [look.stage.flow for look in self._looks() if topic in look.stage.topics]
        for flow in dict.fromkeys(readers):
            where = _trace(flow, topic=topic, partition=number, offset=int(offset))
            yield Hit("record", self.text, where, f"where {flow} has it")
        if is_there and not readers:
            yield Hit("record", self.text, f"/topics/{link(topic)}/records/{number}/{int(offset)}")

    def _documents(self) -> Iterator[Hit]:
        """`topic:incarnation:partition:offset`, as ids of documents are."""
        place = parse_coordinates(self.text)
        if place is None:
            return
        for flow in dict.fromkeys(look.stage.flow for look in self._looks() if place[0] in look.stage.topics):
            yield Hit("document", self.text, _trace(flow, id=self.text), f"the record of which {flow} made it")

    # Numbers and ids

    def _numbers(self) -> Iterator[Hit]:
        """A number alone may be a case or a group; `group 7` says which."""
        found = _NUMBERED.fullmatch(self.text)
        if found is None or int(found["number"]) == 0:
            return
        number, kind = int(found["number"]), (found["kind"] or "").lower()
        desk = self.runtime.desk
        if kind in ("", "case") and (case := _there(lambda: desk.cases.find(str(number)))) and case.seq == number:
            yield Hit("case", f"case {number}", f"/desk/cases/{case.id}", f"{case.state}, {case.flow}")
        if kind in ("", "group") and (group := _there(lambda: desk.groups.show(number))):
            title = MASK if self.masks.of(group.group.flow) else short(group.group.title)
            yield Hit("group", f"group {number}", f"/desk/groups/{number}", f"{group.group.state}, {title}")
        if kind == "job" and (job := _there(lambda: desk.jobs.find(str(number)))):
            yield Hit("bulk job", job.name, f"/desk/jobs/{job.id}", str(job.state))
        if kind == "complaint" and _there(lambda: self.runtime.complaints.show(number)):
            yield Hit("complaint", f"complaint {number}", f"/complaints/{number}")

    def _ids(self) -> Iterator[Hit]:
        """Ids of what has a page of its own; a case also by a beginning of its id, which is the correlation id."""
        text, runtime = self.text, self.runtime
        if not text.isdecimal() and (case := _there(lambda: runtime.desk.cases.find(text))):
            yield Hit("case", f"case {case.seq}", f"/desk/cases/{case.id}", f"{case.state}, {case.flow}")
        if message := _there(lambda: runtime.queue.browser().message(text)):
            about = f"{message.state} in {message.inbox}"
            yield Hit("message", message.function, f"/queue/messages/{message.id}", about)
        if upload := _there(lambda: runtime.gateway.status(text, owner=seen_of(self.principal)).upload):
            about = f"{upload.state}, of {upload.owner}"
            yield Hit("upload", upload.label or upload.id, f"/uploads/{link(upload.id)}", about)
        if not text.isdecimal() and (job := _there(lambda: runtime.desk.jobs.find(text))):
            yield Hit("bulk job", job.name, f"/desk/jobs/{job.id}", str(job.state))
        if made := _there(lambda: runtime.data_sets.show(text).data_set):
            yield Hit("data set", f"{made.kind} {made.subject}", f"/data-sets/{link(made.id)}", str(made.state))

    # Names

    def _processes(self) -> Iterator[Hit]:
        found = _there(lambda: self.runtime.duties.find(self.text))
        if isinstance(found, DutyView):
            yield Hit("process", found.duty.name, f"/processes/{link(found.duty.name)}", str(found.duty.state))
        elif found is not None:
            yield Hit("process", found.id, f"/processes/{link(found.id)}", found.state)

    def _names(self) -> Iterator[Hit]:
        flows = dict.fromkeys(look.stage.flow for look in self._looks())
        yield from self._alike("flow", flows, lambda name: f"/flows/{link(name)}")
        topics = [each.name for each in self._topics()]
        yield from self._alike("topic", topics, lambda name: f"/topics/{link(name)}")
        known = [each.name for each in self.runtime.actors.known()]
        yield from self._alike("workflow", known, lambda name: f"/workflows/{link(name)}")
        streams = self.runtime.gateway.streams.names
        yield from self._alike("stream of uploads", streams, lambda name: f"/uploads?{urlencode({'stream': name})}")
        if _there(self._is_inbox):
            yield Hit("inbox", self.text, f"/queue/messages?{urlencode({'inbox': self.text})}")

    def _is_inbox(self) -> bool:
        self.runtime.queue.browser().check_inbox(self.text)
        return True

    def _alike(self, what: str, names: Iterable[str], href: Callable[[str], str]) -> Iterator[Hit]:
        wanted = self.text.lower()
        like = [name for name in names if wanted in name.lower()]
        for name in sorted(like, key=lambda name: (name != self.text, name))[:MOST_LIKE]:
            yield Hit(what, name, href(name), is_exact=name == self.text)

    def _actors(self) -> Iterator[Hit]:
        """`actor:instance`."""
        actor, mark, instance = self.text.partition(":")
        if mark and (found := _there(lambda: self.runtime.actors.instance(actor, instance))):
            href = f"/actors/{link(actor)}/{link(instance)}"
            yield Hit("actor", self.text, href, f"{found.phase}, {found.step}")

    def _looks(self) -> list[StageStatus]:
        return stage_statuses(self.runtime.database)

    def _topics(self) -> list[Topic]:
        """None when the log does not answer, or there is none: other things are found all the same."""
        try:
            return self.runtime.log.topics()
        except (BadSettings, LogError):
            return []


def _there(look: Callable[[], T]) -> T | None:
    """What is there by that name; none: nothing is, or it could be no name of such a thing."""
    try:
        return look()
    except Refused:
        return None


def _trace(flow: str, **which: object) -> str:
    return f"/trace?{urlencode({'flow': flow, **which})}"
