"""Detects the language of a file and its category: test, vendored, generated, documentation or configuration."""

from argosy.search.languages.categories import category_of, category_of_path
from argosy.search.languages.detect import language_of
from argosy.search.languages.table import LANGUAGES, canonical

__all__ = ["LANGUAGES", "canonical", "category_of", "category_of_path", "language_of"]
