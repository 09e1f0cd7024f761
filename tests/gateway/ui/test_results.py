"""A result as the search page shows it."""

import pytest

from argosy.gateway.ui.results import FILES_MAX, FILES_STEPS, OPEN_CHUNKS, file_views, next_step
from argosy.search.model import Branch, Chunk, FileMatch, LimitHit, Location, Range, Repository, SearchResult


def chunk(line: int, text: bytes = b"a needle\n", **more: bool) -> Chunk:
    start = Location(100 * line, line, 1)
    return Chunk(text, start, (Range(Location(100 * line + 2, line, 3), Location(100 * line + 8, line, 9)),), **more)


def test_lines_are_numbered_marked_and_linked_with_the_query() -> None:
    file = FileMatch("r", "a.py", "Python", match_count=1, chunks=(chunk(7, b"a needle\nnext\n"),))
    [view] = file_views(SearchResult((file,)), "needle")
    first, second = view.chunks[0].lines
    assert (first.number, first.is_match, first.url) == (7, True, "/r/r/-/a.py?q=needle#L7")
    assert "<mark>needle</mark>" in first.html
    assert (second.number, second.is_match) == (8, False)


def test_many_excerpts_are_folded_and_matches_that_are_not_shown_are_counted() -> None:
    file = FileMatch("r", "a", match_count=50, chunks=tuple(chunk(line) for line in range(1, OPEN_CHUNKS + 4)))
    [view] = file_views(SearchResult((file,)), "needle")
    assert (len(view.chunks), len(view.folded), view.more) == (OPEN_CHUNKS, 3, 50 - OPEN_CHUNKS - 3)


def test_what_matched_in_a_name_is_marked_there() -> None:
    found = Range(Location(4, 1, 5), Location(10, 1, 11))
    name = Chunk(b"src/needle.py", Location(0, 1, 1), (found,), is_file_name=True)
    [view] = file_views(SearchResult((FileMatch("r", "src/needle.py", chunks=(name,), match_count=1),)), "needle")
    assert view.path == "src/<mark>needle</mark>.py"
    assert view.chunks == ()


def test_a_name_that_was_not_searched_for_is_not_marked() -> None:
    name = Chunk(b"a.py", Location(0, 1, 1), (Range(Location(0, 1, 1), Location(4, 1, 5)),), is_file_name=True)
    [view] = file_views(SearchResult((FileMatch("r", "a.py", chunks=(name,), match_count=1),)), "lang:python")
    assert view.path == "a.py"


def test_a_branch_is_named_only_if_it_is_not_the_first() -> None:
    repositories = {"r": Repository("r", branches=(Branch("main"), Branch("old")))}
    files = (FileMatch("r", "a", branches=("main", "old")), FileMatch("r", "b", branches=("old",)))
    first, second = file_views(SearchResult(files, repositories=repositories), "x")
    assert first.url == "/r/r/-/a?q=x"
    assert second.url == "/r/r/-/b?b=old&q=x"


def test_a_clipped_line_is_not_coloured_because_it_may_begin_anywhere() -> None:
    file = FileMatch("r", "a.py", "Python", chunks=(chunk(1, b'd needle" if', is_clipped=True),))
    [view] = file_views(SearchResult((file,)), "needle")
    assert view.chunks[0].is_clipped
    assert "span" not in view.chunks[0].lines[0].html


@pytest.mark.parametrize(("files", "expected"), [(50, 100), (70, 100), (500, 1000), (FILES_MAX, 0)])
def test_more_files_are_requested_in_steps(files: int, expected: int) -> None:
    assert next_step(SearchResult(limits_hit=(LimitHit.FILES_SHOWN,)), files) == expected
    assert next_step(SearchResult(), files) == 0
    assert list(FILES_STEPS) == sorted(FILES_STEPS)
