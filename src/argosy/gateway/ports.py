"""What the front door needs from outside: somebody who says who may come in."""

from typing import Protocol


class Pass(Protocol):
    """One admitted request; its end is told, so that whoever admits learns how much there is to share out."""

    def done(self, *, is_exhausted: bool) -> None:
        """`is_exhausted`: it could not be served for want of capacity."""
        ...


class Admission(Protocol):
    """Decides locally and at once: no request waits for a shared store (THR-2)."""

    def admit(self, client: str) -> Pass:
        """Throttled if this client has to wait."""
        ...
