"""Where the page is of what an event is about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from urllib.parse import quote

from towpath.access.roles import Scope
from towpath.core.events import EventKind

# Pages that not everybody may look at.
_FOR = {"user_": Scope.ADMIN, "key_": Scope.ADMIN, "upload_": Scope.DESK_WRITE, "sender_finished": Scope.DESK_WRITE}


def page_of(kind: str, subject: str, scopes: Collection[Scope] = frozenset(Scope)) -> str | None:
    """The address of its page; none: it has no page of its own, or who looks may not see it."""
    if any(kind.startswith(begins) and scope not in scopes for begins, scope in _FOR.items()):
        return None
    if kind == EventKind.MESSAGES_CLEANED or not subject:
        return None
    begins = max((each for each in _PAGES if kind.startswith(each)), key=len, default=None)
    return None if begins is None else _PAGES[begins](subject)


def _under(path: str) -> Callable[[str], str]:
    return lambda subject: f"{path}/{_part(subject)}"


def _in_two(path: str, mark: str) -> Callable[[str], str]:
    """Of subjects such as `actor:instance` or `flow/stage`."""

    def found(subject: str) -> str:
        first, _, second = subject.partition(mark)
        return f"{path}/{_part(first)}/{_part(second)}" if second else f"{path}/{_part(first)}"

    return found


def _first_of(path: str, mark: str) -> Callable[[str], str]:
    return lambda subject: f"{path}/{_part(subject.partition(mark)[0])}"


def _group(subject: str) -> str:
    """Of `flow/group`; when there are too many to name each, it is the flow alone."""
    flow, _, group = subject.rpartition("/")
    return f"/desk/groups/{_part(group)}" if flow else f"/desk/groups?flow={_part(group)}"


def _part(text: str) -> str:
    return quote(text, safe="")


# By the beginning of the kind; the longer ones first.
_PAGES: Mapping[str, Callable[[str], str]] = {
    "messages_": lambda subject: f"/queue/messages?inbox={_part(subject)}",
    "message_": _under("/queue/messages"),
    "claim_freed": _under("/queue/messages"),
    "queue_": lambda _: "/queue",
    "process_spawned": _in_two("/actors", ":"),
    "spawned_ended": _in_two("/actors", ":"),
    "process_": _under("/processes"),
    "term_": _under("/processes"),
    "duty_": _under("/processes"),
    "actor_switched": lambda subject: f"/workflows/{_part(subject)}",
    "actor_": _in_two("/actors", ":"),
    "data_set_": _under("/data-sets"),
    "schedule_": lambda _: "/workflows/schedules",
    "topic_": _under("/topics"),
    "records_expired": _first_of("/topics", "/"),
    "flow_": _first_of("/flows", "/"),
    "group_forgotten": lambda _: "/topics",
    "group_": _group,
    "case_group_": _under("/desk/groups"),
    "case_": _under("/desk/cases"),
    "desk_job_": _under("/desk/jobs"),
    "desk_growing": _under("/flows"),
    "lane_": lambda _: "/desk/lanes",
    "policies_": lambda _: "/desk/policies",
    "rule_": lambda _: "/desk/corrections",
    "rules_": lambda _: "/desk/corrections",
    "upload_": _under("/uploads"),
    "sender_finished": _first_of("/uploads", "/"),
    "user_": _under("/users"),
    "key_": lambda _: "/keys",
    "block_": lambda _: "/blocks",
    "complaint_": _under("/complaints"),
    "cleaned_": lambda _: "/maintenance",
}
