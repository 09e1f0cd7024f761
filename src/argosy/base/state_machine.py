"""The grammar of machines: everything that has time or failure in it is written this way.

Events are facts in the past tense (`BidPlaced`); effects are orders (`AcquireLease`). A machine never reads a clock and
never rolls a die: both are handed in. `handle(None, now)` means that only time has passed.
"""

from typing import Protocol, TypeVar

Event = TypeVar("Event", contravariant=True)
Effect = TypeVar("Effect")


class StateMachine(Protocol[Event, Effect]):
    """A deterministic core: the same events at the same times give the same effects."""

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        """Takes in one fact (or the passing of time) and returns the orders that follow."""
        ...

    def deadline(self) -> float | None:
        """When to be woken if nothing happens; None means never."""
        ...


def earliest(*deadlines: float | None) -> float | None:
    """The first of several deadlines, where None is never."""
    return min((d for d in deadlines if d is not None), default=None)
