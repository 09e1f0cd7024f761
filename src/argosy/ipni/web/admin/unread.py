"""Telemetry that is told once: an indexer counts since it was last asked, and one provider may be asked for alone."""

from collections.abc import Mapping

Counts = tuple[int, float, int]  # multihashes, seconds, samples


class TelemetryBuffer:
    """What was counted and nobody has read; reading one provider's figures leaves the others' to be read later."""

    def __init__(self) -> None:
        self._counts: dict[str, Counts] = {}

    def add(self, counted: Mapping[str, Counts]) -> None:
        for provider, (multihashes, seconds, samples) in counted.items():
            before = self._counts.get(provider, (0, 0.0, 0))
            self._counts[provider] = (before[0] + multihashes, before[1] + seconds, before[2] + samples)

    def take_all(self) -> dict[str, Counts]:
        taken, self._counts = self._counts, {}
        return taken

    def take(self, provider: str) -> Counts | None:
        return self._counts.pop(provider, None)
