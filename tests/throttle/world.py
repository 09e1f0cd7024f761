"""The simulator's world for these tests: instances start at once, and every link has the same delay."""

from argosy.sim.throttle_world import Instance, ThrottleWorld, buckets, spread
from argosy.throttle.exchange import ExchangeFailed, ExchangeReplied
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.model import Config
from argosy.throttle.settings import ThrottleSettings

__all__ = ["WAY_S", "World", "buckets", "difference"]

WAY_S = 0.01
PACE = ThrottleSettings(flush_s=1.0, poll_s=1.0)


class World(ThrottleWorld):
    """Each order takes `delay_s` to the store and as long back; `replies` are those that each instance received."""

    def __init__(
        self,
        config: Config | None = None,
        settings: ThrottleSettings = PACE,
        *,
        delay_s: float = WAY_S,
        seed: int = 1,
    ) -> None:
        super().__init__(config or Config(), settings, seed, (delay_s, delay_s), is_prompt=True)
        self.replies: dict[str, list[ExchangeReplied | ExchangeFailed]] = {}

    def _arrive(self, instance: Instance, event: ExchangeReplied | ExchangeFailed, writes: int) -> None:
        self.replies.setdefault(instance.name, []).append(event)
        super()._arrive(instance, event, writes)


def difference(one: FairThrottle, two: FairThrottle) -> float:
    """The greatest difference between the same buckets of two throttles, as of one instant."""
    return spread([one, two])
