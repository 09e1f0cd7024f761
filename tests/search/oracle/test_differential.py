"""QueryMatches equals a naive scan: for every leaf and every combination, on repositories full of coincidences."""

from collections.abc import Callable, Iterable
from random import Random

from msgspec import structs

from argosy.search.model import Form, Options
from argosy.search.query.tree import Query, ResultKind, Type
from tests.search.oracle import queries
from tests.search.oracle.corpora import Checkout, checkout
from tests.search.oracle.engine import EVERYTHING, build_index, check_query
from tests.search.oracle.rounds import given_random

QUERIES_PER_REPOSITORY = 8  # building an index costs more than searching it


def check_queries(case: Checkout, drawn: Iterable[Query], options: Options = EVERYTHING) -> None:
    index = build_index(case)
    for query in drawn:
        check_query(case, query, options, index)


def drawn(random: Random, case: Checkout, draw: Callable[[Random, Checkout], Query]) -> list[Query]:
    return [draw(random, case) for _ in range(QUERIES_PER_REPOSITORY)]


@given_random(30)
def test_a_text_is_found_where_a_naive_scan_finds_it(random: Random) -> None:
    case = checkout(random)
    check_queries(case, drawn(random, case, queries.substring))


@given_random(50)
def test_a_pattern_is_found_where_a_naive_scan_finds_it(random: Random) -> None:
    case = checkout(random)
    check_queries(case, drawn(random, case, queries.regexp))


@given_random(30)
def test_what_crosses_a_seam_of_the_index_is_found(random: Random) -> None:
    case = checkout(random, has_large=True)
    check_queries(case, drawn(random, case, queries.text_leaf))


@given_random(15)
def test_symbols_are_found_by_their_names(random: Random) -> None:
    case = checkout(random)
    check_queries(case, drawn(random, case, queries.symbol))


@given_random(15)
def test_every_fact_about_documents_and_repositories_selects_alike(random: Random) -> None:
    case = checkout(random)
    check_queries(case, [*drawn(random, case, queries.document_fact), *drawn(random, case, queries.repository_fact)])


@given_random(60)
def test_every_combination_selects_and_shows_alike(random: Random) -> None:
    case = checkout(random)
    check_queries(case, drawn(random, case, queries.query))


@given_random(15)
def test_a_query_about_one_repository_means_the_same_in_another(random: Random) -> None:
    first, second = checkout(random, number=0), checkout(random, number=1)
    check_queries(second, drawn(random, first, queries.query))


@given_random(15)
def test_context_lines_surround_the_matches_and_join_what_they_touch(random: Random) -> None:
    case = checkout(random)
    options = structs.replace(EVERYTHING, context_lines=1 + random.randrange(3))
    check_queries(case, drawn(random, case, queries.text_leaf), options)


@given_random(15)
def test_lines_hold_the_pieces_of_matches_that_lie_in_them(random: Random) -> None:
    case = checkout(random)
    options = structs.replace(EVERYTHING, form=Form.LINES, context_lines=random.randrange(3))
    check_queries(case, drawn(random, case, queries.text_leaf), options)


@given_random(15)
def test_a_query_for_file_names_shows_nothing_else(random: Random) -> None:
    case = checkout(random)
    check_queries(case, [Type(ResultKind.FILE_NAME, query) for query in drawn(random, case, queries.plain_query)])


@given_random(10)
def test_counting_counts_the_same(random: Random) -> None:
    case = checkout(random)
    check_queries(case, drawn(random, case, queries.query), structs.replace(EVERYTHING, form=Form.COUNT))
