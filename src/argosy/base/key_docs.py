"""Documentation of the keys that a package writes to a shared store; docs/reference/keys.md is generated from it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KeyDoc:
    """One kind of key."""

    name: str  # parts in <> stand for one key each
    kind: str
    content: str
    why: str
