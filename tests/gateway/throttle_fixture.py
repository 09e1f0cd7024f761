"""A fair throttle that remembers the reported outcomes, and can be made to throttle the clients of a test."""

from argosy.base.clock import seeded_random
from argosy.throttle import Config, FairThrottle, Outcome
from argosy.throttle.model import ClientId
from tests.throttle.limits.stage import HandClock

CLIENT = "address:127.0.0.1"  # the client of httpx's ASGI transport


class RecordingThrottle(FairThrottle):
    def __init__(self) -> None:
        super().__init__(Config(), clock=HandClock(), random=seeded_random(1))
        self.outcomes: list[Outcome] = []

    def report(self, client_id: ClientId, outcome: Outcome, cost: float = 1.0) -> None:
        self.outcomes.append(outcome)
        super().report(client_id, outcome, cost)

    def throttle_client(self, client: str = CLIENT) -> None:
        """With the default steps, 25 failures at once make a client's probability 1."""
        for _ in range(25):
            super().report(client, Outcome.FAILURE)
