"""Extracts the definitions of one file: prepares the text, runs the pattern, finds parents, determines kinds.

Work per byte is done by kernels and RE2; Python handles one object per definition.
"""

from operator import attrgetter
from typing import TypeAlias

import numpy as np

from argosy.search.arrays import I32, U8
from argosy.search.documents import Definition
from argosy.search.symbols.comment_mask import mask_comments
from argosy.search.symbols.grammar import NAME, OWNER, Grammar, Nest
from argosy.search.symbols.grammars import GRAMMARS
from argosy.search.symbols.lexical_rules import DIRECTIVES
from argosy.search.symbols.outline import build_outline
from argosy.search.symbols.python_outline import blank_bodies, columns
from argosy.search.symbols.scopes import find_parents, find_scopes
from argosy.search.symbols.whitespace import SqueezedText, squeeze

CONTENT_BYTES_MAX = 8 << 20  # four times the default limit for indexing; a larger file gets no symbols
DEFINITIONS_MAX = 100_000  # per file, without macros; the rest is dropped, because each is a Python object in the build
NAME_BYTES_MAX = 1_000  # a longer match is not a name

WINDOW_BYTES = 16 << 10  # the size of one search window, at most doubled to reach a line end
WINDOW_OVERLAP_BYTES = 1 << 10  # so that a definition across the end of a window is found in the next

_BRACE = ord("{")

# Kinds that can own methods defined outside of them.
_OWNERS = frozenset({"class", "struct", "union", "type", "interface", "alias", "variable", "namespace"})

# Start and end of the name in the scanned text, the group of the pattern, the name, the name of the owning type.
_Match: TypeAlias = tuple[int, int, int, bytes, bytes]
# Start of the name in the content, its length, its kind, the row of its parent or -1.
_Row: TypeAlias = tuple[int, int, str, int]


def definitions(language: str, content: bytes) -> list[Definition]:
    """The definitions of a file in text order; none for a language without a grammar."""
    grammar = GRAMMARS.get(language)
    if grammar is None or not 0 < len(content) <= CONTENT_BYTES_MAX:
        return []
    # Prose and data have no comments to blank; the pattern reads the content as it is.
    if grammar.lexical is None:
        matches = _matches(grammar, content)
        starts, ends = _ends_of(matches)
        return _to_definitions(_rows(grammar, matches, starts, ends, _by_level(grammar, matches), [0] * len(matches)))
    # Comments first, then bodies: braces and keywords inside comments and strings would mislead every later step.
    text = mask_comments(content, grammar.lexical)
    scopes = _prepare(grammar, text)
    scanned = squeeze(text, has_directives=bool(grammar.lexical.flags & DIRECTIVES))
    matches = _matches(grammar, scanned.text)
    starts, ends = _ends_of(matches)
    # Positions in the squeezed text are mapped back to those in the content.
    starts, ends = scanned.places[starts], scanned.places[ends - 1] + 1
    owns = [grammar.owns[match[2] - 1] for match in matches]
    if scopes is None:
        rows = _rows(grammar, matches, starts, ends, _by_column(grammar, text, starts, owns), [0] * len(matches))
    else:
        parents, contexts = find_parents(starts, np.array(owns, np.bool_), scopes)
        rows = _rows(grammar, matches, starts, ends, parents.tolist(), contexts.tolist())
    return _with_macros(rows, scanned) if len(scanned.macro_starts) else _to_definitions(rows)


def _prepare(grammar: Grammar, text: U8) -> I32 | None:
    """Blanks text that hides definitions; returns the scopes, for a language with braces."""
    if grammar.nest is Nest.PYTHON:
        blank_bodies(text)
    if grammar.words is None:
        return None
    if grammar.nest is Nest.OUTLINE:
        return build_outline(text, grammar.words, grammar.reads)
    return find_scopes(text, grammar.words)


def _matches(grammar: Grammar, text: bytes) -> list[_Match]:
    matches: list[_Match] = []
    kinds, reserved, following = grammar.kinds, grammar.reserved, grammar.pattern.next
    position, size, groups = 0, len(text), range(1, len(kinds) + 1)
    end = _window_end(text, 0)
    while position < size and len(matches) < DEFINITIONS_MAX:
        spans = following(text, position, end)
        first, last = spans[0]
        # A match that ends at the window's end may be longer in the next one, so it is searched again from its start.
        if end < size and (first < 0 or (last == end and first > position)):
            position = first if first > position else max(position + 1, end - WINDOW_OVERLAP_BYTES)
            end = _window_end(text, end)
            continue
        if first < 0:
            break
        owner, start = b"", -1
        for group in groups:
            span = spans[group]
            if span[0] < 0:
                continue
            kind = kinds[group - 1]
            if kind == OWNER:
                owner = text[span[0] : span[1]]
                continue
            if start < 0:
                start, position = span
            if kind == NAME:
                continue
            name = text[start:position]
            if len(name) <= NAME_BYTES_MAX and name not in reserved:
                matches.append((start, position, group, name, owner))
            # The search resumes after the name, so that `int a, b;` defines both. But text before a body belongs to
            # this definition.
            if text[last - 1] == _BRACE:
                position = last
            break
        if start < 0:
            position = max(last, position + 1)
    return matches


def _window_end(text: bytes, start: int) -> int:
    """The end of the search window that begins here, at a line end if there is one.

    A pattern can read all of its input before it settles for a match near the beginning; without a window, a hostile
    file would take hours.
    """
    if start + 2 * WINDOW_BYTES >= len(text):
        return len(text)
    line = text.find(b"\n", start + WINDOW_BYTES, start + 2 * WINDOW_BYTES)
    return line + 1 if line >= 0 else start + 2 * WINDOW_BYTES


def _ends_of(matches: list[_Match]) -> tuple[I32, I32]:
    starts = np.array([match[0] for match in matches], np.int32)
    ends = np.array([match[1] for match in matches], np.int32)
    return starts, ends


def _by_column(grammar: Grammar, text: U8, starts: I32, owns: list[bool]) -> list[int]:
    """Parents by indentation: the nearest preceding definition that is indented less."""
    return [-1] * len(starts) if grammar.nest is Nest.NONE else _by_depth(columns(text, starts), owns)


def _by_level(grammar: Grammar, matches: list[_Match]) -> list[int]:
    """Parents by kind: a section belongs to the preceding chapter."""
    if grammar.nest is Nest.NONE:
        return [-1] * len(matches)
    levels = [grammar.levels.index(str(kind)) for kind in grammar.kinds]
    return _by_depth([levels[match[2] - 1] for match in matches], [True] * len(matches))


def _by_depth(depths: list[int], owns: list[bool]) -> list[int]:
    parents: list[int] = []
    stack: list[tuple[int, int]] = []
    for number, depth in enumerate(depths):
        while stack and stack[-1][0] >= depth:
            stack.pop()
        parents.append(stack[-1][1] if stack else -1)
        if owns[number]:
            stack.append((depth, number))
    return parents


def _rows(
    grammar: Grammar, matches: list[_Match], starts: I32, ends: I32, parents: list[int], contexts: list[int]
) -> list[_Row]:
    """The matches that are definitions in their context, with parents as indexes into the result."""
    kinds = _kinds(grammar, matches, parents, contexts)
    places, count = [-1] * len(kinds), 0
    for number, kind in enumerate(kinds):
        if kind:
            places[number] = count
            count += 1
    if grammar.has_owners:
        _adopt(matches, kinds, parents)
    rows: list[_Row] = []
    for start, length, kind, parent in zip(starts.tolist(), (ends - starts).tolist(), kinds, parents, strict=True):
        if kind:
            # The parent may have turned out to be no definition; then its own parent takes its place.
            while parent >= 0 and not kinds[parent]:
                parent = parents[parent]
            rows.append((start, length, kind, places[parent] if parent >= 0 else -1))
    return rows


def _kinds(grammar: Grammar, matches: list[_Match], parents: list[int], contexts: list[int]) -> list[str]:
    """The kind of each match in its context, or "" if it is not a definition."""
    by_group, inner = grammar.kinds, grammar.inner
    kinds: list[str] = []
    for match, parent, context in zip(matches, parents, contexts, strict=True):
        kind = by_group[match[2] - 1]
        if not isinstance(kind, str):
            kind = kind.get(context, "")
        elif kind in inner:
            while parent >= 0 and not kinds[parent]:
                parent = parents[parent]
            kind = inner[kind].get(kinds[parent], kind) if parent >= 0 else kind
        kinds.append(kind)
    return kinds


def _adopt(matches: list[_Match], kinds: list[str], parents: list[int]) -> None:
    """Assigns methods defined outside their type to that type, if it is in the same file."""
    types: dict[bytes, int] = {}
    for number, kind in enumerate(kinds):
        if kind in _OWNERS:
            types.setdefault(matches[number][3], number)
    for number, match in enumerate(matches):
        if match[4] in types:
            parents[number] = types[match[4]]


def _to_definitions(rows: list[_Row]) -> list[Definition]:
    return [Definition(*row) for row in rows]


def _with_macros(rows: list[_Row], scanned: SqueezedText) -> list[Definition]:
    """The rows and the macros, in text order. A macro has no parent."""
    starts = scanned.macro_starts
    lengths = (scanned.macro_ends - starts).tolist()
    macros = [Definition(start, length, "macro") for start, length in zip(starts.tolist(), lengths, strict=True)]
    # Macros are inserted between the rows, so every index of a parent moves by the number of macros before it.
    before = np.searchsorted(starts, np.array([row[0] for row in rows], np.int32)).tolist()
    shifted = [
        Definition(start, length, kind, place + before[place] if place >= 0 else -1)
        for start, length, kind, place in rows
    ]
    return sorted(shifted + macros, key=attrgetter("start"))
