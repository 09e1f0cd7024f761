"""The compiled loops: everything that touches text byte by byte. They run without the interpreter lock.

Importing a module with kernels (those here, and those that read symbols) compiles them, or loads them from the cache
beside it. That takes half a minute once, so `make setup` does it beforehand.
"""

from importlib import import_module
from pkgutil import iter_modules


def warm() -> list[str]:
    """Compiles what is not in the cache yet; returns the names of the modules."""
    names = sorted(module.name for module in iter_modules(__path__))
    for name in names:
        import_module(f"{__name__}.{name}")
    import_module("argosy.search.symbols.extract")
    return names
