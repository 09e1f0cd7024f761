"""Extracts definitions (symbols) from source text: name, kind, parent, and weight for ranking.

`extract.definitions` is the entry point. It loads a dozen kernels that only index building needs, so this package root
exports the kinds alone.
"""

from argosy.search.symbols.kinds import KINDS, points

__all__ = ["KINDS", "points"]
