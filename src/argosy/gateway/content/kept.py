"""Complete answers kept for a moment, bounded in entries, in bytes and in time; the least recently asked go first."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

from argosy.gateway.content.model import Answer
from argosy.ipni.model import Provider, Result

RECORD_BYTES = 600              # of the objects around a record's texts, about
SET_BYTES = 300


class Kept:
    """Answers by question; what kind of answer is under which kind of key is the caller's to know."""

    def __init__(self, *, entries_max: int, bytes_max: int) -> None:
        self.held_bytes = 0
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._entries: OrderedDict[Hashable, tuple[Answer[Any], int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, now: float) -> Answer[Any] | None:
        found = self._entries.get(key)
        if found is None:
            return None
        answer, _, until = found
        if now >= until:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return answer

    def put(self, key: Hashable, answer: Answer[Any], *, size_bytes: int, ttl_s: float, now: float) -> None:
        """An answer that lacks something is not kept: the next one may be whole."""
        if answer.missing or ttl_s <= 0 or size_bytes > self._bytes_max:
            return
        self._drop(key)
        self._entries[key] = answer, size_bytes, now + ttl_s
        self.held_bytes += size_bytes
        while len(self._entries) > self._entries_max or self.held_bytes > self._bytes_max:
            self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        self._entries.clear()
        self.held_bytes = 0

    def _drop(self, key: Hashable) -> None:
        if (dropped := self._entries.pop(key, None)) is not None:
            self.held_bytes -= dropped[1]


def results_bytes(results: Sequence[Result]) -> int:
    """The memory they take, about; exactness would cost more than it is worth."""
    texts = sum(len(each.context) + len(each.metadata) + sum(map(len, each.provider.addresses)) for each in results)
    return RECORD_BYTES * (1 + len(results)) + texts


def keys_bytes(keys: Sequence[bytes]) -> int:
    return RECORD_BYTES + sum(map(len, keys)) + 64 * len(keys)


def providers_bytes(providers: Sequence[Provider]) -> int:
    return RECORD_BYTES + sum(map(_provider_bytes, providers))


def _provider_bytes(provider: Provider) -> int:
    sets = [provider.extended.chain, *(each.peers for each in provider.extended.contexts.values())]
    extended = sum(SET_BYTES + sum(SET_BYTES + len(each.metadata) for each in peers) for peers in sets)
    return RECORD_BYTES + sum(map(len, provider.addresses)) + extended
