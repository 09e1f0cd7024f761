"""The engine and the oracle search the same checkout, and their results are compared to the last column."""

from collections.abc import Sequence

from msgspec import structs

from argosy.search.backends.memory import MemoryFile, MemorySource
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.languages import language_of
from argosy.search.match.limits import Budget
from argosy.search.match.search import search_index
from argosy.search.model import Chunk, FileMatch, Form, Fragment, Line, Options, SearchResult
from argosy.search.query.tree import Query
from argosy.search.skip_policy import Policy
from argosy.search.symbols.extract import definitions
from tests.search.oracle import comparison, naive
from tests.search.oracle.corpora import NUL, Checkout, File
from tests.search.oracle.reduction import smallest

# Nothing is left out, and no line is clipped.
EVERYTHING = Options(files_max=0, index_match_limit=0, wall_time_s=0.0, with_content=True, line_bytes_max=1 << 30)


def build_index(checkout: Checkout, previous: Index | None = None) -> Index:
    files = [MemoryFile(file.path, file.content, file.branches) for file in checkout.files]
    return build(MemorySource(checkout.repository, files), Policy(), previous=previous)


def corpus_of(checkout: Checkout) -> naive.Corpus:
    return naive.Corpus(checkout.repository, tuple(document_of(file) for file in checkout.files))


def document_of(file: File) -> naive.Document:
    """The file as it should be indexed. What counts as a definition is the symbol room's affair, and taken as given."""
    content = b"" if NUL in file.content else file.content
    language = language_of(file.path, file.content)
    names = tuple((each.start, each.start + each.length) for each in definitions(language, content))
    return naive.Document(file.path, content, file.branches, language, names)


def search_one(index: Index, query: Query, options: Options = EVERYTHING) -> SearchResult:
    return search_index(index, query, options, Budget(lambda: 0.0))


def check_query(case: Checkout, query: Query, options: Options = EVERYTHING, index: Index | None = None) -> None:
    """Searches with both, and reports the smallest input that shows a difference."""
    try:
        check(search_one(index or build_index(case), query, options), corpus_of(case), query, options)
    except Exception as error:
        raise AssertionError(describe(case, query, options)) from error


def describe(case: Checkout, query: Query, options: Options) -> str:
    small, part = smallest(case, query, lambda case, query: is_wrong(case, query, options))
    branches = [branch.name for branch in small.repository.branches]
    description = f"{part}\n  about {small.repository.name}, {branches}" + "".join(
        f"\n    {file}" for file in small.files
    )
    if is_wrong(small, part, options):
        answer = search_one(build_index(small), part, options)
        found = naive.search(corpus_of(small), part)
        given = answer.stats.files, answer.stats.matches, [summary(file) for file in answer.files]
        return f"{description}\n  the engine: {given}\n  the oracle: {found}"
    return f"{description}\n  only by the way this index came to be"


def summary(file: FileMatch) -> tuple[object, ...]:
    ranges = [(each.start.offset, each.end.offset) for chunk in file.chunks for each in chunk.ranges]
    return file.path, file.match_count, ranges, any(chunk.is_file_name for chunk in file.chunks), file.lines


def is_wrong(case: Checkout, query: Query, options: Options) -> bool:
    try:
        check(search_one(build_index(case), query, options), corpus_of(case), query, options)
    except Exception:
        return True
    return False


def check(answer: SearchResult, corpus: naive.Corpus, query: Query, options: Options = EVERYTHING) -> None:
    """The result equals the oracle: the same files, the same matches, in the same form."""
    expected = sorted(naive.search(corpus, query), key=lambda found: key_of_document(corpus, found.document))
    assert answer.is_complete, answer.limits_hit
    assert answer.stats.files == len(expected)
    assert answer.stats.matches == sum(len(found.spans) for found in expected)
    if options.form is Form.COUNT:
        assert answer.files == ()
        return
    given = sorted(answer.files, key=key_of_file)
    assert [key_of_file(file) for file in given] == [key_of_document(corpus, found.document) for found in expected]
    for file, found in zip(given, expected, strict=True):
        assert file.match_count == len(found.spans), file.path
        assert file.language == found.document.language
        check_shown(file, found, options)


def key_of_file(file: FileMatch) -> tuple[bytes, bytes, tuple[str, ...]]:
    assert file.content is not None
    return file.path.encode("utf-8", "surrogateescape"), file.content, file.branches


def key_of_document(corpus: naive.Corpus, document: naive.Document) -> tuple[bytes, bytes, tuple[str, ...]]:
    branches = enumerate(corpus.repository.branches)
    names = tuple(branch.name for place, branch in branches if document.branches >> place & 1)
    return document.path, document.content, names


def check_shown(file: FileMatch, found: naive.Found, options: Options) -> None:
    document = found.document
    is_name = found.spans[0].is_name
    match options.form:
        case Form.CHUNKS if is_name:
            assert plain_chunks(file.chunks) == [comparison.name_chunk(document.path, found.spans)]
        case Form.CHUNKS:
            assert plain_chunks(file.chunks) == comparison.chunks(document.content, found.spans, options.context_lines)
        case Form.LINES if is_name:
            assert plain_lines(file.lines) == [comparison.name_line(document.path, found.spans)]
        case Form.LINES:
            assert plain_lines(file.lines) == comparison.lines(document.content, found.spans, options.context_lines)


def plain_chunks(chunks: Sequence[Chunk]) -> list[Chunk]:
    """In the order of the text, without what ranking added."""
    bare = [structs.replace(chunk, symbols=(), best_line=0, score=0.0, explanation="") for chunk in chunks]
    return sorted(bare, key=lambda chunk: chunk.start.offset)


def plain_lines(lines: Sequence[Line]) -> list[Line]:
    """In the order of the text, without what ranking added."""
    bare = [structs.replace(line, fragments=plain_fragments(line), score=0.0, explanation="") for line in lines]
    return sorted(bare, key=lambda line: line.start)


def plain_fragments(line: Line) -> tuple[Fragment, ...]:
    return tuple(structs.replace(fragment, symbol=None) for fragment in line.fragments)
