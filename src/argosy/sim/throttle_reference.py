"""The evaluation of the Go original with its own random numbers: the counts that it has published come out exactly.

Its evaluator draws everything from Go's seeded generator. With the same numbers the counts must be the same, or the
arithmetic differs somewhere. That generator adds the values 607 and 273 places back, modulo 2^64. Its start is a table:
the state after 7.8e12 steps from seed 1. The table is computed here instead of copied, by raising x to that power
modulo the recurrence's polynomial.
"""

from functools import cache
from typing import cast

import numpy as np
import numpy.typing as npt

from argosy.base.clock import Random
from argosy.sim.throttle_eval import static_preset
from argosy.sim.throttle_load import Allocation, NoThrottle, Request, Scenario, arrivals, play
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.levels import Levels, double
from argosy.throttle.model import Config, Outcome

_LENGTH, _TAP = 607, 273
_STEPS = 7_800_000_000_000  # between seed 1 and the table
_LCG, _LCG_MODULUS = 48_271, (1 << 31) - 1
_LCG_SKIPPED = 20
_LCG_FOR_ZERO = 89_482_311  # a seed of 0 would stay 0
_BITS64, _BITS63 = (1 << 64) - 1, (1 << 63) - 1

Words = npt.NDArray[np.uint64]


class GoRandom:
    """Go's `math/rand` as it is after `Seed`."""

    def __init__(self, seed: int) -> None:
        filled = _refill(seed % _LCG_MODULUS or _LCG_FOR_ZERO, 40, 20)
        self._state = [mixed ^ start for mixed, start in zip(filled, _table(), strict=True)]
        self._tap, self._feed = 0, _LENGTH - _TAP

    def _int63(self) -> int:
        self._tap = (self._tap or _LENGTH) - 1
        self._feed = (self._feed or _LENGTH) - 1
        word = self._state[self._feed] = (self._state[self._feed] + self._state[self._tap]) & _BITS64
        return word & _BITS63

    def random(self) -> float:
        while True:
            drawn = self._int63() / (1 << 63)
            if drawn < 1.0:  # the greatest numbers are rounded up to 1
                return drawn

    def below(self, end: int) -> int:
        """A number below `end`, of 31 bits: as `Intn`, without the rare draws that it repeats."""
        return (self._int63() >> 32) % end

    def uint32(self) -> int:
        return self._int63() >> 31


def _refill(seed: int, high: int, middle: int) -> list[int]:
    """A state from 31 bits: each word of three steps of a small generator, shifted over each other."""
    x, words = seed, []
    for _ in range(_LCG_SKIPPED):
        x = x * _LCG % _LCG_MODULUS
    for _ in range(_LENGTH):
        word = 0
        for shift in (high, middle, 0):
            x = x * _LCG % _LCG_MODULUS
            word ^= x << shift
        words.append(word)
    return words


@cache
def _table() -> tuple[int, ...]:
    # Word n of the stream is written at place (333 - n) mod 607, and is the sum of words n - 607 and n - 273.
    first = _LENGTH - _TAP - 1
    start = _refill(1, 20, 10)
    stream = np.zeros(2 * _LENGTH, dtype=np.uint64)
    stream[:_LENGTH] = [start[(first - n) % _LENGTH] for n in range(_LENGTH)]
    for n in range(_LENGTH, 2 * _LENGTH):
        stream[n] = stream[n - _LENGTH] + stream[n - _TAP]
    power = _power_of_x(_STEPS)
    table = [0] * _LENGTH
    for n in range(_LENGTH):
        word = (power * stream[n : n + _LENGTH]).sum(dtype=np.uint64)
        table[(first - _STEPS - n) % _LENGTH] = int(word)
    return tuple(table)


def _power_of_x(exponent: int) -> Words:
    """x to the exponent, modulo x^607 = x^334 + 1."""
    result, square = np.zeros(_LENGTH, dtype=np.uint64), np.zeros(_LENGTH, dtype=np.uint64)
    result[0] = square[1] = 1
    while exponent:
        if exponent & 1:
            result = _product(result, square)
        square = _product(square, square)
        exponent >>= 1
    return result


def _product(one: Words, other: Words) -> Words:
    long = np.zeros(2 * _LENGTH - 1, dtype=np.uint64)
    for place in range(_LENGTH):
        long[place : place + _LENGTH] += one[place] * other
    # By x^607 = x^334 + 1, each word above is added 607 and 273 places lower.
    for place in range(2 * _LENGTH - 2, _LENGTH - 1, -1):
        carried = long[
            place : place + 1
        ]  # a slice and not a number: numpy wraps sums of arrays silently, and warns about those of numbers
        long[place - _LENGTH : place - _LENGTH + 1] += carried
        long[place - _TAP : place - _TAP + 1] += carried
    return long[:_LENGTH].copy()


class _OriginalThrottle:
    """One throttle with the hashes of the original, which draws a number for both windows at each request."""

    def __init__(self, config: Config, seed: int) -> None:
        self._dice = GoRandom(seed)
        self._now_ms = 0
        self._drawn = 0.0
        drawing = cast(Random, self)  # a throttle only calls `random()`
        self._throttle = FairThrottle(config, clock=self, random=drawing, levels=self._levels)

    def _levels(self, config: Config, window_seed: int) -> Levels:
        return double(config.levels, config.buckets, self._dice.uint32())

    def admit(self, request: Request) -> bool:
        self._now_ms = int(request.at_s * 1000)
        self._drawn, _ = self._dice.random(), self._dice.random()
        return not self._throttle.register(request.client).throttled

    def on_result(self, request: Request, is_served: bool) -> None:
        self._throttle.report(request.client, Outcome.SUCCESS if is_served else Outcome.FAILURE)

    # The throttle's clock, of whole milliseconds, and its random numbers: the one drawn for this request.

    def now(self) -> float:
        return self._now_ms / 1000

    def wall(self) -> float:
        return self._now_ms / 1000

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"a request waits for {seconds} s")  # THR-2

    def random(self) -> float:
        return self._drawn


def original_allocation(scenario: Scenario, preset: str | None = "standard") -> Allocation:
    """The scenario as the original runs it; without a throttle if there is no preset."""
    requests = arrivals(scenario, GoRandom(scenario.seed))
    admission = NoThrottle() if preset is None else _OriginalThrottle(static_preset(preset), scenario.seed)
    return play(scenario, requests, admission)
