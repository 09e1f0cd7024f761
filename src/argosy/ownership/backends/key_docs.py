"""How a store declares its keys as data, so that the page that lists them is generated and cannot be out of date."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KeyDoc:
    """One kind of key, as the generated page shows it."""

    name: str       # parts in <> stand for one key each
    kind: str
    content: str
    why: str
