"""Which repositories a query can match: a name is excluded only if no file of such a repository could match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.gateway.route import PATTERNS_MAX, RepoNameIndex, drop_resolved_sets
from argosy.search.catalog.addresses import repository_id
from argosy.search.model import Branch as RepositoryBranch
from argosy.search.model import Repository
from argosy.search.query import parse
from argosy.search.query.simplify import for_repository
from argosy.search.query.tree import (
    FALSE,
    TRUE,
    And,
    Boost,
    FileNameSet,
    Flag,
    Not,
    OnBranch,
    Or,
    Query,
    Repo,
    RepoIds,
    RepoSet,
    ResultKind,
    Substring,
    Type,
)

NAMES = ("acme/anvil", "acme/rocket", "beta/anvil")


def kept(text: str) -> list[str]:
    names = RepoNameIndex(NAMES)
    return names.names_of(names.everything & ~names.decide(parse(text).query)[1])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("needle", NAMES),
        ("r:acme needle", NAMES[:2]),
        ("-r:acme needle", NAMES[2:]),
        ("(r:rocket or r:beta) needle", NAMES[1:]),
        ("r:rocket or needle", NAMES),
        ("-(r:acme needle)", NAMES),
        ("r:acme r:beta", ()),
        ("type:repo r:rocket", NAMES[1:2]),
        ("-(type:repo r:rocket)", NAMES),
        ("archived:yes", NAMES),
        ("alias:other", NAMES),
        ("(r:acme archived:yes) or (r:beta needle)", NAMES),
    ],
)
def test_a_name_is_ruled_out_only_when_that_is_certain(text: str, names: tuple[str, ...]) -> None:
    assert kept(text) == list(names)


def test_names_are_numbered_and_resolved_again() -> None:
    names = RepoNameIndex(reversed(NAMES))
    assert names.names_of(names.bitmap(["beta/anvil", "unknown", "acme/anvil"])) == ["acme/anvil", "beta/anvil"]
    assert names.names_of(names.everything) == list(NAMES)
    assert names.names_of(0) == RepoNameIndex(()).names_of(0) == []


def test_patterns_are_cached_up_to_a_bound() -> None:
    names = RepoNameIndex(NAMES)
    for i in range(2 * PATTERNS_MAX):
        assert names.decide(Repo(f"anvil|{i}x"))[1] == names.bitmap(["acme/rocket"])
    assert names.decide(Repo("rocket"))[1] == names.bitmap(["acme/anvil", "beta/anvil"])


leaf_queries: st.SearchStrategy[Query] = st.sampled_from(
    [
        Substring("needle"),
        Repo("acme"),
        Repo("anvil$"),
        RepoSet(frozenset({"acme/rocket"})),
        RepoIds(frozenset({repository_id("beta/anvil")})),
        Flag("archived", True),
        OnBranch("main"),
        TRUE,
        FALSE,
    ]
)
queries = st.recursive(
    leaf_queries,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda found: And(tuple(found))),
        st.lists(inner, min_size=1, max_size=3).map(lambda found: Or(tuple(found))),
        inner.map(Not),
        inner.map(lambda found: Type(ResultKind.REPO, found)),
        inner.map(lambda found: Boost(found, 2.0)),
    ),
    max_leaves=8,
)


@given(query=queries, is_archived=st.booleans())
def test_a_repository_ruled_out_by_the_gateway_is_ruled_out_by_the_node(query: Query, is_archived: bool) -> None:
    names = RepoNameIndex(NAMES)
    for name in NAMES:
        known = Repository(name, repository_id(name), (RepositoryBranch("main"),), flags={"archived": is_archived})
        if names.decide(query)[1] & names.bitmap([name]):
            assert for_repository(query, known) == FALSE


def test_sets_of_repositories_at_the_top_are_not_sent_to_nodes() -> None:
    needle, repositories = Substring("needle"), RepoSet(frozenset({"a"}))
    assert drop_resolved_sets(And((needle, repositories))) == needle
    assert drop_resolved_sets(And((RepoIds(frozenset({1})), needle))) == needle
    assert drop_resolved_sets(repositories) == TRUE


@pytest.mark.parametrize(
    "query",
    [
        Or((Substring("needle"), RepoSet(frozenset({"a"})))),
        FileNameSet(frozenset({"a"})),
        OnBranch("main", is_exact=True),
        Boost(Substring("needle"), 2.0),
    ],
)
def test_every_other_query_is_sent_as_it_is(query: Query) -> None:
    assert drop_resolved_sets(query) == query
