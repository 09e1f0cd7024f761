"""Random patterns with texts they are likely to match, and a tree written out as a pattern again."""

from collections.abc import Callable
from collections.abc import Sequence as Options
from typing import Any, TypeAlias

from hypothesis import strategies as st

from argosy.search.regex.charsets import charset
from argosy.search.regex.tree import (
    Assertion,
    AssertionKind,
    CaseMode,
    Chars,
    Choice,
    Class,
    CodePoints,
    Named,
    Node,
    Opaque,
    Repeat,
    Sequence,
)

# Both cases, both odd folds, characters of each length in UTF-8, letters with variants of another length (å, ß, в).
CHARS = "abkKsSzZ01_-. \n\tåÅßжЖвſK中😀"
LEAVES = [
    ".", "^", "$", r"\b", r"\B", r"\d", r"\D", r"\s", r"\S", r"\w", r"\W", r"\pL", r"\PN", r"\p{Lu}",
    r"\p{^Greek}", r"\P{Cyrillic}", r"\x41", r"\x{436}", r"\101", r"\Qa.b\E", r"\Q\E", r"\n", r"\.", r"\_",
    "[[:alpha:]]", "[^[:space:]b]", "[a-k]", "[^a]", "[Kk]", "[kж]", "[ж-я]", "[Ж-Ж]", r"[\W_]", r"[^\W0]", r"[\pL0]",
    r"[^\PL]", "[]a]", "[a-]", "[^]a-c]", "{", "]", "[ſ-ſ]", r"[^\x{212a}]", "[0-9]", "[^ж]", r"[^\x00-\x7f]", "[ab]",
    "abk", "жа", "中", "()", "(|a)", "(?i)", "(?-i)", "(?s)", "[01]{3}", "[01]-[zZ]", "b[sS]k", r"[ж-я]\d", r"\w{2}-",
]  # fmt: skip
OPENINGS = ["(", "(?:", "(?P<n>", "(?<n>", "(?i:", "(?-i:", "(?s:", "(?U:", "(?i-s:", "(?-m:"]
REPEATS = ["*", "+", "?", "{2}", "{1,3}", "{2,}", "{0}", "{0,1}", "*?", "+?", "??", "{2,3}?"]


def escaped(char: str) -> str:
    return f"\\x{{{ord(char):x}}}"


leaves = st.one_of(st.sampled_from(LEAVES), st.sampled_from(CHARS).map(escaped), st.sampled_from("abkKsS0жß中"))


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    grouped = st.builds(lambda opening, body: f"{opening}{body})", st.sampled_from(OPENINGS), inner)
    return st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        grouped,
        st.builds(lambda body, repeat: f"(?:{body}){repeat}", inner, st.sampled_from(REPEATS)),
    )


# A row of a few, since it is at their seams that reasoning can go wrong.
patterns = st.lists(st.recursive(leaves, _larger, max_leaves=5), min_size=1, max_size=4).map("".join)

# What a choice among options is left to: hypothesis, or a die.
Choose: TypeAlias = Callable[[Options[Any]], Any]


@st.composite
def texts(draw: st.DrawFn, node: Node) -> str:
    return text_for(node, lambda options: draw(st.sampled_from(options)))


def text_for(node: Node, choose: Choose) -> str:
    """Text with what may well be a match of the tree in it, once or twice."""
    pieces = [_filler(choose)]
    for _ in range(choose([1, 2])):
        pieces += [_sampled(node, choose), _filler(choose)]
    return "".join(pieces)


def _filler(choose: Choose) -> str:
    return "".join(choose(CHARS) for _ in range(choose(range(4))))


def _sampled(node: Node, choose: Choose) -> str:
    match node:
        case Chars(chars):
            return str(choose([chars, chars, chars.swapcase()]))
        case Class():
            taken = charset(node, is_folded=choose([False, True]))
            return str(choose([char for char in CHARS if char in taken] or CHARS))
        case Sequence(children):
            return "".join(_sampled(child, choose) for child in children)
        case Choice(children):
            return _sampled(choose(children), choose)
        case Repeat(child, least, most):
            times = choose(range(least, min(least + 2, least + 2 if most is None else most) + 1))
            return "".join(_sampled(child, choose) for _ in range(times))
        case _:
            return ""


_PLACES = {AssertionKind.LINE_START: "(?m:^)", AssertionKind.LINE_END: "(?m:$)"}


def written(node: Node) -> str:
    """A pattern with the meaning of the tree, spelled differently from what people write."""
    match node:
        case Chars(chars, case):
            return _in_case("".join(map(escaped, chars)), case)
        case Class((), True, _):
            return "(?s:.)"
        case Class(parts, is_negated, case):
            return _in_case(f"[{'^' if is_negated else ''}{''.join(map(_written_part, parts))}]", case)
        case Assertion(place):
            return _PLACES.get(place, place.value)
        case Sequence(children):
            return f"(?:{''.join(map(written, children))})"
        case Choice(children):
            return f"(?:{'|'.join(map(written, children))})"
        case Repeat(child, least, most, is_greedy):
            return f"(?:{written(child)}){{{least},{'' if most is None else most}}}{'' if is_greedy else '?'}"
        case Opaque():
            raise AssertionError("unknown node")


def _in_case(body: str, case: CaseMode) -> str:
    return {CaseMode.DEFAULT: f"(?:{body})", CaseMode.FOLDED: f"(?i:{body})", CaseMode.EXACT: f"(?-i:{body})"}[case]


def _written_part(part: CodePoints | Named) -> str:
    if isinstance(part, CodePoints):
        return f"{escaped(chr(part.low))}-{escaped(chr(part.high))}"
    if part.name.startswith("["):
        return part.name.replace("[:", "[:^") if part.is_negated else part.name
    if part.name.startswith("\\"):
        return part.name.upper() if part.is_negated else part.name
    return rf"\{'P' if part.is_negated else 'p'}{{{part.name}}}"
