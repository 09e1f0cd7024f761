"""Regular expressions: what they mean, what their matches must hold, and RE2 to find them."""

from argosy.search.regex.analysis import as_literal, can_span_lines, has_upper_case
from argosy.search.regex.engine import Pattern, RegexError
from argosy.search.regex.needs import Needs, needs, needs_of_text
from argosy.search.regex.strings import Literal
from argosy.search.regex.syntax import parse_regex

__all__ = [
    "Literal",
    "Needs",
    "Pattern",
    "RegexError",
    "as_literal",
    "can_span_lines",
    "has_upper_case",
    "needs",
    "needs_of_text",
    "parse_regex",
]
