"""What the checkers found."""

from collections.abc import Callable
from dataclasses import dataclass

VIOLATIONS_MAX = 20  # of one world; after the first few, the rest is noise


@dataclass(frozen=True)
class Violation:
    """An invariant was broken, at an instant of true time."""

    invariant: str
    at: float
    message: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at:.3f} s: {self.message}"


class ViolationLog:
    """The violations of one world, in the order in which they were seen."""

    def __init__(self, true_now: Callable[[], float]) -> None:
        self.true_now = true_now
        self.violations: list[Violation] = []

    def add(self, invariant: str, message: str) -> None:
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(invariant, self.true_now(), message))
