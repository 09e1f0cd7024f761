"""Unique names for repositories that are served together.

A repository's own name follows from its address: `tool` for `/a/tool`. Where two folders share a base name, all of them
are qualified by their parent folders, as git hosts do with owners: `a/tool` and `b/tool`. The result depends only on
the addresses and on the names in use, not on the order given.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from argosy.search.catalog.addresses import Address


def unique_names(addresses: Sequence[Address], taken: Collection[str] = ()) -> list[str]:
    """A name for each address, in the same order; none is used twice and none is in `taken`."""
    candidates = [_candidates(address) for address in addresses]
    levels = [0] * len(addresses)
    while True:
        names = [options[level] for options, level in zip(candidates, levels, strict=True)]
        counts = Counter(names)
        short = [
            index
            for index, name in enumerate(names)
            if (counts[name] > 1 or name in taken) and levels[index] + 1 < len(candidates[index])
        ]
        if not short:  # each pass lengthens a name, so the number of passes is bounded
            return _numbered(addresses, names, taken)
        for index in short:
            levels[index] += 1


def _candidates(address: Address) -> list[str]:
    """The names an address can have, the shortest first."""
    if not address.is_local:
        return [address.name]
    parents = [part for part in address.path.removesuffix("/.git").split("/")[:-1] if part]
    return ["/".join([*parents[len(parents) - depth :], address.name]) for depth in range(len(parents) + 1)]


def _numbered(addresses: Sequence[Address], names: list[str], taken: Collection[str]) -> list[str]:
    """Where even whole paths are alike (`tool` and `tool.git`), all but the first get a number."""
    used = {*taken}
    found = list(names)
    for index in sorted(range(len(names)), key=lambda index: addresses[index].url):
        name, number = names[index], 1
        while name in used or (number > 1 and name in names):
            number += 1
            name = f"{names[index]}-{number}"
        used.add(name)
        found[index] = name
    return found
