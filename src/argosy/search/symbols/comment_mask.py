"""Replaces comments and strings by blanks, so that later passes see only code, at its original offsets.

Newlines, lengths and quotes are preserved; of a preprocessor line the directive and the macro name are. Any input is
accepted: an unterminated comment or string ends with its line or with the file.
"""

import numba
import numpy as np

from argosy.search.arrays import U8
from argosy.search.kernels.compiler import BYTES, helper, kernel
from argosy.search.symbols.lexical_rules import (
    ATTRIBUTES,
    BACKTICK,
    BLANK_BEFORE,
    BRACE,
    CHARACTER,
    DASH,
    DIRECTIVES,
    DOLLAR_BRACE,
    DOUBLED,
    HASH,
    LONG,
    NESTED,
    POD,
    QUOTE,
    RAW_C,
    RAW_RUST,
    REGEX,
    RUNS_ON,
    SLASH,
    SLASH_BLOCK,
    SLASH_LINE,
    SLASH_PAREN,
    TEMPLATE,
    TRIPLE,
    VERBATIM,
    LexicalRules,
)

_NEWLINE, _SPACE, _TAB, _BACKSLASH = ord("\n"), ord(" "), ord("\t"), ord("\\")
# An apostrophe further from its partner is none of a character literal: '\U0001F600' is the longest one.
_CHARACTER_BYTES_MAX = 12
_TEMPLATE_DEPTH_MAX = 16
# How far to search for the end of a regular expression or an attribute. Without a bound, a minified file in which each
# slash begins such a search takes quadratic time.
_LOOKAHEAD_BYTES_MAX = 2_000
# The limit of the C++ standard.
_DELIMITER_BYTES_MAX = 16  # of a raw string in C++


def _set_of(members: bytes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    table = np.zeros(256, np.bool_)
    table[np.frombuffer(members, np.uint8)] = True
    return table


_IS_WORD = _set_of(bytes([*range(48, 58), *range(65, 91), 95, 36, *range(97, 123), *range(128, 256)]))
# Whether a slash begins a regular expression or divides depends on the grammar of JavaScript. The preceding character
# decides nearly always: an operator or an opening bracket precedes a value, anything else ends one.
_BEFORE_REGEX = _set_of(b"(,=:[!&|?{};+-*%<>~^")
_BEFORE_COMMENT = _set_of(b" \t\n\r;(){}[],&|")


# Newlines stay, so that later passes still see lines and all offsets hold.
@helper
def _wipe(out: U8, start: int, end: int) -> None:
    for at in range(start, end):
        if out[at] != _NEWLINE:
            out[at] = _SPACE


@helper
def _line_end(out: U8, at: int) -> int:
    while at < out.size and out[at] != _NEWLINE:
        at += 1
    return at


@helper
def _wipe_line(out: U8, at: int) -> int:
    end = _line_end(out, at)
    _wipe(out, at, end)
    return end


@helper
def _is_at(out: U8, at: int, first: int, second: int) -> bool:
    return bool(at + 1 < out.size and out[at] == first and out[at + 1] == second)


@helper
def _block(out: U8, at: int, opening: int, closing: int, nests: bool) -> int:
    """A block comment: `/* */`, or `{- -}`."""
    depth, here = 1, at + 2
    first, other = (ord("*"), ord("/")) if opening == ord("/") else (ord("-"), closing)
    while here < out.size:
        if _is_at(out, here, first, other):
            depth -= 1
            here += 2
            if depth == 0 or not nests:
                break
        elif nests and _is_at(out, here, opening, first):
            depth += 1
            here += 2
        else:
            here += 1
    end = min(here, out.size)
    _wipe(out, at, end)
    return end


@helper
def _slash(out: U8, at: int, flags: int) -> int:
    after = out[at + 1] if at + 1 < out.size else _NEWLINE
    if after == ord("/") and flags & SLASH_LINE:
        return _wipe_line(out, at)
    if after == ord("*") and flags & SLASH_BLOCK:
        return _block(out, at, ord("/"), ord("/"), flags & NESTED != 0)
    # Last, because `//` is always a comment.
    if flags & REGEX and _may_be_regex(out, at):
        return _regex(out, at)
    return at + 1


@helper
def _may_be_regex(out: U8, at: int) -> bool:
    """Whether a value can begin here. After a word, only if it is `return` or `case`; a few letters identify them."""
    here = at - 1
    while here >= 0 and (out[here] == _SPACE or out[here] == _TAB or out[here] == _NEWLINE):
        here -= 1
    if here < 0 or _BEFORE_REGEX[out[here]]:
        return True
    end = here + 1
    while here >= 0 and _IS_WORD[out[here]]:
        here -= 1
    length = end - here - 1
    if length == 6:
        return bool(out[here + 1] == ord("r") and out[here + 4] == ord("u") and out[here + 6] == ord("n"))
    return bool(length == 4 and out[here + 1] == ord("c") and out[here + 2] == ord("a") and out[here + 4] == ord("e"))


@helper
def _regex(out: U8, at: int) -> int:
    in_set, here = False, at + 1
    while here < out.size and out[here] != _NEWLINE and here - at < _LOOKAHEAD_BYTES_MAX:
        byte = out[here]
        if byte == _BACKSLASH:
            here += 1
        elif byte == ord("["):
            in_set = True
        elif byte == ord("]"):
            in_set = False
        # A slash inside a set does not end the expression.
        elif byte == ord("/") and not in_set:
            _wipe(out, at + 1, here)
            return here + 1
        here += 1
    return at + 1


@helper
def _past_bracket(out: U8, at: int, opening: int, closing: int) -> int:
    """The position after the closing bracket on the same line, or `at` + 1 if there is none."""
    depth, here = 0, at
    while here < out.size and out[here] != _NEWLINE and here - at < _LOOKAHEAD_BYTES_MAX:
        if out[here] == opening:
            depth += 1
        elif out[here] == closing:
            depth -= 1
            if depth == 0:
                return here + 1
        here += 1
    return at + 1


@helper
def _plain_string(out: U8, at: int, flags: int) -> int:
    quote, here = out[at], at + 1
    while here < out.size:
        byte = out[here]
        if byte == quote:
            if flags & DOUBLED and here + 1 < out.size and out[here + 1] == quote:
                here += 2
                continue
            _wipe(out, at + 1, here)
            return here + 1
        if byte == _NEWLINE and not flags & RUNS_ON:
            return here  # an unmatched quote, such as an apostrophe in text: the line stays as it is
        if byte == _BACKSLASH and not flags & DOUBLED:
            is_paren = here + 1 < out.size and out[here + 1] == ord("(")
            here = _past_bracket(out, here + 1, ord("("), ord(")")) if flags & SLASH_PAREN and is_paren else here + 2
        elif byte == ord("$") and flags & DOLLAR_BRACE and _is_at(out, here, ord("$"), ord("{")):
            here = _past_bracket(out, here + 1, ord("{"), ord("}"))
        else:
            here += 1
    if flags & RUNS_ON:
        _wipe(out, at + 1, out.size)
    return out.size


@helper
def _past_quotes(out: U8, at: int, start: int, quote: int, count: int, escapes: bool) -> int:
    """A string that ends with `count` quotes in a row, or with the file."""
    here, run = start, 0
    while here < out.size:
        if out[here] == quote:
            run += 1
            if run == count:
                _wipe(out, at, here + 1 - count)
                return here + 1
        else:
            run = 0
            if escapes and out[here] == _BACKSLASH:
                here += 1
        here += 1
    _wipe(out, at, out.size)
    return out.size


@helper
def _raw_c(out: U8, at: int) -> int:
    paren = at + 1
    while paren < out.size and paren - at <= _DELIMITER_BYTES_MAX and out[paren] != ord("("):
        paren += 1
    if paren >= out.size or out[paren] != ord("("):
        return at + 1
    length, here = paren - at - 1, paren + 1
    while here + length + 1 < out.size:
        if out[here] == ord(")") and out[here + length + 1] == ord('"'):
            same = True
            for each in range(length):
                same = same and out[here + 1 + each] == out[at + 1 + each]
            if same:
                _wipe(out, at + 1, here + length + 1)
                return here + length + 2
        here += 1
    _wipe(out, at + 1, out.size)
    return out.size


@helper
def _raw_rust(out: U8, at: int, hashes: int) -> int:
    here = at + 1
    while here < out.size:
        if out[here] == ord('"'):
            run = 0
            while run < hashes and here + 1 + run < out.size and out[here + 1 + run] == ord("#"):
                run += 1
            if run == hashes:
                _wipe(out, at + 1, here)
                return here + 1 + run
        here += 1
    _wipe(out, at + 1, out.size)
    return out.size


@helper
def _string(out: U8, at: int, flags: int) -> int:
    quote = out[at]
    before = out[at - 1] if at else _SPACE
    if flags & TRIPLE and at + 2 < out.size and out[at + 1] == quote and out[at + 2] == quote:
        return _past_quotes(out, at + 3, at + 3, quote, 3, True)
    if flags & RAW_C and before == ord("R"):
        return _raw_c(out, at)
    if flags & RAW_RUST:
        # The prefix is read backwards, because the quote is what starts a string here.
        hashes = 0
        while at > hashes and out[at - 1 - hashes] == ord("#"):
            hashes += 1
        if at > hashes and out[at - 1 - hashes] == ord("r"):
            return _raw_rust(out, at, hashes)
    if flags & VERBATIM and (before == ord("@") or (before == ord("$") and at > 1 and out[at - 2] == ord("@"))):
        return _plain_string(out, at, DOUBLED | RUNS_ON)
    return _plain_string(out, at, flags)


@helper
def _character(out: U8, at: int) -> int:
    """A character literal; any other apostrophe is left unchanged."""
    here = at + 1
    if here < out.size and out[here] == _BACKSLASH:
        here += 1
    # In Rust `'a` is a lifetime, and in C++ an apostrophe separates digits.
    elif here + 1 < out.size and out[here] < 128 and out[here + 1] != ord("'"):
        return at + 1
    here += 1
    while here < out.size and here - at <= _CHARACTER_BYTES_MAX and out[here] != _NEWLINE:
        if out[here] == ord("'"):
            _wipe(out, at + 1, here)
            return here + 1
        here += 1
    return at + 1


@helper
def _backtick(out: U8, at: int, flags: int) -> int:
    """A raw string or a template; the code inside a template, and templates in that, are blanked too."""
    if not flags & TEMPLATE:
        return _past_quotes(out, at + 1, at + 1, out[at], 1, False)
    depths = np.zeros(_TEMPLATE_DEPTH_MAX, np.int64)
    level, here = 0, at + 1
    while here < out.size:
        byte = out[here]
        is_text = depths[level] == 0
        if byte == _BACKSLASH:
            here += 1
        elif byte == ord("`"):
            if is_text and level == 0:
                break
            if is_text:
                level -= 1
            # Deeper templates are not tracked; what follows in the file is then approximate.
            elif level + 1 < _TEMPLATE_DEPTH_MAX:
                level += 1
                depths[level] = 0
        elif byte == ord("{") and (not is_text or out[here - 1] == ord("$")):
            depths[level] += 1
        elif byte == ord("}") and not is_text:
            depths[level] -= 1
        here += 1
    end = min(here, out.size)
    _wipe(out, at + 1, end)
    return end + 1


@helper
def _is_first_on_line(out: U8, at: int) -> bool:
    here = at - 1
    while here >= 0 and (out[here] == _SPACE or out[here] == _TAB):
        here -= 1
    return bool(here < 0 or out[here] == _NEWLINE)


@helper
def _directive(out: U8, at: int) -> int:
    """Preserves `#if`, `#define NAME` and similar; blanks the rest of the line and its continuation lines."""
    here = at + 1
    while here < out.size and (out[here] == _SPACE or out[here] == _TAB):
        here += 1
    # `define` is the only directive that begins so and is followed by a name.
    is_define = _is_at(out, here, ord("d"), ord("e"))
    while here < out.size and _IS_WORD[out[here]]:
        here += 1
    if is_define:
        while here < out.size and (out[here] == _SPACE or out[here] == _TAB):
            here += 1
        while here < out.size and _IS_WORD[out[here]]:
            here += 1
    start = here
    while here < out.size and out[here] != _NEWLINE:
        if _is_at(out, here, ord("/"), ord("*")):
            here = _block(out, here, ord("/"), ord("/"), False)
        elif _is_at(out, here, ord("/"), ord("/")):
            here = _wipe_line(out, here)
        elif out[here] == _BACKSLASH:
            is_crlf = _is_at(out, here + 1, ord("\r"), _NEWLINE)
            here += 3 if is_crlf else 2
        elif out[here] == ord('"'):
            here = _plain_string(out, here, 0)
        else:
            here += 1
    end = min(here, out.size)
    _wipe(out, start, end)
    return end


@helper
def _hash(out: U8, at: int, flags: int) -> int:
    if flags & DIRECTIVES:
        return _directive(out, at) if _is_first_on_line(out, at) else at + 1
    after = out[at + 1] if at + 1 < out.size else _NEWLINE
    if flags & ATTRIBUTES:
        start = at + 2 if after == ord("!") else at + 1
        if start < out.size and out[start] == ord("["):
            return _attribute(out, at, start)
        # In Rust and the like `#` begins nothing but attributes; in PHP it is also a comment.
        if not flags & SLASH_LINE or flags & RAW_RUST:
            return at + 1
    if flags & BLANK_BEFORE and at and not _BEFORE_COMMENT[out[at - 1]]:
        return at + 1
    return _wipe_line(out, at)


@helper
def _attribute(out: U8, at: int, bracket: int) -> int:
    depth, here = 0, bracket
    while here < out.size and here - at < _LOOKAHEAD_BYTES_MAX:
        if out[here] == ord("["):
            depth += 1
        elif out[here] == ord("]"):
            depth -= 1
            if depth == 0:
                _wipe(out, at, here + 1)
                return here + 1
        elif out[here] == ord('"'):
            here = _plain_string(out, here, 0) - 1
        here += 1
    return at + 1


@helper
def _pod(out: U8, at: int) -> int:
    """A block from `=word` at the start of a line to the line that begins with `=end` or `=cut`."""
    is_start = at == 0 or out[at - 1] == _NEWLINE
    if not is_start or at + 1 >= out.size or not (ord("a") <= out[at + 1] <= ord("z")):
        return at + 1
    here = at
    while here < out.size:
        end = _line_end(out, here)
        is_end = _is_at(out, here, ord("="), ord("e")) and _is_at(out, here + 2, ord("n"), ord("d"))
        is_cut = _is_at(out, here, ord("="), ord("c")) and _is_at(out, here + 2, ord("u"), ord("t"))
        _wipe(out, here, end)
        here = end + 1
        if is_end or is_cut:
            break
    return min(here, out.size)


@helper
def _long_bracket(out: U8, at: int) -> int:
    """Lua's `[==[ … ]==]`; returns `at` + 1 if there is none."""
    level, here = 0, at + 1
    while here < out.size and out[here] == ord("="):
        level += 1
        here += 1
    if here >= out.size or out[here] != ord("["):
        return at + 1
    while here < out.size:
        if out[here] == ord("]"):
            run = 0
            while here + 1 + run < out.size and out[here + 1 + run] == ord("="):
                run += 1
            if run == level and here + 1 + run < out.size and out[here + 1 + run] == ord("]"):
                _wipe(out, at, here + run + 2)
                return here + run + 2
        here += 1
    _wipe(out, at, out.size)
    return out.size


@helper
def _dash(out: U8, at: int) -> int:
    if not _is_at(out, at, ord("-"), ord("-")):
        return at + 1
    if at + 2 < out.size and out[at + 2] == ord("["):
        end = _long_bracket(out, at + 2)
        if end > at + 3:
            _wipe(out, at, at + 2)
            return end
    return _wipe_line(out, at)


@kernel(numba.void(numba.uint8[::1], BYTES, numba.int64, numba.int64))
def _blank(out: U8, acts: U8, flags: int, at: int) -> None:
    """Blanks from `at` on. `at` is a parameter because with a literal 0 numba compiles every helper twice."""
    while at < out.size:
        act = acts[out[at]]
        if act == 0:
            at += 1
        elif act == SLASH:
            at = _slash(out, at, flags)
        elif act == QUOTE:
            at = _string(out, at, flags)
        elif act == CHARACTER:
            at = _character(out, at)
        elif act == HASH:
            at = _hash(out, at, flags)
        elif act == BACKTICK:
            at = _backtick(out, at, flags)
        elif act == DASH:
            at = _dash(out, at)
        elif act == POD:
            at = _pod(out, at)
        elif act == LONG:
            at = _long_bracket(out, at)
        elif act == BRACE and _is_at(out, at, ord("{"), ord("-")):
            at = _block(out, at, ord("{"), ord("}"), True)
        else:
            at += 1


def mask_comments(content: bytes, lexical: LexicalRules) -> U8:
    """A copy of the text with comments and strings blanked."""
    out = np.frombuffer(content, np.uint8).copy()
    _blank(out, lexical.acts, lexical.flags, 0)
    return out
