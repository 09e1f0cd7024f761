"""How a room tells what it keeps in a shared store; the page on keys is generated from it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KeyDoc:
    """One kind of key, as the generated page shows it."""

    name: str  # parts in <> stand for one key each
    kind: str
    content: str
    why: str
