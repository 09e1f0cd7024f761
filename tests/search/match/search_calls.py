"""Small indexes and searches of them, shared by the tests of matching."""

from collections.abc import Callable, Mapping

import numpy as np

from argosy.search.arrays import U8, U32, freeze
from argosy.search.backends.memory import MemoryFile, MemorySource
from argosy.search.documents import Content
from argosy.search.index.build import build
from argosy.search.index.index import Index, Segment
from argosy.search.match import Budget, search_index, search_indexes
from argosy.search.match.limits import never
from argosy.search.model import Branch, FileMatch, Options, Repository, SearchResult
from argosy.search.query import parse
from argosy.search.query.tree import Query
from argosy.search.skip_policy import Policy


def build_index(files: Mapping[str | bytes, Content], name: str = "repo", rank: int = 0) -> Index:
    repository = Repository(name, branches=(Branch("main"),), rank=rank)
    listed = [
        MemoryFile(path if isinstance(path, bytes) else path.encode(), content) for path, content in files.items()
    ]
    return build(MemorySource(repository, listed), Policy())


def segment_of(files: Mapping[str | bytes, Content]) -> Segment:
    [part] = build_index(files).parts
    return part.segment


def search_one(
    index: Index, query: str | Query, options: Options | None = None, budget: Budget | None = None
) -> SearchResult:
    return search_index(index, tree_of(query), options or Options(), budget or unbounded())


def search_many(indexes: list[Index], query: str | Query, options: Options | None = None) -> SearchResult:
    return search_indexes(indexes, tree_of(query), options or Options(), unbounded())


def tree_of(query: str | Query) -> Query:
    return parse(query).query if isinstance(query, str) else query


def only_file(answer: SearchResult) -> FileMatch:
    [file] = answer.files
    return file


def unbounded() -> Budget:
    return Budget(lambda: 0.0)


def array(*numbers: int) -> U32:
    return freeze(np.array(numbers, np.uint32))


def data_of(text: bytes) -> U8:
    return freeze(np.frombuffer(text, np.uint8))


class CountingFlag:
    """A flag that is raised at its n-th check, and counts its checks."""

    def __init__(self, raised_at: int = 1 << 62) -> None:
        self.raised_at = raised_at
        self.seen = 0

    def __call__(self) -> bool:
        self.seen += 1
        return self.seen >= self.raised_at


def cancelled_by(flag: Callable[[], bool] = never) -> Budget:
    return Budget(lambda: 0.0, is_cancelled=flag)
