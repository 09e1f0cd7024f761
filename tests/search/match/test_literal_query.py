"""The fast path for literals returns the result of the general path, to the byte."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from argosy.search.arrays import U64, freeze
from argosy.search.index.index import Index, Part
from argosy.search.index.kernel_tables import KernelTables
from argosy.search.kernels.candidates import BYTES, DOCUMENTS, PAST_BLOCK, UNDECIDED
from argosy.search.match import evaluate, literal_query
from argosy.search.match.atoms import Atoms
from argosy.search.match.literal_query import LiteralQuery, Piece
from argosy.search.model import Form, Options, SearchResult
from argosy.search.query.tree import Query, Scope, Substring
from tests.search.match.search_calls import build_index, search_one

words = [b"needle", b"NEEDLE", b"needleneedle", b" ", b"\n", b"x" * 60, b"y\n" * 2500, b"z" * 9000, b"ks\n"]
texts = st.lists(st.sampled_from(words), max_size=9).map(b"".join)
names = st.sampled_from(["a.txt", "needle.c", "dir/needle/b.c", "K\u212aS.txt", "needle/needle.py", "z"])
literals = st.sampled_from(["needle", "eedlen", "NEEDLE", "ks", "xxx"])
queries = st.builds(Substring, literals, st.booleans(), st.sampled_from(Scope))


def the_long_way(index: Index, query: Query, options: Options) -> SearchResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(literal_query.LiteralQuery, "of", lambda *_, **__: None)
        return search_one(index, query, options)


@settings(deadline=None, max_examples=80)
@given(st.dictionaries(names, texts, min_size=1), queries, st.sampled_from(Form))
def test_both_paths_give_the_same_result(files: dict[str | bytes, bytes], query: Substring, form: Form) -> None:
    index, options = build_index(files), Options(form=form, context_lines=1)
    short, long = search_one(index, query, options), the_long_way(index, query, options)
    assert short.files == long.files
    assert short.limits_hit == long.limits_hit
    costs = {"index_bytes": 0, "ngram_lookups": 0}  # a key that is missing ends one lookup and not the other
    assert structs.replace(short.stats, **costs) == structs.replace(long.stats, **costs)


definitions = st.sampled_from(["def needle(): pass", "def haystack(): pass", "needle()", "class Needles: 1", "x = 1"])
programs = st.lists(definitions, max_size=90).map(lambda lines: "\n".join(lines).encode())


@settings(deadline=None, max_examples=60)
@given(st.lists(programs, min_size=1, max_size=5), st.sampled_from(["needle", "eedles", "haystack", "pass"]))
def test_scores_equal_those_of_the_general_path_for_any_number_of_definitions(texts: list[bytes], word: str) -> None:
    index = build_index({f"{i}.py": text for i, text in enumerate(texts)})
    short, long = (way(index, Substring(word), Options()) for way in (search_one, the_long_way))
    assert [(file.path, file.score) for file in short.files] == [(file.path, file.score) for file in long.files]


def pieces_of(index: Index, query: Query, branches: U64 | None = None) -> list[Piece]:
    """What the postings leave of an index of one part."""
    if branches is not None:
        [part] = index.parts
        index = Index(index.repository, (Part(part.segment, branches),))
    found = LiteralQuery.of(query, Atoms(query))
    assert found is not None
    return found.select_candidates(KernelTables([index]), 0, 1).pieces


def test_a_part_that_is_ruled_out_gives_no_result() -> None:
    assert pieces_of(build_index({"a.txt": b"needle"}), Substring("noodle")) == []


def test_a_document_on_no_branch_is_not_seen() -> None:
    index = build_index({"a.txt": b"needle", "b.txt": b"needle"})
    assert pieces_of(index, Substring("needle")) == [[0, 0, 2, 2, 14]]
    assert pieces_of(index, Substring("needle"), freeze(np.array([0, 1], np.uint64))) == [[0, 0, 1, 1, 7]]
    assert pieces_of(index, Substring("needle"), freeze(np.zeros(2, np.uint64))) == []


def test_a_segment_with_letters_that_fold_oddly_is_left_to_the_tree() -> None:
    index = build_index({"a.txt": "K\u212aS needle".encode()})
    assert [piece[PAST_BLOCK] for piece in pieces_of(index, Substring("needles"))] == [UNDECIDED]
    assert pieces_of(index, Substring("needle"))[0][PAST_BLOCK] == 1  # neither k nor s in it: bytes decide


def test_other_queries_are_left_to_the_tree() -> None:
    for query in (Substring("ab"), Substring("a\nb"), Substring("needle", scope=Scope.FILE_NAME)):
        assert LiteralQuery.of(query, Atoms(query)) is None


KELVIN, LONG_S = "\u212a".encode(), "\u017f".encode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (KELVIN + b"malloc_foobar", 1),  # the sign for kelvin is a k in small and capital letters alike
        (b"KMALLOC_FOOBAR " + KELVIN, 1),
        (KELVIN + b"malloc foo_bar", 0),  # what surrounds the letter is not all there
        (LONG_S + b" elsewhere", 0),
    ],
)
def test_letters_beyond_ascii_are_letters_where_all_that_surrounds_them_is(text: bytes, found: int) -> None:
    files: dict[str | bytes, bytes] = {"odd.c": text + b"\n", "plain.c": b"a kmalloc_foobar here\n", "other.c": b"x\n"}
    assert search_one(build_index(files), "content:kmalloc_foobar").stats.files == 1 + found


def test_a_search_in_pieces_gives_the_same_result_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    index = build_index(
        {f"{n:02}.txt": b"a needle\n" * n + b"other\n" * 200 for n in range(40)} | {"needle": b"nothing"}
    )
    whole = search_one(index, Substring("needle"))
    monkeypatch.setattr(literal_query, "PIECE_BYTES", 8_192)
    monkeypatch.setattr(literal_query, "PIECE_SLACK_BYTES", 0)
    monkeypatch.setattr(evaluate, "BATCH_DOCUMENTS", 9)
    query, tables = Substring("needle"), KernelTables([index])
    found = LiteralQuery.of(query, Atoms(query))
    assert found is not None
    chosen = found.select_candidates(tables, 0, 1)
    bundles = list(literal_query.group_pieces(tables, chosen.blocks, chosen.pieces))
    assert len(bundles) > 3
    assert sum(piece[BYTES] for pieces in bundles for piece in pieces) == chosen.pieces[0][BYTES]
    assert sum(piece[DOCUMENTS] for pieces in bundles for piece in pieces) == chosen.pieces[0][DOCUMENTS] == 40
    assert max(sum(piece[BYTES] for piece in pieces) for pieces in bundles) <= 8_192
    assert max(sum(piece[DOCUMENTS] for piece in pieces) for pieces in bundles) <= 9
    assert search_one(index, Substring("needle")) == whole
