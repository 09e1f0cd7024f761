"""Extracts definitions (symbols) from source text: name, kind, parent, and weight for ranking.

There is no parser: on one core tree-sitter reads 6 to 10 MB/s and ctags 12 to 37, an RE2 pattern 78 to 234. The price
is approximation: kernels that accept any input blank comments, strings and bodies, and a pattern finds the names in the
rest. A wrong guess costs a symbol or its rank, never a match in content.

`extract.definitions` is the entry point. It loads a dozen kernels that only index building needs, so this package root
exports the kinds alone.
"""

from argosy.search.symbols.kinds import KINDS, points

__all__ = ["KINDS", "points"]
