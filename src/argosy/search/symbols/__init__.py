"""Definitions in source text: where they are, what they are, what they lie in, what they are worth."""

from argosy.search.symbols.extract import definitions
from argosy.search.symbols.kinds import KINDS, points

__all__ = ["KINDS", "definitions", "points"]
