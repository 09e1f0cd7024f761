"""Estimates the cost of compiling a regex from its tree: RE2 runs in linear time, but builds before it runs.

One compilation is bounded by RE2 itself, at some tenths of a second. A query has many regexes, so they share one bound:
a repeated Unicode class is a few characters to type and a megabyte to compile.
"""

from argosy.search.regex.tree import Choice, Class, Named, Node, Opaque, Range, Repeat, Sequence, Text

STEPS_MAX = 200_000  # of all regexes of a query; a step takes at most about a microsecond

# Measured: a character or a class of ASCII, a class of other characters, one of Unicode's. Unparsed parts are
# nested too deeply and can contain any of them.
_CHARACTER_STEPS = 1
_WIDE_CLASS_STEPS = 2
_UNICODE_CLASS_STEPS = 1_000
_OPAQUE_STEPS = 50_000
_ASCII_END = 0x80


def steps(node: Node) -> int:
    """About how many steps RE2 takes to compile this."""
    match node:
        case Text(chars):
            return _CHARACTER_STEPS * len(chars)
        case Class(parts, is_negated):
            own = _WIDE_CLASS_STEPS if is_negated else _CHARACTER_STEPS
            return own + sum(map(_part_steps, parts))
        case Sequence(children) | Choice(children):
            return sum(map(steps, children))
        case Repeat(child, least, most):
            return steps(child) * max(1, least, most or 0)
        case Opaque():
            return _OPAQUE_STEPS
        case _:
            return 1


def _part_steps(part: Range | Named) -> int:
    if isinstance(part, Named):
        is_unicode = part.name[0] not in "\\["  # else it is \w or [:word:] or their like
        return _UNICODE_CLASS_STEPS if is_unicode else _WIDE_CLASS_STEPS
    return _CHARACTER_STEPS if part.high < _ASCII_END else _WIDE_CLASS_STEPS
