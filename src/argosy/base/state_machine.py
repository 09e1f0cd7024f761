"""The interface of state machines: every component that depends on time or failures is written as one.

Events are facts in the past tense (`BidPlaced`); effects are imperatives (`AcquireLease`). A machine reads neither a
clock nor a random source: both are arguments. `handle(None, now)` means that only time has passed.
"""

from typing import Protocol, TypeVar

Event = TypeVar("Event", contravariant=True)
Effect = TypeVar("Effect")


class StateMachine(Protocol[Event, Effect]):
    """A deterministic core: the same events at the same times give the same effects."""

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        """Applies one event, or the passing of time, and returns the effects to perform."""
        ...

    def deadline(self) -> float | None:
        """When to call `handle(None, now)` if no event comes first; None means never."""
        ...


# For a machine that is composed of others: its deadline is the earliest of theirs.
def earliest(*deadlines: float | None) -> float | None:
    """The first of several deadlines, where None is never."""
    return min((d for d in deadlines if d is not None), default=None)
