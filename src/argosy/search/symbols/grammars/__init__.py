"""The grammars by language."""

from argosy.search.symbols.grammar import Grammar
from argosy.search.symbols.grammars import curly, modern, plain, scripts

GRAMMARS: dict[str, Grammar] = {**curly.GRAMMARS, **modern.GRAMMARS, **scripts.GRAMMARS, **plain.GRAMMARS}
