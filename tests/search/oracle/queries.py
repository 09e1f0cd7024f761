"""Random queries about a given checkout: every leaf, trees of them, and regular expressions from a small grammar.

Most patterns are cut out of the documents, since one made up rarely matches. Cuts prefer the places where an index has
seams: the ends of blocks, and the overlap after a line was cut.
"""

from random import Random

import re2

from argosy.search.arrays import OVERLAP_BYTES
from argosy.search.index.index import BLOCK_BYTES, LONG_LINE_BYTES
from argosy.search.query.tree import (
    Alias,
    And,
    Boost,
    BranchesRepos,
    Const,
    FileNameSet,
    Flag,
    Language,
    Meta,
    Not,
    OnBranch,
    Or,
    Query,
    Regexp,
    Repo,
    RepoIds,
    RepoSet,
    ResultKind,
    Scope,
    Substring,
    Symbol,
    Type,
)
from tests.search.oracle.corpora import BRANCH_NAMES, FLAGS, LETTERS, MARKS, REPOSITORY_NAMES, WORDS, Checkout, is_rare

DEPTH_MAX = 4
INNER_KINDS = [ResultKind.FILE_MATCH, ResultKind.REPO]
SCOPES = [Scope.ANY, Scope.ANY, Scope.CONTENT, Scope.CONTENT, Scope.FILE_NAME]
LENGTHS = [1, 2, 3, 3, 4, 5, 8, 20, OVERLAP_BYTES - 1, OVERLAP_BYTES + 2, 2 * OVERLAP_BYTES]
SEAMS = [LONG_LINE_BYTES, BLOCK_BYTES, 2 * BLOCK_BYTES, 3 * BLOCK_BYTES]

CHARACTERS = [
    r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", ".", "(?s:.)", r"\n", r"\r", r"\x{212a}", "[ab]", "[^a]", r"[^\n]",
    "[A-K]", "[k-s]", "[0-9]", r"[\w.]", "[[:alpha:]]", r"\pL", r"\PL", r"\p{Cyrillic}", "[éп]", "[^éп]", "[А-Я]",
    r"\Qa.\E", r"\.", r"\(",
]  # fmt: skip
PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\z"]
REPEATS = ["*", "+", "?", "{2}", "{1,3}", "{2,}", "{0}", "*?", "+?", "??", "{0,2}?"]
HOLES = [".*", ".*?", r"\s*", r"\s+", r"[^\n]*", "(?s:.*)", r"\w+", "(?s:.{0,9})", "|", "$", r"\b", ""]
FLAGGED = ["", "", "", "(?i)", "(?s)", "(?-m)", "(?U)", "(?-i)"]
GROUPS = ["(", "(?:", "(?i:", "(?-i:", "(?s:", "(?-m:", "(?P<group>"]
WHOLE = [
    "", ".", ".*", ".+", "^", "$", "^$", r"\b", r"^\s*$", r"\s+", r"\n", r"\n+", r"(?i)k", "(?i)ſ", "(?-i)k",
    "(?i:a)b", "(?s).+", r"a\s+b", r"\A\w", r"\w\z", r"\A\z", r"[^\n]\z", r"\bfoo\b", r"^def \w+", r"(a|ab)(c|bcd)?",
    "(?U)a+b", "(?P<name>a)b", "a|b|k", "foo|", "|foo", "(?:)", r"\n\n", r"$\n^", r"\r?\n", r"[^a]+", r"\x6b", r"\141",
    "(?i)[^k]", "(?i)[a-k]+", "x*y*", r"\s\S\s", "q{20,}w", r"q\n+w?q", r"\pLk", "(?-m)^a", "(?-m)b$", r"foo$", "^foo",
]  # fmt: skip


def made_up(random: Random) -> str:
    return "".join(random.choice(LETTERS + MARKS + WORDS) for _ in range(1 + random.randrange(3)))


def cut_out(random: Random, checkout: Checkout) -> str:
    """A piece of some content or path, perhaps in another case; broken bytes fall out."""
    texts = [text for file in checkout.files for text in (file.content, file.content, file.path) if text]
    if not texts:
        return made_up(random)
    text, length = random.choice(texts), random.choice(LENGTHS)
    if len(text) > BLOCK_BYTES and is_rare(random, 2):
        start = max(0, min(random.choice(SEAMS), len(text)) - random.randrange(length + 1))
    else:
        start = random.randrange(len(text))
    piece = text[start : start + length].decode("utf-8", "ignore")
    turned = random.choice([piece, piece, piece.lower(), piece.upper(), piece.swapcase(), piece.strip()])
    return turned or made_up(random)


def text(random: Random, checkout: Checkout) -> str:
    return made_up(random) if is_rare(random, 4) else cut_out(random, checkout)


def pattern(random: Random, checkout: Checkout) -> str:
    match random.randrange(3):
        case 0:
            return random.choice(WHOLE)
        case 1:
            return holed(random, checkout)
        case _:
            return random.choice(FLAGGED) + expression(random, checkout, depth=3)


def holed(random: Random, checkout: Checkout) -> str:
    """A text that is there, with a hole in it that the pattern must bridge."""
    piece = cut_out(random, checkout)
    low = random.randrange(len(piece) + 1)
    high = min(len(piece), low + random.choice([0, 1, 2, 30]))
    return str(re2.escape(piece[:low])) + random.choice(HOLES) + str(re2.escape(piece[high:]))


def expression(random: Random, checkout: Checkout, depth: int) -> str:
    form = random.randrange(9 if depth else 5)
    if form <= 2:
        return str(re2.escape(text(random, checkout)))
    if form == 3:
        return random.choice(CHARACTERS)
    if form == 4:
        return random.choice(PLACES)
    inner = expression(random, checkout, depth - 1)
    if form == 5:
        return f"(?:{inner}){random.choice(REPEATS)}"
    other = expression(random, checkout, depth - 1)
    return f"{random.choice(GROUPS)}{inner}|{other})" if form == 6 else inner + other


def substring(random: Random, checkout: Checkout) -> Substring:
    return Substring(text(random, checkout), is_rare(random, 3), random.choice(SCOPES))


def regexp(random: Random, checkout: Checkout) -> Regexp:
    return Regexp(pattern(random, checkout), is_rare(random, 3), random.choice(SCOPES))


def text_leaf(random: Random, checkout: Checkout) -> Substring | Regexp:
    return regexp(random, checkout) if is_rare(random, 2) else substring(random, checkout)


def symbol(random: Random, checkout: Checkout) -> Symbol:
    if is_rare(random, 2):
        return Symbol(text_leaf(random, checkout))
    return Symbol(Regexp(random.choice(["foo", "^foo$", "o+", "(?i)AB", "^", ".*", r"\bB"]), is_rare(random, 2)))


def repository_fact(random: Random, _: Checkout) -> Query:
    match random.randrange(7):
        case 0:
            return Repo(random.choice(["a", "^alpha$", "^team/", "A", "zeta"]))
        case 1:
            return RepoSet(frozenset(random.choice([[], ["nowhere"], REPOSITORY_NAMES[:1], REPOSITORY_NAMES])))
        case 2:
            return RepoIds(frozenset(random.choice([[], [1], [2, 3], [1, 2]])))
        case 3:
            return Alias(random.choice(["first", "second", "alpha"]))
        case 4:
            return Flag(random.choice(FLAGS), is_rare(random, 2))
        case 5:
            return Meta(random.choice(["tier", "tier", "owner"]), random.choice(["old", "^a", "b$", "", "x"]))
        case _:
            return Const(is_rare(random, 2))


def document_fact(random: Random, checkout: Checkout) -> Query:
    match random.randrange(4):
        case 0:
            return Language(random.choice(["Python", "Go", "C", "Text", "Markdown", None]))
        case 1:
            return OnBranch(random.choice([*BRANCH_NAMES, "HEAD", "mai", "-", "nowhere"]), is_rare(random, 2))
        case 2:
            ids = [frozenset(random.choice([[], [1], [2], [1, 2]])) for _ in range(random.randrange(3))]
            return BranchesRepos(tuple((random.choice([*BRANCH_NAMES, "HEAD"]), some) for some in ids))
        case _:
            here = [file.path.decode("utf-8", "surrogateescape") for file in checkout.files]
            return FileNameSet(frozenset(random.choice([*here, "not/here"]) for _ in range(random.randrange(4))))


def leaf(random: Random, checkout: Checkout) -> Query:
    form = random.randrange(10)
    if form <= 6:
        return text_leaf(random, checkout)
    if form == 7:
        return symbol(random, checkout)
    return document_fact(random, checkout) if form == 8 else repository_fact(random, checkout)


def query(random: Random, checkout: Checkout, depth: int = DEPTH_MAX) -> Query:
    """A leaf, more often than not, or a tree of at most this depth."""
    form = random.randrange(10) if depth > 1 else 0
    if form <= 4:
        return leaf(random, checkout)
    if form <= 7:
        children = tuple(query(random, checkout, depth - 1) for _ in range(random.choice([2, 2, 3, 0])))
        return And(children) if form == 5 else Or(children)
    child = query(random, checkout, depth - 1)
    return Not(child) if form == 8 else around(random, child)


def plain_query(random: Random, checkout: Checkout) -> Query:
    """A query without an option for the form of the result."""
    drawn = query(random, checkout)
    return drawn.child if isinstance(drawn, Type) else drawn


def around(random: Random, child: Query) -> Query:
    """What may surround a part of a query; the form of the result is an option of the whole query."""
    forms: list[Query] = [Boost(child, 2.5)]
    if not isinstance(child, Type):
        forms += [Type(kind, child) for kind in INNER_KINDS]
    return random.choice(forms)
