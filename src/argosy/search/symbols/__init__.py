"""Definitions in source text: where they are (`extract.py`), what they are, what they lie in, what they are worth.

The kinds alone are light; reading definitions loads a dozen kernels, which only whoever builds an index needs.
"""

from argosy.search.symbols.kinds import KINDS, points

__all__ = ["KINDS", "points"]
