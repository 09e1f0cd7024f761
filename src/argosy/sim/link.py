"""The link between one node and the store: two directions, each with latency, loss, late messages and partitions.

Messages travel as over a pool of TCP connections: none is duplicated, but one may overtake another, and one that met a
partition may still arrive when it heals, long after its sender has timed out.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from argosy.base.clock import Random
from argosy.base.errors import Invalid
from argosy.sim.loop import OUTSIDE, SimLoop

HELD_MAX = 1_000  # messages that a partition delays; kernel buffers are bounded too


class Direction(StrEnum):
    UP = "up"  # from the node to the store
    DOWN = "down"  # from the store to the node


@dataclass(frozen=True)
class LinkQuality:
    """How a link behaves while it is whole. Chances are per message."""

    latency_s: float = 0.001  # at least
    jitter_s: float = 0.002  # mean of an exponentially distributed addition
    loss_chance: float = 0.0  # the connection breaks under the message
    late_chance: float = 0.0  # the message is overtaken by many others
    late_s_max: float = 0.0
    keepalive_s: float = 10.0  # a silent partition is noticed after this long, as gRPC and Redis usually do

    def __post_init__(self) -> None:
        if min(self.latency_s, self.jitter_s, self.late_s_max) < 0 or not 0 <= self.loss_chance + self.late_chance <= 1:
            raise Invalid(f"invalid link {self}; times must be at least 0 s and chances must add up to at most 1")


class Link:
    """Carries messages both ways; what a message does on arrival is a callback."""

    def __init__(self, loop: SimLoop, random: Random, quality: LinkQuality) -> None:
        self.slowness = 1.0  # multiplies every latency
        self.lag_chance = 0.0  # of being late, on top of what the quality says
        self._loop = loop
        self._random = random
        self.quality = quality
        self._blocks = {Direction.UP: 0, Direction.DOWN: 0}
        self._held: dict[Direction, list[Callable[[], None]]] = {Direction.UP: [], Direction.DOWN: []}
        self.on_block: list[Callable[[], None]] = []
        self.on_heal: list[Callable[[], None]] = []

    def is_blocked(self, direction: Direction) -> bool:
        return self._blocks[direction] > 0

    def is_whole(self) -> bool:
        return not any(self._blocks.values())

    def block(self, direction: Direction) -> None:
        """Start a partition; several may overlap."""
        self._blocks[direction] += 1
        for observer in list(self.on_block):
            observer()

    def heal(self, direction: Direction) -> None:
        self._blocks[direction] -= 1
        assert self._blocks[direction] >= 0, "a partition ends once"
        if self._blocks[direction] == 0:
            held, self._held[direction] = self._held[direction], []
            for arrive in held:
                self._later(self.latency(), arrive)
            for observer in list(self.on_heal):
                observer()

    def latency(self) -> float:
        """Never longer than a keep-alive waits: a connection that is slower than that counts as broken."""
        quality = self.quality
        # An exponential distribution by inverse transform.
        drawn_s = quality.latency_s - math.log(1.0 - self._random.random()) * quality.jitter_s
        return min(drawn_s * self.slowness, quality.keepalive_s)

    def send(self, direction: Direction, arrive: Callable[[], None], lost: Callable[[], None]) -> None:
        """Call `arrive` later; or `lost` if the sender notices that the connection broke; or neither."""
        chance = self._random.random()
        quality = self.quality
        # Half of the messages into a partition are retransmitted by TCP and arrive when it heals; the others are gone
        # with their connection. The sender learns neither.
        if self.is_blocked(direction):
            if chance < 0.5 and len(self._held[direction]) < HELD_MAX:
                self._held[direction].append(arrive)
        elif chance < quality.loss_chance:
            # Half of all broken connections are noticed at once, the others by a timeout.
            if chance < quality.loss_chance / 2:
                self._later(self.latency(), lost)
        elif chance < quality.loss_chance + quality.late_chance + self.lag_chance:
            self._later(self._random.uniform(0.0, quality.late_s_max), arrive)
        else:
            self._later(self.latency(), arrive)

    def _later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, callback, context=OUTSIDE)
