"""Lists that are made once for all who may see the same."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.support.console import MakeVisitor, Visitor

from towpath.runtime import Runtime
from towpath.web.console.layout.lists import SharedPages

COMMON = ("/", "/queue", "/queue/messages", "/events", "/desk/groups", "/processes")
# What passes between two looks: how long ago something was, and how long it has lasted.
TIMES = re.compile(r"<time.*?</time>|\d{2}:\d{2}:\d{2}(\.\d+)?|\d+(\.\d+)? (ms|s)\b", re.DOTALL)


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made stays fresh for as long as a test takes."""
    monkeypatch.setattr("towpath.web.console.layout.lists.FRESH_S", 600.0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of the lists that were made."""
    found: list[str] = []
    real = SharedPages.answer

    def answer(self: Any, request: Any, principal: Any, make: Any) -> Any:
        def counted(*given: Any) -> Any:
            found.append(request.url.path)
            return make(*given)

        return real(self, request, principal, counted)

    monkeypatch.setattr(SharedPages, "answer", answer)
    return found


def live(visitor: Visitor, path: str) -> str:
    """As the script of a page asks for it."""
    answer = visitor.get(path, x_live="1")
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("path", COMMON)
def test_the_second_one_gets_the_list_of_the_first_with_their_own_token(
    path: str, make_visitor: MakeVisitor, made: list[str]
) -> None:
    ann, bob = make_visitor("operator", name="ann"), make_visitor("operator", name="bob")
    of_ann, of_bob = live(ann, path), live(bob, path)
    assert made == [path]
    assert ann.token not in of_bob
    assert of_bob == of_ann.replace(ann.token, bob.token)
    assert ('name="token"' in of_bob) is (bob.token in of_bob)


@pytest.mark.part("matrix")
@pytest.mark.parametrize("path", COMMON)
def test_nothing_in_it_is_of_one_person(path: str, make_visitor: MakeVisitor, runtime: Runtime) -> None:
    """Made for each of two alone, they are the same; also where one of them is named in what is shown."""
    runtime.queue.synchronous("greeter")
    ann, bob = make_visitor("operator", name="ann"), make_visitor("operator", name="bob")
    runtime.queue.operator("ann").send("greeter", "greet", {}, "ann has asked for it")
    of_ann = live(ann, path)
    bob.app.state.shared_pages = SharedPages()
    of_bob = live(bob, path)
    assert TIMES.sub("", of_bob.replace(bob.token, "")) == TIMES.sub("", of_ann.replace(ann.token, ""))


def test_who_may_do_less_gets_their_own(make_visitor: MakeVisitor, runtime: Runtime, made: list[str]) -> None:
    runtime.queue.synchronous("greeter")
    operator, viewer = make_visitor("operator"), make_visitor("viewer")
    assert "/queue/send" in live(operator, "/queue")
    assert "/queue/send" not in live(viewer, "/queue")
    assert made == ["/queue"] * 2


def test_another_filter_and_news_have_it_made_again(make_visitor: MakeVisitor, made: list[str]) -> None:
    visitor = make_visitor("operator")
    for query in ("", "?kind=message_edited", ""):
        live(visitor, f"/events{query}")
    assert len(made) == 2
    visitor.app.state.broadcaster.version += 1
    live(visitor, "/events")
    assert len(made) == 3


def test_who_is_logged_out_gets_nothing(make_visitor: MakeVisitor, made: list[str]) -> None:
    ann, bob = make_visitor("operator", name="ann"), make_visitor("operator", name="bob")
    live(ann, "/events")
    live(bob, "/events")
    bob.post("/logout")
    assert bob.get("/events", x_live="1").status_code != 200


def test_what_a_person_asks_for_is_made_for_them(make_visitor: MakeVisitor, made: list[str]) -> None:
    visitor = make_visitor("operator")
    visitor.text("/events")
    visitor.text("/events")
    assert made == []


def test_a_failure_is_not_kept(make_visitor: MakeVisitor, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = make_visitor("operator")
    with monkeypatch.context() as broken:
        broken.setattr(type(runtime.event_log), "search", None)
        assert visitor.get("/events", x_live="1").status_code == 500
    live(visitor, "/events")
