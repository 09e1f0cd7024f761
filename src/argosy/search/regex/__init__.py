"""Regular expressions: parsing, analysis (required substrings, line spans, literal sets), and matching with RE2."""

from argosy.search.regex.analysis import as_literal, can_span_lines, has_upper_case
from argosy.search.regex.engine import Pattern, RegexError
from argosy.search.regex.prefilter import Literal, Prefilter, prefilter, prefilter_of_text
from argosy.search.regex.syntax import parse_regex

__all__ = [
    "Literal",
    "Pattern",
    "Prefilter",
    "RegexError",
    "as_literal",
    "can_span_lines",
    "has_upper_case",
    "parse_regex",
    "prefilter",
    "prefilter_of_text",
]
