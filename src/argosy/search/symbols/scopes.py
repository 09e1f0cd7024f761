"""Finds the scopes of languages whose bodies are searched too, and the parents of definitions from scopes.

JavaScript defines functions inside functions and calls, so bodies are not blanked and every brace is a scope. A scope
belongs to the last definition in its header, which is the text since the statement began.
"""

from typing import TypeAlias

import numba
import numpy as np
import numpy.typing as npt

from argosy.search.arrays import I32, U8, U64
from argosy.search.kernels.compiler import BYTES, INTS, LONGS, helper, kernel
from argosy.search.symbols.lexical_rules import BLOCK, HASH_FACTOR, HASH_START, TOP, Words

Flags: TypeAlias = npt.NDArray[np.bool_]

DEPTH_MAX = 500  # nested braces and parentheses; deeper ones are not distinguished
SCOPE_BYTES = 2  # the smallest scope is `{}`; it bounds the number of scopes of a text

_PAREN, _BRACE, _TYPE = 0, 1, 2

_NEWLINE = ord("\n")
_IS_WORD = np.zeros(256, np.bool_)
_IS_WORD[[*range(48, 58), *range(65, 91), 95, 36, *range(97, 123), *range(128, 256)]] = True
_IS_BLANK = np.zeros(256, np.bool_)
_IS_BLANK[np.frombuffer(b" \t\r\n", np.uint8)] = True
# JavaScript ends statements at line ends by rules that need a parser. Approximation: a line that ends or begins with
# one of these characters continues the statement.
_GOES_ON_AFTER = np.zeros(256, np.bool_)
_GOES_ON_AFTER[np.frombuffer(b"=,&|+:?>(<", np.uint8)] = True
_GOES_ON_WITH = np.zeros(256, np.bool_)
_GOES_ON_WITH[np.frombuffer(b"{.=?:&|+),>", np.uint8)] = True
_REFUSED_AFTER = np.zeros(256, np.bool_)
_REFUSED_AFTER[np.frombuffer(b"(=;,.):?}", np.uint8)] = True


@helper
def _after_blanks(text: U8, at: int) -> int:
    while at < text.size and _IS_BLANK[text[at]]:
        at += 1
    return at


@helper
def _before_blanks(text: U8, at: int) -> int:
    while at >= 0 and _IS_BLANK[text[at]]:
        at -= 1
    return at


@helper
def _is_extends(text: U8, at: int) -> bool:
    """Whether `extends` or `implements` is here, which continues the header of a class."""
    if at + 7 >= text.size:
        return False
    is_extends = text[at] == ord("e") and text[at + 2] == ord("t") and text[at + 6] == ord("s")
    return bool(is_extends or (text[at] == ord("i") and text[at + 1] == ord("m") and text[at + 3] == ord("l")))


@helper
def _goes_on(text: U8, before: int, after: int) -> bool:
    """Whether the statement whose last byte is at `before` continues at `after`, on another line."""
    if after >= text.size:
        return False
    return bool(_GOES_ON_AFTER[text[before]] or _GOES_ON_WITH[text[after]] or _is_extends(text, after))


@helper
def _context_at(text: U8, at: int, end: int, hashes: U64, codes: U8) -> int:
    hashed = np.uint64(HASH_START)
    for here in range(at, end):
        hashed = (hashed ^ np.uint64(text[here])) * np.uint64(HASH_FACTOR)
    slot = np.int64(hashed & np.uint64(255))
    while hashes[slot] != 0:
        if hashes[slot] == hashed:
            after = _after_blanks(text, end)
            is_refused = after >= text.size or _REFUSED_AFTER[text[after]]
            is_property = at > 0 and (text[at - 1] == ord(".") or text[at - 1] == ord("@"))
            return 0 if is_refused or is_property else int(codes[slot])
        slot = (slot + 1) & 255
    return 0


@helper
def _is_code(text: U8, at: int) -> bool:
    """Whether a body begins here: `=> {`, `) {`, `function`, `class`. Another `=>` has a type or a value after it."""
    byte = text[at]
    if byte == ord("="):
        after = _after_blanks(text, at + 2) if at + 1 < text.size and text[at + 1] == ord(">") else text.size
        return bool(after < text.size and text[after] == ord("{"))
    if byte == ord("{"):
        before = _before_blanks(text, at - 1)
        return bool(before >= 0 and text[before] == ord(")"))
    if at + 5 >= text.size or (at and _IS_WORD[text[at - 1]]):
        return False
    if byte == ord("c"):
        return bool(text[at + 1] == ord("l") and text[at + 3] == ord("s") and text[at + 5] == ord(" "))
    return bool(byte == ord("f") and text[at + 1] == ord("u") and text[at + 3] == ord("c") and text[at + 5] == ord("i"))


@kernel(numba.void(numba.uint8[::1], numba.int64))
def _blank_arguments(text: U8, at: int) -> None:
    """Blanks parentheses in which no function begins: arguments, parameters, conditions."""
    opens, has_code = np.zeros(DEPTH_MAX, np.int32), np.zeros(DEPTH_MAX, np.bool_)
    depth = 0
    while at < text.size:
        byte = text[at]
        if byte == ord("("):
            if depth < DEPTH_MAX:
                opens[depth], has_code[depth] = at, False
            depth += 1
        elif byte == ord(")") and depth:
            depth -= 1
            # Code in an inner parenthesis is inside all outer ones too.
            if depth < DEPTH_MAX and has_code[depth]:
                has_code[max(0, depth - 1)] = True
            elif depth < DEPTH_MAX:
                for each in range(opens[depth] + 1, at):
                    if text[each] != _NEWLINE:
                        text[each] = ord(" ")
        elif 0 < depth < DEPTH_MAX and not has_code[depth - 1] and _is_code(text, at):
            has_code[depth - 1] = True
        at += 1


@kernel(numba.int64(numba.uint8[::1], numba.int64, LONGS, BYTES, numba.int32[:, ::1]))
def _nest(text: U8, at: int, hashes: U64, codes: U8, scopes: I32) -> int:
    """Writes (header, open, close, context, 0) of each brace in opening order; returns their number."""
    kinds, marks = np.zeros(DEPTH_MAX, np.int32), np.zeros(DEPTH_MAX, np.int32)
    contexts = np.zeros(DEPTH_MAX, np.int32)
    depth, count, header, context, last = 0, 0, at, 0, at
    while at < text.size:
        byte = text[at]
        if byte == _NEWLINE:
            if last >= header and (depth == 0 or kinds[depth - 1] != _PAREN):
                at = _after_blanks(text, at)
                if not _goes_on(text, last, at):
                    header, context = at, 0
            else:
                at += 1
            continue
        before, last = last, last if _IS_BLANK[byte] else at
        if _IS_WORD[byte]:
            end = at + 1
            while end < text.size and _IS_WORD[text[end]]:
                end += 1
            found = _context_at(text, at, end, hashes, codes)
            context = found if found else context
            last, at = end - 1, end
            continue
        if byte == ord("{"):
            # In a class header, `{` after an operator begins a type literal, and the header continues.
            is_type = context != 0 and text[before] != ord(">") and _GOES_ON_AFTER[text[before]]
            if depth < DEPTH_MAX and count < len(scopes):
                scopes[count, 0], scopes[count, 1], scopes[count, 2] = header, at, text.size
                scopes[count, 3], scopes[count, 4] = context if context and not is_type else BLOCK, 0
                kinds[depth], marks[depth] = _TYPE if is_type else _BRACE, count
                contexts[depth] = context
                depth, count = depth + 1, count + 1
            header, context = at + 1, 0
        elif byte == ord("}"):
            # A brace that closes proves that parentheses inside it were never closed.
            while depth and kinds[depth - 1] == _PAREN:
                depth -= 1
            header, context = at + 1, 0
            if depth:
                depth -= 1
                scopes[marks[depth], 2] = at
                if kinds[depth] == _TYPE:
                    header, context = scopes[marks[depth], 0], contexts[depth]
        elif byte == ord("(") and depth < DEPTH_MAX:
            # The header is saved, because it goes on behind the parenthesis: parameters are part of it.
            kinds[depth], marks[depth], contexts[depth] = _PAREN, header, context
            depth, header, context = depth + 1, at + 1, 0
        elif byte == ord(")"):
            if depth and kinds[depth - 1] == _PAREN:
                depth -= 1
                header, context = marks[depth], contexts[depth]
        elif byte == ord(";") or (byte == ord(",") and context == 0):
            header, context = at + 1, 0
        at += 1
    return count


def find_scopes(text: U8, words: Words) -> I32:
    """The scopes of masked text, one per brace. Blanks arguments in place."""
    _blank_arguments(text, 0)
    scopes = np.empty((len(text) // SCOPE_BYTES + 8, 5), np.int32)
    return scopes[: _nest(text, 0, words.hashes, words.codes, scopes)]


@helper
def _definition_after(starts: I32, number: int, close: int) -> int:
    """The first definition after `close`: in `typedef struct { … } name;`, the name of the struct."""
    while number < starts.size and starts[number] < close:
        number += 1
    return number if number < starts.size else -1


@kernel(numba.void(INTS, numba.boolean[::1], numba.int32[:, ::1], numba.int32[::1], numba.int32[::1]))
def _place(starts: I32, owns: Flags, scopes: I32, parents: I32, contexts: I32) -> None:
    """Writes the parent of each definition, in text order, and the context of its innermost scope."""
    stack, owners = np.zeros(DEPTH_MAX, np.int32), np.zeros(DEPTH_MAX, np.int32)
    depth, scope = 0, 0
    for number in range(starts.size):
        start = starts[number]
        while scope < len(scopes) and scopes[scope, 1] < start:
            while depth and scopes[stack[depth - 1], 2] <= scopes[scope, 1]:
                depth -= 1
            if depth < DEPTH_MAX:
                last = number - 1
                while last >= 0 and not owns[last] and starts[last] >= scopes[scope, 0]:
                    last -= 1
                if last < 0 or starts[last] < scopes[scope, 0]:
                    last = _definition_after(starts, number, scopes[scope, 2]) if scopes[scope, 4] else -1
                stack[depth], owners[depth] = scope, last
                depth += 1
            scope += 1
        while depth and scopes[stack[depth - 1], 2] <= start:
            depth -= 1
        contexts[number] = scopes[stack[depth - 1], 3] if depth else TOP
        parents[number] = -1
        # A scope that belongs to no definition, such as a plain block, leaves its definitions to the scope around it.
        for level in range(depth - 1, -1, -1):
            if owners[level] >= 0:
                parents[number] = owners[level]
                break


def find_parents(starts: I32, owns: Flags, scopes: I32) -> tuple[I32, I32]:
    """The parent and the context of each definition.

    `starts` are the positions of their names, ascending; `owns` says whether a scope can belong to the definition.
    """
    parents, contexts = np.empty(len(starts), np.int32), np.empty(len(starts), np.int32)
    # Kernels take index arrays read-only.
    starts.setflags(write=False)
    _place(starts, owns, scopes, parents, contexts)
    return parents, contexts
