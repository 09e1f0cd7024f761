"""Simplified trees, and the rest of a query for one repository."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.search.model import Branch as BranchOfRepository
from argosy.search.model import Repository
from argosy.search.query.simplify import branch_mask, for_repository, simplify
from argosy.search.query.tree import (
    FALSE,
    TRUE,
    Alias,
    And,
    Boost,
    BranchesRepos,
    FileNameSet,
    Flag,
    Language,
    Meta,
    Not,
    OnBranch,
    Or,
    Query,
    Repo,
    RepoIds,
    RepoSet,
    ResultKind,
    Substring,
    Symbol,
    Type,
)
from tests.search.query.trees import both, either, name, no, regex, text

A, B, C = text("a"), text("b"), text("c")
ARGO = Repository(
    name="github.com/acme/argo",
    id=7,
    branches=(BranchOfRepository("main"), BranchOfRepository("release-1"), BranchOfRepository("release-2")),
    flags={"archived": True, "public": False},
    metadata={"team": "core", "empty": ""},
    aliases=("argo", "boat"),
)
FOLDER = Repository(name="folder")
EVERYTHING_OF_A_FILE: list[Query] = [
    A,
    regex("a.b"),
    name("x"),
    Symbol(B),
    Language("Go"),
    FileNameSet(frozenset({"x"})),
]


@pytest.mark.parametrize(
    ("query", "simple"),
    [
        (And(()), TRUE),
        (Or(()), FALSE),
        (both(A), A),
        (either(A), A),
        (both(A, both(B, either(C))), both(A, B, C)),
        (either(A, either(B, both(C))), either(A, B, C)),
        (both(A, TRUE, B), both(A, B)),
        (both(A, FALSE), FALSE),
        (either(A, FALSE), A),
        (either(A, TRUE), TRUE),
        (no(no(A)), A),
        (no(TRUE), FALSE),
        (no(both(A, no(no(B)))), no(both(A, B))),
        (both(B, A, B), both(B, A, B)),
        (Type(ResultKind.FILE_MATCH, both(A)), A),
        (Type(ResultKind.REPO, FALSE), FALSE),
        (Type(ResultKind.REPO, TRUE), Type(ResultKind.REPO, TRUE)),
        (both(Type(ResultKind.REPO, TRUE)), Type(ResultKind.REPO, TRUE)),
        (both(Type(ResultKind.REPO, TRUE), A), A),
        (no(Type(ResultKind.REPO, TRUE)), FALSE),
        (Type(ResultKind.REPO, Type(ResultKind.FILE_NAME, TRUE)), Type(ResultKind.REPO, TRUE)),
        (Boost(both(A), 2.0), Boost(A, 2.0)),
        (Boost(TRUE, 2.0), TRUE),
        (both(Boost(both(A, B), 2.0), C), both(Boost(both(A, B), 2.0), C)),
        (Language(None), Language(None)),
    ],
)
def test_redundant_parts_are_removed(query: Query, simple: Query) -> None:
    assert simplify(query) == simple


leaves = st.sampled_from(
    [TRUE, FALSE, A, B, Repo("argo"), Repo("x"), Flag("archived", True), OnBranch("main"), OnBranch("x")]
)


def grown(children: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    lists = st.lists(children, max_size=4).map(tuple)
    return (
        lists.map(And)
        | lists.map(Or)
        | children.map(Not)
        | st.builds(Type, st.sampled_from(ResultKind), children)
        | st.builds(Boost, children, st.just(2.0))
    )


trees = st.recursive(leaves, grown, max_leaves=20)


def holds(query: Query, facts: dict[Query, bool]) -> bool:
    match query:
        case And(children):
            return all(holds(child, facts) for child in children)
        case Or(children):
            return any(holds(child, facts) for child in children)
        case Not(child):
            return not holds(child, facts)
        case Type(_, child) | Boost(child, _):
            return holds(child, facts)
    return facts[query]


def is_simple(query: Query) -> bool:
    match query:
        case And(children) | Or(children):
            is_flat = all(type(child) is not type(query) and child not in (TRUE, FALSE) for child in children)
            return is_flat and len(children) > 1 and all(map(is_simple, children))
        case Not(child):
            return not isinstance(child, Not) and child not in (TRUE, FALSE) and is_simple(child)
        case Type(kind, child):
            return kind is not ResultKind.FILE_MATCH and child != FALSE and is_simple(child)
    return True


@given(trees, st.booleans(), st.booleans())
def test_the_simple_tree_selects_the_same(query: Query, a: bool, b: bool) -> None:
    known: dict[Query, bool] = {TRUE: True, FALSE: False, A: a, B: b}
    facts: dict[Query, bool] = known | {Repo("argo"): True, Repo("x"): False, Flag("archived", True): True}
    for on_main in (True, False):
        facts |= {OnBranch("main"): on_main, OnBranch("x"): False}
        assert holds(simplify(query), facts) == holds(query, facts)
        left = for_repository(query, ARGO)
        assert holds(left, known | {OnBranch("main"): on_main}) == holds(query, facts)


@given(trees)
def test_a_simple_tree_is_simple_and_stays(query: Query) -> None:
    simple = simplify(query)
    assert is_simple(simple)
    assert simplify(simple) == simple


@pytest.mark.parametrize(
    ("query", "is_true"),
    [
        (Repo("acme/arg"), True),
        (Repo("^github"), True),
        (Repo("Argo"), False),
        (Repo("argo$"), True),
        (RepoSet(frozenset({"x", "github.com/acme/argo"})), True),
        (RepoSet(frozenset({"argo"})), False),
        (RepoIds(frozenset({7})), True),
        (RepoIds(frozenset()), False),
        (Alias("boat"), True),
        (Alias("bo"), False),
        (Flag("archived", True), True),
        (Flag("archived", False), False),
        (Flag("public", False), True),
        (Flag("fork", False), True),
        (Flag("fork", True), False),
        (Meta("team", "^core$"), True),
        (Meta("team", "Core"), False),
        (Meta("empty", ""), True),
        (Meta("none", ""), False),
        (Language(None), False),
        (OnBranch("dev"), False),
        (OnBranch(""), True),
        (BranchesRepos((("main", frozenset({8})),)), False),
        (BranchesRepos((("dev", frozenset({7})),)), False),
        (BranchesRepos(()), False),
    ],
)
def test_conditions_on_the_repository_are_evaluated(query: Query, is_true: bool) -> None:
    assert for_repository(query, ARGO) == (TRUE if is_true else FALSE)
    assert for_repository(both(query, A), ARGO) == (A if is_true else FALSE)


@pytest.mark.parametrize("leaf", EVERYTHING_OF_A_FILE)
def test_conditions_on_files_are_unchanged(leaf: Query) -> None:
    assert for_repository(leaf, ARGO) == leaf


@pytest.mark.parametrize(
    ("query", "left"),
    [
        (OnBranch("main"), OnBranch("main")),
        (OnBranch("release"), OnBranch("release")),
        (OnBranch("HEAD"), OnBranch("HEAD")),
        (OnBranch("e"), OnBranch("e")),
        (BranchesRepos((("main", frozenset({7, 9})), ("dev", frozenset({7})))), OnBranch("main", is_exact=True)),
        (
            BranchesRepos((("main", frozenset({7})), ("release-1", frozenset({7})))),
            either(OnBranch("main", is_exact=True), OnBranch("release-1", is_exact=True)),
        ),
        (Type(ResultKind.REPO, Repo("argo")), Type(ResultKind.REPO, TRUE)),
        (both(Type(ResultKind.REPO, Repo("argo")), A), A),
        (both(Type(ResultKind.REPO, both(Repo("argo"), B)), A), both(Type(ResultKind.REPO, B), A)),
        (Boost(Repo("argo"), 2.0), TRUE),
    ],
)
def test_conditions_that_only_files_decide_remain(query: Query, left: Query) -> None:
    assert for_repository(query, ARGO) == left


@pytest.mark.parametrize(
    ("branch", "mask"),
    [
        (OnBranch("main"), 0b001),
        (OnBranch("mai"), 0b001),
        (OnBranch("mai", is_exact=True), 0),
        (OnBranch("release"), 0b110),
        (OnBranch("release-2", is_exact=True), 0b100),
        (OnBranch("HEAD"), 0b001),
        (OnBranch("HEAD", is_exact=True), 0b001),
        (OnBranch("Main"), 0),
        (OnBranch(""), 0b111),
    ],
)
def test_a_branch_is_selected_by_its_name(branch: OnBranch, mask: int) -> None:
    assert branch_mask(branch, ARGO) == mask


def test_a_repository_without_branches_has_a_head() -> None:
    assert for_repository(OnBranch("HEAD"), FOLDER) == TRUE
    assert for_repository(OnBranch("main"), FOLDER) == FALSE


def test_a_condition_on_the_only_branch_is_removed() -> None:
    single = Repository(name="x", branches=(BranchOfRepository("main"),))
    assert for_repository(both(OnBranch("main"), A), single) == A


def test_an_invalid_pattern_in_a_decoded_query_is_rejected() -> None:
    with pytest.raises(Invalid, match=r"missing \)"):
        for_repository(Repo("("), ARGO)


def test_an_undecodable_name_can_be_searched_for_a_part_of_it() -> None:
    odd = Repository(name="odd-\udcff")
    assert for_repository(Repo("^odd-"), odd) == TRUE


def test_leaves_are_kept_as_they_are() -> None:
    leaf = Substring("A", is_case_sensitive=True)
    assert simplify(both(leaf, TRUE)) is leaf
