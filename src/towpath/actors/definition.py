"""What is known of an actor's class: its name, its states, and how a state becomes JSON and back.

Whatever is wrong with a class is said here, when it is registered, and not by an instance at three in the morning.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import PydanticSerializationError

from towpath.actors.actor import TERMINAL, Actor, Resume, Sleep, Wait, resume_of
from towpath.errors import BadActor, BadState

LONGEST_NAME = 60

_NAME = re.compile(rf"[a-z0-9][a-z0-9_.-]{{0,{LONGEST_NAME - 1}}}")
_PAUSES = (Sleep, Wait)


def is_name(name: str) -> bool:
    """Whether an actor may be called so."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True)
class StateKind:
    """One of the states of an actor."""

    name: str
    cls: type[Any]
    resume: Resume
    adapter: TypeAdapter[Any]

    @property
    def is_terminal(self) -> bool:
        return self.cls in TERMINAL

    def read(self, payload: Any) -> Any:
        """The state of these fields, or `BadState` with what is wrong with them."""
        try:
            return self.adapter.validate_python({} if payload is None else payload)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, each['loc'])) or self.name}: {each['msg'][:1].lower()}{each['msg'][1:]}"
                for each in error.errors(include_url=False, include_context=False, include_input=False)
            )
            raise BadState(f"this is no {self.name}: {problems}") from error

    def write(self, value: Any) -> Any:
        """Its fields as JSON, or `BadState`."""
        try:
            return self.adapter.dump_python(value, mode="json", warnings="error")
        except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
            raise BadState(f"{self.name} cannot be written as JSON: {error}") from error


@dataclass(frozen=True)
class Definition:
    """One class, checked."""

    name: str
    about: str
    actor: Actor
    states: dict[str, StateKind]

    @property
    def first(self) -> StateKind:
        """The state that a start means when it names none."""
        return next(iter(self.states.values()))

    def kind(self, name: str) -> StateKind:
        """The state of that name, or `BadState`."""
        try:
            return self.states[name]
        except KeyError:
            raise BadState(f"{name!r} is no state of {self.name}; its states: {', '.join(self.states)}") from None

    def kind_of(self, value: Any) -> StateKind:
        """Which of the states this value is, or `BadState`."""
        kind = self.states.get(type(value).__name__)
        if kind is None or kind.cls is not type(value):
            raise BadState(f"{value!r} is no state of {self.name}; its states: {', '.join(self.states)}")
        return kind


@cache
def define(cls: type[Actor]) -> Definition:
    """Check a class and everything that can be known of it; raises `BadActor`."""
    found = [_kind(cls, each) for each in (*_declared(cls), *TERMINAL)]
    states = {kind.name: kind for kind in found}
    if len(states) < len(found):
        raise BadActor(f"{cls.__name__}: two of its states have the same name; names are what the queue keeps")
    return Definition(_name(cls), _about(cls), _made(cls), states)


def _made(cls: type[Actor]) -> Actor:
    try:
        return cls()
    except TypeError as error:
        raise BadActor(f"{cls.__name__} cannot be made without arguments: {error}") from error


def _name(cls: type[Actor]) -> str:
    name = cls.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()
    if not is_name(name):
        raise BadActor(f"{cls.__name__}: {name!r} is no usable name: small letters, digits, '-', '_' and '.'")
    return name


def _about(cls: type[Actor]) -> str:
    text = inspect.cleandoc(cls.__doc__ or "").strip()
    if not text or cls.__doc__ == Actor.__doc__:
        raise BadActor(f"{cls.__name__} has no docstring; people will see its first sentence")
    return " ".join(text.split("\n\n")[0].split())


def _declared(cls: type[Actor]) -> list[type[Any]]:
    """The states that the first parameter of `transition` names, without `End` and `Failed`."""
    parameters = list(inspect.signature(cls.transition).parameters.values())
    if len(parameters) != 3:
        raise BadActor(f"{cls.__name__}.transition takes (self, state, turn)")
    annotation = parameters[1].annotation
    if isinstance(annotation, str):
        annotation = _evaluated(cls, annotation)
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    named = typing.get_args(annotation) if union else (annotation,)
    states = [each for each in named if each not in TERMINAL]
    if not states or inspect.Parameter.empty in states or Any in states:
        raise BadActor(
            f"{cls.__name__}.transition: say which states there are, the first one first, "
            "as in `def transition(self, state: Start | Fetch, turn: Turn)`"
        )
    return states


def _evaluated(cls: type[Actor], annotation: str) -> Any:
    """Only this one: others may name what is imported for type checkers alone."""
    try:
        return eval(annotation, cls.transition.__globals__, dict(vars(cls)))  # noqa: S307 - the class's own code
    except NameError as error:
        raise BadActor(
            f"{cls.__name__}.transition: {error}; states stand in the class or at the top of a module"
        ) from error


def _kind(cls: type[Actor], found: Any) -> StateKind:
    name = getattr(found, "__name__", repr(found))
    if found in _PAUSES:
        raise BadActor(f"{cls.__name__}: {name} is returned, it is no state")
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise BadActor(f"{cls.__name__}: {name} is no state; write `@state` above its class")
    if not found.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise BadActor(f"{cls.__name__}: {name} can be changed; write `@state`, or `@dataclass(frozen=True)`")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(found)
        adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError, NameError) as error:
        why = str(error).partition("\n")[0]
        raise BadActor(f"{cls.__name__}: {name} cannot be kept as JSON: {why}") from error
    return StateKind(name, found, resume_of(found), adapter)
