"""Lays staged changes over the pairs of a scan."""

from collections.abc import AsyncIterator, Sequence


async def merged(
    pairs: AsyncIterator[tuple[bytes, bytes]],
    changes: Sequence[tuple[bytes, bytes | None]],
    *,
    limit: int | None,
    reverse: bool,
) -> AsyncIterator[tuple[bytes, bytes]]:
    """The pairs as the changes leave them; both come in the order of the scan."""
    left = limit
    async for pair in _laid_over(pairs, changes, reverse):
        if left is not None:
            if left == 0:
                return
            left -= 1
        yield pair


async def _laid_over(
    pairs: AsyncIterator[tuple[bytes, bytes]], changes: Sequence[tuple[bytes, bytes | None]], reverse: bool
) -> AsyncIterator[tuple[bytes, bytes]]:
    at = 0
    async for key, value in pairs:
        while at < len(changes) and (changes[at][0] > key if reverse else changes[at][0] < key):
            changed_key, changed = changes[at]
            at += 1
            if changed is not None:
                yield changed_key, changed
        if at < len(changes) and changes[at][0] == key:
            continue  # yielded in its turn, or deleted
        yield key, value
    for changed_key, changed in changes[at:]:
        if changed is not None:
            yield changed_key, changed


def deletions(changes: Sequence[tuple[bytes, bytes | None]]) -> int:
    """How many pairs beyond its limit a scan must read, at most."""
    return sum(1 for _, changed in changes if changed is None)
