"""The class that users derive from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from towpath.actors.parts import Parts
    from towpath.actors.turn import Turn


class Actor(ABC):
    """A durable state machine. Its docstring's first sentence is what people see.

    One object of the class serves all its instances, from several threads at once: what a run has to remember belongs
    into its states. The annotation of `transition` names the states, the first of them being the usual start.
    """

    name: ClassVar[str] = ""
    """What people and the queue call it; by default the class's name in small letters, with hyphens."""

    def on_register(self, parts: Parts, /) -> None:
        """Called when a process makes the class known, before any instance of it runs there."""

    def watches(self) -> Mapping[str, str]:
        """States that only look from time to time whether something has come, each with the inbox that it watches."""
        return {}

    @abstractmethod
    def transition(self, state: Any, turn: Turn, /) -> Any:
        """The code of all states, as one `match`; what it returns comes next.

        That is a state, `Sleep`, `Wait`, `End()` or `Failed(reason)`. `End` and `Failed` are passed through here as
        well, for clean-up; what is returned for them does not matter.
        """
