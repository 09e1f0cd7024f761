"""Searching many indexes at once returns the results of each alone, and those of the tree, to the byte."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from argosy.search.arrays import freeze
from argosy.search.index import kernel_tables as kernel_tables
from argosy.search.index.index import Index, Part
from argosy.search.index.kernel_tables import KernelTables
from argosy.search.index_set import IndexSet
from argosy.search.match import Budget, literal_query, search_index
from argosy.search.match.atoms import Atoms, IndexFilter
from argosy.search.model import Form, LimitHit, Options, SearchResult, Stats
from argosy.search.query.tree import And, Language, Not, Or, Query, Regexp, Repo, Scope, Substring, Symbol
from tests.search.match.search_calls import CountingFlag, build_index, tree_of

words = [b"needle", b"NEEDLE", b"needleneedle", b" ", b"\n", b"x" * 60, b"y\n" * 2500, b"def needle():\n", b"ks\n"]
texts = st.lists(st.sampled_from(words), max_size=6).map(b"".join)
odd_texts = st.sampled_from(["K\u212aS needle".encode(), b"\xff needle ks", "\u017f".encode()])
names = st.sampled_from(["a.py", "needle.c", "tests/needle_test.py", "vendor/b.c", "K\u212aS.txt", "needle/needle.py"])
files = st.dictionaries(names, texts | odd_texts, min_size=1, max_size=5)
atoms = st.builds(
    Substring, st.sampled_from(["needle", "eedlen", "NEEDLE", "ks", "xxx", "def", "nowhere", "needles"]), st.booleans(),
    st.sampled_from([Scope.ANY, Scope.CONTENT]),
)  # fmt: skip
patterns = st.builds(
    Regexp,
    st.sampled_from(["nee.*dle", "d[aeiou]f ne+dle", "^needle$", "k.", "(nowhere|eedle)", "s.*needle", "ks|x"]),
    st.booleans(),
    st.sampled_from(Scope),
)
filters: st.SearchStrategy[Query] = st.sampled_from(
    [Language("Python"), Not(Substring("xxx")), Or((Substring("def"), Substring("ks")))]
)
others: st.SearchStrategy[Query] = patterns | atoms.map(Symbol) | patterns.map(Symbol)
queries = st.one_of(
    atoms,
    others,
    st.tuples(others, atoms | others | filters).map(And),
    st.tuples(atoms, filters).map(And),
    st.lists(atoms, min_size=2, max_size=3).map(lambda some: And(tuple(some))),
    atoms.map(lambda atom: And((Repo("[024]$"), atom))),
    st.lists(atoms, min_size=2, max_size=2).map(lambda some: And((Repo("[13]$"), *some))),
)
options = st.builds(
    Options,
    form=st.sampled_from(Form),
    files_max=st.sampled_from([0, 1, 3]),
    use_bm25=st.booleans(),
    index_match_limit=st.sampled_from([0, 1, 3]),
    total_match_limit=st.sampled_from([0, 2]),
    estimate_only=st.sampled_from([False, False, True]),
    wall_time_s=st.just(0.0),
)


@st.composite
def index_lists(draw: st.DrawFn) -> list[Index]:
    """Up to five indexes, in some of which documents are on no branch, or that are of two parts."""
    indexes = []
    for number, some in enumerate(draw(st.lists(files, min_size=1, max_size=5))):
        index = build_index({**some}, f"repo{number}", rank=draw(st.integers(0, 2)))
        parts = [
            part for each in (index, build_index({**draw(files)}))[: draw(st.integers(1, 2))] for part in each.parts
        ]
        alive = [[draw(st.integers(0, 1)) for _ in part.branches] for part in parts]
        parts = [Part(part.segment, freeze(np.array(bits, np.uint64))) for part, bits in zip(parts, alive, strict=True)]
        indexes.append(Index(index.repository, tuple(parts)))
    return indexes


def search_all(indexes: Iterable[Index], query: Query, options: Options) -> SearchResult:
    index_set = IndexSet(indexes, threads=1)
    try:
        return index_set.search_now(query, options)
    finally:
        index_set.close()


def stats(answer: SearchResult, **given: int) -> Stats:
    return structs.replace(answer.stats, duration_s=0.0, **given)


@settings(deadline=None, max_examples=120)
@given(index_lists(), queries, options)
def test_all_at_once_agrees_with_the_tree(indexes: list[Index], query: Query, options: Options) -> None:
    at_once = search_all(indexes, query, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(literal_query.LiteralQuery, "of", lambda *_: None)
        patch.setattr(IndexFilter, "of", lambda *_: None)
        slowly = search_all(indexes, query, options)
    assert at_once.files == slowly.files
    assert at_once.limits_hit == slowly.limits_hit
    costs = {"index_bytes": 0, "ngram_lookups": 0}  # a key that is missing ends one lookup and not the other
    assert stats(at_once, **costs) == stats(slowly, **costs)


@settings(deadline=None, max_examples=50)
@given(index_lists(), queries, st.sampled_from(Form))
def test_all_at_once_is_the_sum_of_each_alone(indexes: list[Index], query: Query, form: Form) -> None:
    options = Options(files_max=0, form=form, wall_time_s=0.0)
    at_once = search_all(indexes, query, options)
    alone = [search_index(index, query, options, Budget(lambda: 0.0)) for index in indexes]
    assert sorted(at_once.files, key=repr) == sorted((file for answer in alone for file in answer.files), key=repr)
    for field in Stats.__struct_fields__:
        if field != "duration_s":
            assert getattr(at_once.stats, field) == sum(getattr(answer.stats, field) for answer in alone), field


@settings(deadline=None, max_examples=30)
@given(index_lists(), queries, st.sets(st.integers(0, 5)))
def test_a_selection_equals_an_index_set_of_those_alone(indexes: list[Index], query: Query, chosen: set[int]) -> None:
    selected = {f"repo{number}" for number in chosen}
    whole = KernelTables(sorted(indexes, key=lambda index: -index.repository.rank))
    for given_as in (selected, list(selected), dict.fromkeys(selected).keys()):
        kept = whole.only(given_as)
        assert [index for index in whole.indexes if index.repository.name in selected] == list(kept.indexes)
        assert (kept is whole) == (len(kept) == len(whole))
    alone = search_all(
        [index for index in indexes if index.repository.name in selected], query, Options(wall_time_s=0.0)
    )
    index_set = IndexSet(indexes, threads=1)
    index_set._tables = index_set._tables.only(selected)
    among = index_set.search_now(query, Options(wall_time_s=0.0))
    index_set.close()
    assert (among.files, stats(among)) == (alone.files, stats(alone))


def test_a_part_in_two_indexes_ranks_as_each_of_them_does() -> None:
    """A new version shares parts with the old one, and may be one of more documents, or of another rank."""
    old = build_index({"a.py": b"needle", "b.py": b"needle"}, "repo", rank=1)
    more = build_index({"c.py": b"needle"})
    new = Index(structs.replace(old.repository, rank=7), (*more.parts, *old.parts))
    before = KernelTables([old])
    assert before.score_rows.shape[0] == 1
    taken_over = KernelTables([new], before)
    assert (
        taken_over.score_rows[:, -3:].tolist()
        == KernelTables([new]).score_rows[:, -3:].tolist()
        == [[0, 3, 7], [1, 3, 7]]
    )
    assert taken_over.candidate_rows[1].tolist() == before.candidate_rows[0].tolist()
    index_set = IndexSet([old], threads=1)
    index_set.search_now(tree_of("needle"), Options())
    index_set.put(new)
    assert (
        index_set.search_now(tree_of("needle"), Options()).files
        == search_all([new], tree_of("needle"), Options()).files
    )
    index_set.close()


@pytest.mark.parametrize("text", ["needle", "needle other", "need.e"])
def test_limits_are_checked_between_two_slices(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every index is a slice of its own: each check of the flag reaches one more."""
    monkeypatch.setattr(kernel_tables, "SLICE_BLOCKS", 1)
    indexes = [build_index({"a": b"needle other", "b": b"needle"}, f"repo{i}") for i in range(4)]
    index_set, whole = IndexSet(indexes, threads=1), CountingFlag()
    complete = index_set.search_now(tree_of(text), Options(wall_time_s=0.0), whole)
    assert (complete.is_complete, complete.stats.indexes_searched) == (True, 4)
    assert whole.seen > 5
    for at in range(1, 6):
        cut = index_set.search_now(tree_of(text), Options(wall_time_s=0.0), CountingFlag(at))
        assert LimitHit.CANCELLED in cut.limits_hit
        assert (cut.stats.indexes_searched, cut.stats.indexes_skipped) == (0, 4)
    index_set.close()


def test_a_limit_that_an_earlier_piece_has_met_takes_back_what_a_later_one_found() -> None:
    indexes = [build_index({"a.py": b"needle needle", "needle.py": b"x"}, f"repo{i}") for i in range(3)]
    answer = search_all(indexes, tree_of("needle"), Options(total_match_limit=4, wall_time_s=0.0))
    assert answer.limits_hit == (LimitHit.TOTAL_MATCHES,)
    assert {file.repository for file in answer.files} == {"repo0", "repo1"}
    totals = answer.stats
    assert (totals.files, totals.matches, totals.files_considered, totals.files_loaded) == (4, 6, 6, 4)
    assert (totals.indexes_searched, totals.indexes_skipped) == (2, 1)


def test_an_empty_table_has_no_results() -> None:
    index_set, flag = IndexSet(threads=1), CountingFlag(1)
    for text in ("needle", "needle other", "need.e"):
        answer = index_set.search_now(tree_of(text), Options(), flag)
        assert (answer.files, answer.stats.indexes_searched, answer.stats.indexes_skipped) == ((), 0, 0)
    index_set.close()


@pytest.mark.parametrize(
    "text",
    [
        "needle",
        "nee.*dle",
        "/needle|nowhere/ needle",
        "sym:needle",
        "sym:^nee.+e$",
        "lang:python -nowhere nee.?dle",
        "(needle or ks) def.+needle",
        "file:a needle",
    ],
)
def test_what_every_match_holds_rules_out_the_indexes_that_do_not_have_it(text: str) -> None:
    names = ["needle", "other", "another", "third"]
    indexes = [build_index({"a.py": f"def {name}(): nothing\n".encode()}, f"repo{name}") for name in names]
    query = tree_of(text)
    found = IndexFilter.of(query, Atoms(query))
    assert found is not None
    assert found.rows(KernelTables(indexes), 0, 4)[0] == [0]
    assert search_all(indexes, query, Options(wall_time_s=0.0)).stats.indexes_searched == 4


@pytest.mark.parametrize("text", ["needle or ks", "/[a-z]+/", "-needle", "lang:python", "/needle|nowhere/", "k"])
def test_where_no_literal_is_in_every_match_nothing_is_ruled_out(text: str) -> None:
    query = tree_of(text)
    assert IndexFilter.of(query, Atoms(query)) is None


@pytest.mark.parametrize(("text", "considered"), [("nee.*dle", 5), ("need.*dle", 0)])
def test_a_large_index_is_ruled_out_only_by_what_it_nowhere_has(text: str, considered: int) -> None:
    large = build_index({f"{i}.txt": b"nee dle\n" * 230_000 for i in range(5)}, "large")
    query, small = tree_of(text), build_index({"a.py": b"needle\n"}, "small")
    found = IndexFilter.of(query, Atoms(query))
    assert found is not None
    assert found.rows(KernelTables([large, small]), 0, 2)[0] == ([0, 1] if considered else [1])
    answer = search_all([large, small], query, Options(wall_time_s=0.0))
    assert (answer.stats.indexes_searched, answer.stats.files_considered) == (2, considered + 1)
