"""The outline of a text with braces: blanks function bodies, initial values and argument lists.

The remaining declarations are regular enough that one pattern per language finds the names. Each brace that holds
declarations (a class, a namespace, a struct) is recorded as a scope: start of its header, opening and closing brace,
and context. The input comes from `comment_mask.py`. Brackets need not match: a closing brace in column one then ends
the body.
"""

from typing import TypeAlias

import numba
import numpy as np
import numpy.typing as npt

from argosy.search.arrays import I32, U8, U64
from argosy.search.kernels.compiler import BYTES, LONGS, helper, kernel
from argosy.search.symbols.lexical_rules import (
    ATTRIBUTE,
    CLASS,
    CONSTANTS,
    ENUM,
    HASH_FACTOR,
    HASH_START,
    NAMESPACE,
    OPAQUE,
    OPERATOR,
    RECORD,
    STRUCT,
    TYPEDEF,
    TYPES,
    Words,
)

I64: TypeAlias = npt.NDArray[np.int64]

# Flags for reading a language.
PARENS = 1  # blank the text in parentheses, except `(*name)`
ANGLES = 2  # blank the text between `<` and `>`
VALUES = 4  # blank from `=` to the next comma or semicolon
NEWLINES = 8  # a line ends a statement
PAREN_ENDS = 16  # a parenthesis after `struct` means a function that returns one
FIRST = 32  # the word for a body takes precedence over other words
NAMED = 64  # `class` must be followed by a name
DIRECTIVES = 128  # lines of the C preprocessor, and a brace in column one closes what is open
GROUPS = 256  # `const (`, `var (`, `type (`
BANG_BLOCKS = 512  # `name! {` holds items
ANNOTATIONS = 1024  # `@Name(…)` is blanked
BRACKETS = 2048  # blank the text in brackets
BASES = 4096  # blank from a colon in a header to the brace: the base classes

_NEWLINE, _SPACE = ord("\n"), ord(" ")
DEPTH_MAX = 200  # nested scopes; deeper ones are treated as bodies
# `<` is a comparison or begins type arguments, which only a grammar tells. A list is never so long, and after a
# comparison a semicolon or a brace comes before any `>`.
ANGLE_BYTES_MAX = 1000
# Bound for scanning unclosed brackets, in multiples of the text length: a file of nothing but `(` would otherwise take
# quadratic time. Beyond it, brackets are no longer matched.
WASTE_MAX = 8
SCOPE_BYTES = 8  # the smallest scope is `enum{A}`
_IFS_MAX = 32  # nested preprocessor conditionals; deeper ones are not balanced
# Parentheses this close to `func` are the receiver of a Go method, whose type is its owner: they must stay.
_RECEIVER_AT_MAX = len("func  ")
_TYPEDEF_MARK = ord("$")

# The state of the declaration being read.
_CODE, _IS_BODY, _HAS_VALUE, _HEADER, _IS_TYPEDEF, _WORD_END, _WASTE, _STATE = 0, 1, 2, 3, 4, 5, 6, 7

_IS_WORD = np.zeros(256, np.bool_)
_IS_WORD[[*range(48, 58), *range(65, 91), 95, *range(97, 123), *range(128, 256)]] = True
_IS_MARK = np.zeros(256, np.bool_)
_IS_MARK[np.frombuffer(b"{}();=<@#!\n[", np.uint8)] = True
_REFUSED_AFTER = np.zeros(256, np.bool_)
_REFUSED_AFTER[np.frombuffer(b"(=;,.)", np.uint8)] = True


@helper
def _reset(state: I64, at: int) -> None:
    state[_CODE] = 0
    state[_IS_BODY] = 0
    state[_HAS_VALUE] = 0
    state[_IS_TYPEDEF] = 0
    state[_HEADER] = at


@helper
def _wipe(out: U8, start: int, end: int) -> None:
    for at in range(start, end):
        if out[at] != _NEWLINE:
            out[at] = _SPACE


@helper
def _next_mark(out: U8, at: int) -> int:
    """The next position that is not blank."""
    while at < out.size and (out[at] == _SPACE or out[at] == _NEWLINE or out[at] == 9 or out[at] == 13):
        at += 1
    return at


@helper
def _code_of(out: U8, start: int, end: int, hashes: U64, codes: U8) -> int:
    hashed = np.uint64(HASH_START)
    for at in range(start, end):
        hashed = (hashed ^ np.uint64(out[at])) * np.uint64(HASH_FACTOR)
    slot = np.int64(hashed & np.uint64(255))
    while hashes[slot] != 0:
        if hashes[slot] == hashed:
            return int(codes[slot])
        slot = (slot + 1) & 255
    return 0


@helper
def _close_paren(out: U8, at: int, state: I64) -> int:
    """The closing parenthesis of the one at `at`; -1 if a statement or block ends first."""
    # From here on the file is read in linear time; symbols may be lost, the content is indexed in any case.
    if state[_WASTE] > WASTE_MAX * out.size:
        return -1
    depth, braces, here = 0, 0, at
    while here < out.size:
        byte = out[here]
        if byte == ord("("):
            depth += 1
        elif byte == ord(")"):
            depth -= 1
            if depth == 0:
                return here
        elif byte == ord("{"):
            braces += 1
        elif byte == ord("}"):
            braces -= 1
        if braces < 0 or (byte == ord(";") and braces == 0):
            break
        here += 1
    # Counted only if the search failed: a bracket that was matched is not read again.
    state[_WASTE] += here - at
    return -1


@helper
def _close_angle(out: U8, at: int) -> int:
    """The closing `>` of the `<` at `at`; -1 if it is a comparison."""
    depth, here = 0, at
    while here < out.size and here - at < ANGLE_BYTES_MAX:
        byte = out[here]
        if byte == ord("<"):
            depth += 1
        # `->` and `=>` close nothing.
        elif byte == ord(">") and out[here - 1] != ord("-") and out[here - 1] != ord("="):
            depth -= 1
            if depth == 0:
                return here
        elif byte == ord(";") or byte == ord("{") or byte == ord("}"):
            return -1
        here += 1
    return -1


@helper
def _close_bracket(out: U8, at: int, state: I64) -> int:
    """The closing bracket of the one at `at`; `at` if there is none."""
    if state[_WASTE] > WASTE_MAX * out.size:
        return at
    depth, here = 0, at
    while here < out.size and out[here] != ord(";") and out[here] != ord("{"):
        if out[here] == ord("["):
            depth += 1
        elif out[here] == ord("]"):
            depth -= 1
            if depth == 0:
                return here
        here += 1
    state[_WASTE] += here - at
    return at


@helper
def _body_end(out: U8, at: int, reads: int, saved: I32) -> int:
    """Blanks a body except directives; returns the brace that closes the one at `at`.

    Each branch of an `#if` begins at the depth before the `#if`, because `if (a) {` can be in both branches and be
    closed once.
    """
    depth, ifs, here = 1, 0, at + 1
    while here < out.size:
        byte = out[here]
        if byte == ord("{"):
            depth += 1
        elif byte == ord("}"):
            depth -= 1
            if depth == 0 or (reads & DIRECTIVES and out[here - 1] == _NEWLINE):
                return here
        elif byte == ord("#") and reads & DIRECTIVES:
            here = _next_mark(out, here + 1)
            first = out[here] if here < out.size else _NEWLINE
            second = out[here + 1] if here + 1 < out.size else _NEWLINE
            # `if`, `ifdef` and `ifndef`, not `include`; two letters identify each directive.
            if first == ord("i") and second != ord("n") and ifs < _IFS_MAX:
                saved[ifs] = depth
                ifs += 1
            elif first == ord("e") and ifs > 0:
                if second == ord("n"):
                    ifs -= 1
                elif second == ord("l"):
                    depth = saved[ifs - 1]
            while here < out.size and out[here] != _NEWLINE:
                here += 1
            continue
        if byte != _NEWLINE:
            out[here] = _SPACE
        here += 1
    return out.size


@helper
def _value_end(out: U8, at: int, reads: int) -> int:
    """The comma, semicolon or enclosing bracket that ends the value at `at`."""
    depth, here = 0, at
    while here < out.size:
        byte = out[here]
        if byte == ord("(") or byte == ord("{") or byte == ord("["):
            depth += 1
        elif byte == ord(")") or byte == ord("}") or byte == ord("]"):
            depth -= 1
            if depth < 0 or (reads & DIRECTIVES and byte == ord("}") and out[here - 1] == _NEWLINE and depth > 0):
                return here
        elif depth == 0 and (byte == ord(";") or byte == ord(",")):
            return here
        elif byte == ord("<") and reads & ANGLES and here > 0 and _IS_WORD[out[here - 1]]:
            close = _close_angle(out, here)
            here = close if close > 0 else here
        here += 1
    return here


@helper
def _word(out: U8, at: int, reads: int, hashes: U64, codes: U8, state: I64) -> int:
    """Reads a word and updates the state; returns its end."""
    end = at + 1
    while end < out.size and _IS_WORD[out[end]]:
        end += 1
    code = _code_of(out, at, end, hashes, codes)
    if code == 0:
        return end
    before = out[at - 1] if at else _SPACE
    # A member or a variable with the name of a keyword.
    if before == ord(".") or before == ord(":") or before == ord("$"):
        return end
    after = _next_mark(out, end)
    following = out[after] if after < out.size else _NEWLINE
    if code == ATTRIBUTE:
        close = _close_paren(out, after, state) if following == ord("(") else end - 1
        if close >= 0:
            _wipe(out, at, close + 1)
            return close + 1
    elif code == OPERATOR:
        while end < out.size and out[end] != ord("(") and out[end] != _NEWLINE:
            end += 1
    elif code == TYPEDEF:
        state[_IS_TYPEDEF] = 1
    elif code == OPAQUE:
        state[_IS_BODY] = 1
        state[_HAS_VALUE] = 0
    elif CONSTANTS <= code <= TYPES:
        state[_CODE] = code if following == ord("(") else state[_CODE]
    # `struct(`, `class=` and the like are no headers.
    elif not _REFUSED_AFTER[following] and (not reads & NAMED or _IS_WORD[following]):
        # `enum class` and `record struct` are an enum and a record.
        keeps_code = code in (CLASS, STRUCT) and (state[_CODE] == ENUM or state[_CODE] == RECORD)
        state[_CODE] = state[_CODE] if keeps_code else code
        state[_WORD_END] = end
        if not reads & FIRST:
            state[_IS_BODY] = 0
        state[_HAS_VALUE] = state[_HAS_VALUE] if reads & (VALUES | NEWLINES) else 0
    return end


@helper
def _paren(out: U8, at: int, reads: int, state: I64) -> int:
    """Reads parentheses; returns the position to continue at."""
    close = _close_paren(out, at, state)
    if close < 0:
        return at + 1
    inside = _next_mark(out, at + 1)
    is_pointer = out[inside] == ord("*") or out[inside] == ord("^")
    is_receiver = reads & GROUPS and at - state[_HEADER] <= _RECEIVER_AT_MAX
    if is_receiver:
        return close + 1
    if reads & PARENS and not is_pointer:
        _wipe(out, at + 1, close)
    elif is_pointer:
        here = inside
        while here < close and out[here] != ord("("):
            here += 1
        _wipe(out, here, close)
    # `struct foo f(void) {` is a function and no struct. A namespace can have an attribute with parentheses.
    if reads & PAREN_ENDS and state[_CODE] != NAMESPACE:
        state[_CODE] = 0
    return close + 1


@helper
def _annotation(out: U8, at: int, state: I64) -> int:
    end = at + 1
    while end < out.size and (_IS_WORD[out[end]] or out[end] == ord(".") or out[end] == ord(":")):
        end += 1
    if end == at + 1 or (end - at == 10 and out[at + 1] == ord("i") and out[at + 9] == ord("e")):
        return at + 1  # `@interface`
    after = _next_mark(out, end)
    if after < out.size and out[after] == ord("("):
        close = _close_paren(out, after, state)
        end = close + 1 if close > 0 else end
    _wipe(out, at, end)
    return end


@helper
def _directive(out: U8, at: int) -> int:
    while at < out.size and out[at] != _NEWLINE:
        at += 1
    return at


@helper
def _mark(out: U8, at: int, reads: int, state: I64) -> int:
    """Reads any other character than a word or a brace."""
    byte = out[at]
    if byte == ord("(") and not (reads & GROUPS and CONSTANTS <= state[_CODE] <= TYPES):
        return _paren(out, at, reads, state)
    if byte == ord(";"):
        _reset(state, at + 1)
    elif byte == ord("="):
        state[_HAS_VALUE] = 1
        if reads & VALUES:
            end = _value_end(out, at + 1, reads)
            _wipe(out, at + 1, end)
            return end
    elif byte == ord("<") and reads & ANGLES:
        close = _close_angle(out, at)
        if close > 0:
            _wipe(out, at + 1, close)
            return close + 1
    elif byte == ord("[") and reads & BRACKETS:
        close = _close_bracket(out, at, state)
        _wipe(out, at + 1, close)
        return close + 1
    elif byte == ord("@") and reads & ANNOTATIONS:
        return _annotation(out, at, state)
    elif byte == ord("#") and reads & DIRECTIVES:
        return _directive(out, at)
    elif byte == ord("!") and reads & BANG_BLOCKS and not state[_IS_BODY]:
        state[_CODE] = NAMESPACE
    elif byte == _NEWLINE and reads & NEWLINES:
        _reset(state, at + 1)
    return at + 1


@helper
def _wipe_bases(out: U8, at: int, brace: int) -> None:
    while at < brace:
        if out[at] == ord(":"):
            if out[at + 1] != ord(":"):
                _wipe(out, at, brace)
                return
            at += 1
        at += 1


@helper
def _mark_typedef(out: U8, at: int) -> None:
    """Marks the brace and the commas of `typedef struct { … } name, *pointer;`: a type name follows each."""
    out[at] = _TYPEDEF_MARK
    while at < out.size and out[at] != ord(";") and out[at] != ord("{") and out[at] != ord("}"):
        if out[at] == ord(","):
            out[at] = _TYPEDEF_MARK
        at += 1


@helper
def _context(state: I64) -> int:
    """The context that a brace opens here, or 0 for a body or a value."""
    return 0 if state[_IS_BODY] or state[_HAS_VALUE] else int(state[_CODE])


@kernel(numba.int64(numba.uint8[::1], numba.int64, numba.int64, LONGS, BYTES, numba.int32[:, ::1]))
def _outline(out: U8, at: int, reads: int, hashes: U64, codes: U8, scopes: I32) -> int:
    """Blanks bodies and values, writes (header, open, close, context, typedef) of each scope; returns their number."""
    state, stack, saved = np.zeros(_STATE, np.int64), np.zeros(DEPTH_MAX, np.int32), np.zeros(_IFS_MAX, np.int32)
    depth, count = 0, 0
    while at < out.size:
        byte = out[at]
        if _IS_WORD[byte]:
            at = _word(out, at, reads, hashes, codes, state)
            continue
        if not _IS_MARK[byte]:
            at += 1
            continue
        is_group = byte == ord("(") and reads & GROUPS and CONSTANTS <= state[_CODE] <= TYPES
        if byte == ord("{") or is_group:
            context = _context(state)
            if context and depth < DEPTH_MAX and count < len(scopes):
                if reads & BASES:
                    _wipe_bases(out, state[_WORD_END], at)
                scopes[count, 0], scopes[count, 1], scopes[count, 2] = state[_HEADER], at, out.size
                scopes[count, 3], scopes[count, 4] = context, state[_IS_TYPEDEF]
                stack[depth] = count
                depth, count = depth + 1, count + 1
            else:
                at = _body_end(out, at, reads, saved)
            if not state[_HAS_VALUE]:
                _reset(state, at + 1)
            at += 1
        elif byte == ord("}") or (byte == ord(")") and reads & GROUPS):
            if depth:
                depth -= 1
                scope = stack[depth]
                scopes[scope, 2] = at
                if scopes[scope, 4]:
                    _mark_typedef(out, at)
            _reset(state, at + 1)
            at += 1
        else:
            at = _mark(out, at, reads, state)
    return count


def build_outline(text: U8, words: Words, reads: int) -> I32:
    """Reduces the text to its outline in place; returns the scopes: header, open, close, context, typedef."""
    scopes = np.empty((len(text) // SCOPE_BYTES + 8, 5), np.int32)
    return scopes[: _outline(text, 0, reads, words.hashes, words.codes, scopes)]
