"""An index that was renewed or transferred answers like one built from scratch."""

from random import Random

from argosy.search.index.wire import dump, load
from tests.search.oracle import queries
from tests.search.oracle.corpora import changed, checkout
from tests.search.oracle.engine import build_index, check_query
from tests.search.oracle.rounds import given_random

QUERIES_PER_CASE = 4


@given_random(30)
def test_a_renewed_index_answers_like_a_fresh_one(random: Random) -> None:
    case = checkout(random)
    index = build_index(case)
    for _ in range(3):
        before, case = case, changed(random, case)
        index = build_index(case, previous=index)
        for query in [queries.query(random, version) for version in (before, case) for _ in range(QUERIES_PER_CASE)]:
            check_query(case, query, index=index)


@given_random(10)
def test_an_older_index_still_answers_after_it_was_renewed(random: Random) -> None:
    case = checkout(random)
    index = build_index(case)
    build_index(changed(random, case), previous=index)
    for query in [queries.query(random, case) for _ in range(QUERIES_PER_CASE)]:
        check_query(case, query, index=index)


@given_random(15)
def test_an_index_that_was_carried_elsewhere_answers_alike(random: Random) -> None:
    case = checkout(random)
    index = load(dump(build_index(case)))
    later = changed(random, case)
    renewed = load(dump(build_index(later, previous=index)))
    for query in [queries.query(random, case) for _ in range(QUERIES_PER_CASE)]:
        check_query(case, query, index=index)
        check_query(later, query, index=renewed)
