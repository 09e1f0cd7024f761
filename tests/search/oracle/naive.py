"""What a search means, in the slowest and plainest way: the oracle the engine is held to.

Every document is looked at from its first byte to its last, and nothing is remembered between them. RE2 is used as a
user would use it on one whole text; there are no trigrams, no blocks, no lines cut out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from argosy.search.model import Repository
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

PROGRAMS_MAX = 512  # compiled patterns kept at hand, so that long runs stay small


@dataclass(frozen=True)
class Document:
    """A path with a content; one whose content was not indexed has an empty one."""

    path: bytes
    content: bytes
    branches: int = 1  # bit i: it is on the i-th branch; 0: it is not there
    language: str = ""
    names: tuple[tuple[int, int], ...] = ()  # where the definitions' names stand: (start, end)


@dataclass(frozen=True)
class Corpus:
    """One repository with all that is in it."""

    repository: Repository
    documents: tuple[Document, ...]


@dataclass(frozen=True, order=True)
class Span:
    """A stretch of the content, or of the path."""

    start: int
    end: int
    is_name: bool = False


@dataclass(frozen=True)
class Found:
    """A selected document and its matches in the order of the text; all of them in the content, or all in the path."""

    document: Document
    spans: tuple[Span, ...]


def search(corpus: Corpus, query: Query) -> list[Found]:
    """Every document the query selects, in the order they are kept. The kind of a whole query is how it is shown."""
    child = query.child if isinstance(query, Type) else query
    names_only = isinstance(query, Type) and query.kind is ResultKind.FILE_NAME
    left = reduce_for_repository(child, corpus)
    there = [document for document in corpus.documents if document.branches]
    return [
        found(corpus, document, left, names_only=names_only) for document in there if holds(child, corpus, document)
    ]


def found(corpus: Corpus, document: Document, query: Query, *, names_only: bool) -> Found:
    spans = [span for span in spans_of(query, corpus, document) if span.is_name or not names_only]
    return Found(document, settled(spans) or (Span(0, len(document.path), is_name=True),))


def settled(spans: list[Span]) -> tuple[Span, ...]:
    """Content before names, then by start, the longest first; what overlaps an earlier one is dropped."""
    has_content = any(not span.is_name for span in spans)
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if not (has_content and span.is_name) and (not kept or kept[-1].end <= span.start):
            kept.append(span)
    return tuple(kept)


def holds(query: Query, corpus: Corpus, document: Document) -> bool:
    """Whether the document satisfies the query."""
    match query:
        case Substring() | Regexp() | Symbol():
            return any(True for _ in leaf_spans(query, document))
        case And(children):
            return all(holds(child, corpus, document) for child in children)
        case Or(children):
            return any(holds(child, corpus, document) for child in children)
        case Not(child):
            return not holds(child, corpus, document)
        case Boost(child, _):
            return holds(child, corpus, document)
        case Type(ResultKind.REPO, child):
            return any(holds(child, corpus, other) for other in corpus.documents if other.branches)
        case Type(_, child):
            return holds(child, corpus, document)
        case Language(name):
            return name is not None and name == document.language
        case FileNameSet(names):
            return document.path in {name.encode("utf-8", "surrogateescape") for name in names}
        case OnBranch():
            return bool(document.branches & branch_mask(query, corpus.repository))
        case BranchesRepos():
            return any(holds(branch, corpus, document) for branch in branches_selected_by(query, corpus.repository))
        case _:
            return holds_for_repository(query, corpus.repository)


def holds_for_repository(query: Query, repository: Repository) -> bool:
    match query:
        case Const(value):
            return value
        case Repo(pattern):
            return has_match(pattern, repository.name)
        case RepoSet(names):
            return repository.name in names
        case RepoIds(ids):
            return repository.id in ids
        case Alias(name):
            return name in repository.aliases
        case Flag(name, value):
            return repository.flags.get(name, False) == value
        case Meta(name, pattern):
            return name in repository.metadata and has_match(pattern, repository.metadata[name])
    raise AssertionError(f"no such query: {query}")


def branch_mask(branch: OnBranch, repository: Repository) -> int:
    """The branches that are meant, as bits."""
    if branch.name == "HEAD":
        return 1
    names = [known.name for known in repository.branches]
    selected = [branch.name == name if branch.is_exact else branch.name in name for name in names]
    return sum(1 << position for position, is_selected in enumerate(selected) if is_selected)


def branches_selected_by(query: BranchesRepos, repository: Repository) -> list[OnBranch]:
    """The branches of this repository that the query names."""
    return [OnBranch(name, is_exact=True) for name, ids in query.pairs if repository.id in ids]


def reduce_for_repository(query: Query, corpus: Corpus) -> Query:
    """The rest of the query for the documents of this repository.

    Only that has matches to show: `repo:alpha or foo` is decided in alpha before foo is searched.
    """
    match query:
        case And(children):
            return join_parts(And, [reduce_for_repository(child, corpus) for child in children], neutral=True)
        case Or(children):
            return join_parts(Or, [reduce_for_repository(child, corpus) for child in children], neutral=False)
        case Not(child):
            match reduce_for_repository(child, corpus):
                case Const(value):
                    return Const(not value)
                case Not(inner):
                    return inner
                case inner:
                    return Not(inner)
        case Boost(child, factor):
            left = reduce_for_repository(child, corpus)
            return left if isinstance(left, Const) else Boost(left, factor)
        case Type(ResultKind.FILE_MATCH | ResultKind.FILE_NAME, child):
            return reduce_for_repository(child, corpus)
        case Type(ResultKind.REPO, child):
            return Const(any(holds(child, corpus, document) for document in corpus.documents if document.branches))
        case BranchesRepos():
            return join_parts(
                Or,
                [reduce_for_repository(branch, corpus) for branch in branches_selected_by(query, corpus.repository)],
                neutral=False,
            )
        case OnBranch():
            mask = branch_mask(query, corpus.repository)
            return Const(mask != 0) if mask in (0, (1 << len(corpus.repository.branches)) - 1) else query
        case Language(None):
            return Const(False)
        case Substring() | Regexp() | Symbol() | Language() | FileNameSet():
            return query
    return Const(holds_for_repository(query, corpus.repository))


def join_parts(node: type[And] | type[Or], children: list[Query], *, neutral: bool) -> Query:
    if Const(not neutral) in children:
        return Const(not neutral)
    kept = [child for child in children if child != Const(neutral)]
    return kept[0] if len(kept) == 1 else node(tuple(kept)) if kept else Const(neutral)


def spans_of(query: Query, corpus: Corpus, document: Document) -> Iterator[Span]:
    """The matches of a true, reduced query: of its true leaves, none of those under a Not, and no empty ones."""
    match query:
        case Substring() | Regexp() | Symbol():
            yield from (span for span in leaf_spans(query, document) if span.start < span.end)
        case And(children) | Or(children):
            for child in children:
                if holds(child, corpus, document):
                    yield from spans_of(child, corpus, document)
        case Boost(child, _):
            yield from spans_of(child, corpus, document)


def leaf_spans(leaf: Substring | Regexp | Symbol, document: Document) -> Iterator[Span]:
    """Every match of one leaf, empty ones too; in the name only where the content has nothing to show."""
    if isinstance(leaf, Symbol):
        is_text = is_utf8(document.content)
        for start, end in document.names:
            for low, high in occurrences(leaf.name, document.content[start:end], is_text=is_text):
                yield Span(start + low, start + high)
        return
    in_content = []
    if leaf.scope is not Scope.FILE_NAME:
        in_content = list(occurrences(leaf, document.content, is_text=is_utf8(document.content)))
        yield from (Span(start, end) for start, end in in_content)
    if leaf.scope is not Scope.CONTENT and not any(start < end for start, end in in_content):
        in_name = occurrences(leaf, document.path, is_text=is_utf8(document.path))
        yield from (Span(start, end, is_name=True) for start, end in in_name)


def occurrences(leaf: Substring | Regexp, text: bytes, *, is_text: bool) -> Iterator[tuple[int, int]]:
    """Successive leftmost matches that do not overlap."""
    pattern = re2.escape(leaf.text) if isinstance(leaf, Substring) else leaf.pattern
    program = compiled("(?m)" + ("" if leaf.is_case_sensitive else "(?i)") + pattern, is_text=is_text)
    position = 0
    while program and position <= len(text) and (match := program.search(text, position)):
        yield match.span()
        # After an empty match the search goes on one byte later. In the midst of a character only another empty one
        # could begin.
        position = match.end() + (match.start() == match.end())


def has_match(pattern: str, text: str) -> bool:
    return compiled("(?m)" + pattern, is_text=True).search(text.encode()) is not None


@lru_cache(PROGRAMS_MAX)
def compiled(pattern: str, *, is_text: bool) -> Any:
    """A program for valid UTF-8, or for bytes that are each a character of their own; None if it can match no byte."""
    options = re2.Options()
    options.log_errors = False
    if not is_text:
        options.encoding = re2.Options.Encoding.LATIN1
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error:
        if is_text:
            raise
        return None


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
