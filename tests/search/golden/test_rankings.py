"""Ranking of real code. The expectations are files and text of lines, never scores, so that versions may change."""

import re
from collections.abc import Mapping

import pytest

from argosy.search.index.index import Index
from argosy.search.match import Budget, search_indexes
from argosy.search.model import FileMatch, Options
from argosy.search.query import parse


def search_package(
    indexes: Mapping[str, Index], package: str, text: str, options: Options | None = None
) -> list[FileMatch]:
    chosen = list(indexes.values()) if package == "all" else [indexes[package]]
    answer = search_indexes(chosen, parse(text).query, options or Options(files_max=0), Budget(lambda: 0.0))
    return list(answer.files)


def best_line(file: FileMatch) -> str:
    best = max(file.chunks, key=lambda chunk: chunk.score)
    return best.content.decode().split("\n")[best.best_line - best.start.line].strip()


@pytest.mark.parametrize(
    ("package", "text", "path", "line"),
    [
        # A definition before everything that mentions it.
        ("click", "Group", "core.py", "class Group("),
        ("click", "Context", "core.py", "class Context"),
        ("click", "CliRunner", "testing.py", "class CliRunner"),
        ("click", "echo", "utils.py", "def echo("),
        ("starlette", "Starlette", "applications.py", "class Starlette"),
        ("starlette", "Request", "requests.py", "class Request("),
        ("starlette", "Router", "routing.py", "class Router"),
        ("starlette", "StaticFiles", "staticfiles.py", "class StaticFiles"),
        ("starlette", "middleware", "middleware/__init__.py", "class Middleware"),
        ("rich", "Console", "console.py", "class Console"),
        ("rich", "Table", "table.py", "class Table("),
        ("rich", "Progress", "progress.py", "class Progress("),
        ("rich", "emoji", "emoji.py", "class Emoji("),
        ("hypothesis", "given", "core.py", "def given("),
        ("hypothesis", "SearchStrategy", "strategies/_internal/strategies.py", "class SearchStrategy("),
        ("hypothesis", "lists", "strategies/_internal/core.py", "def lists("),
        ("redis", "ConnectionPool", "connection.py", "class ConnectionPool("),
        ("uvicorn", "Server", "server.py", "class Server"),
        ("limits", "RateLimiter", "strategies.py", "class RateLimiter("),
        ("argosy", "IndexSet", "src/argosy/search/index_set.py", "class IndexSet"),
        ("argosy", "lines_around", "src/argosy/search/kernels/lines.py", "def lines_around("),
        # Of a class and a function of one name, up to case, the class.
        ("click", "group", "core.py", "class Group("),
        ("click", "Command", "core.py", "class Command"),
        # Among all packages together.
        ("all", "Console", "console.py", "class Console"),
        ("all", "Starlette", "applications.py", "class Starlette"),
        # Patterns, symbols, several atoms.
        ("starlette", "class .*Route.:", "routing.py", ""),
        ("click", "sym:^Group$", "core.py", "class Group("),
        ("click", "sym:_via_pager", "termui.py", "def echo_via_pager("),
        ("argosy", "class Searcher", "src/argosy/search/ports.py", "class Searcher("),
        ("argosy", "Options SearchResult", "src/argosy/search/model.py", "class "),
    ],
)
def test_the_intended_result_comes_first(
    indexes: Mapping[str, Index], package: str, text: str, path: str, line: str
) -> None:
    first = search_package(indexes, package, text)[0]
    assert first.path == path
    assert line in best_line(first)


def test_a_whole_symbol_comes_before_one_that_begins_with_it(indexes: Mapping[str, Index]) -> None:
    first, second = search_package(indexes, "rich", "Progress")[:2]
    assert (best_line(first)[:15], best_line(second)[:17]) == ("class Progress(", "class ProgressBar")


def test_every_definition_comes_before_every_mere_mention(indexes: Mapping[str, Index]) -> None:
    files = search_package(indexes, "starlette", "websocket")
    is_definition = [any(any(chunk.symbols) for chunk in file.chunks) for file in files]
    assert is_definition == sorted(is_definition, reverse=True)
    assert 1 < sum(is_definition) < len(files)


def test_a_whole_word_comes_before_a_part_of_a_word(indexes: Mapping[str, Index]) -> None:
    files = search_package(indexes, "click", "content:form case:yes -sym:form", Options(files_max=0, with_content=True))
    is_word = [re.search(rb"(?<![a-z])form(?![a-z])", file.content or b"") is not None for file in files]
    assert is_word == sorted(is_word, reverse=True)
    assert 0 < sum(is_word) < len(files)


def test_a_file_s_own_name_comes_before_a_folder_s(indexes: Mapping[str, Index]) -> None:
    files = [file.path for file in search_package(indexes, "argosy", "file:registry file:^src")]
    named = [("registry" in path.rsplit("/", 1)[-1]) for path in files]
    assert named == sorted(named, reverse=True)
    assert 0 < sum(named) < len(named)


def test_tests_come_after_code_that_matches_equally(indexes: Mapping[str, Index]) -> None:
    files = search_package(indexes, "argosy", "content:without_overlaps -sym:without_overlaps")
    is_test = [file.path.startswith("tests/") for file in files]
    assert is_test == sorted(is_test)
    assert 0 < sum(is_test) < len(files)


def test_a_file_with_all_of_several_words_comes_before_those_with_some(indexes: Mapping[str, Index]) -> None:
    files = search_package(
        indexes, "starlette", r"content:\bcookie_parser\b or content:\bparse_cookie\b or content:\bcookies\b"
    )
    assert files[0].path == "requests.py"


def test_bm25_ranks_differently_from_the_best_line(indexes: Mapping[str, Index]) -> None:
    plain = search_package(indexes, "click", "Group")
    counted = search_package(indexes, "click", "Group", Options(files_max=0, use_bm25=True))
    assert {file.path for file in plain} == {file.path for file in counted}
    assert [file.path for file in plain] != [file.path for file in counted]
    assert plain[0].path == "core.py"


def test_bm25_agrees_where_only_one_file_fits(indexes: Mapping[str, Index]) -> None:
    for package, text, path in (("starlette", "StaticFiles", "staticfiles.py"), ("rich", "Progress", "progress.py")):
        assert search_package(indexes, package, text, Options(use_bm25=True))[0].path == path


def test_equal_queries_have_equal_results(indexes: Mapping[str, Index]) -> None:
    assert search_package(indexes, "all", "parse") == search_package(indexes, "all", "parse")
