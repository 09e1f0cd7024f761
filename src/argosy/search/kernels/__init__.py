"""The compiled loops: everything that touches text byte by byte. They run without the interpreter lock.

To call a kernel (those here, and those that read symbols) for the first time compiles it, or loads it from the cache
beside it. To compile them all takes a minute once, so `make setup` does it beforehand.
"""

from importlib import import_module
from pkgutil import iter_modules


def warm(share: int = 0, of: int = 1) -> list[str]:
    """Loads every kernel, and compiles what is not in the cache yet; returns the names of the modules.

    Several processes may compile at once: each does one `share` `of` so many.
    """
    names = sorted(module.name for module in iter_modules(__path__))
    for name in names:
        import_module(f"{__name__}.{name}")
    import_module("argosy.search.symbols.extract")
    import_module(f"{__name__}.compiling").load_all(share, of)
    return names
