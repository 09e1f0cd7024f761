"""Responses in zoekt's format, where our results have more fields."""

from argosy.gateway.zoekt.page import Last, PageFile, result_page
from argosy.gateway.zoekt.responses import has_symbol_condition, repo_list, search_result
from argosy.search.fleet.model import ListResult, RepoListing
from argosy.search.model import (
    Branch,
    Chunk,
    FileMatch,
    Fragment,
    Line,
    Location,
    Range,
    Repository,
    SearchResult,
    Stats,
    SymbolInfo,
)
from argosy.search.query import parse
from argosy.search.query.tree import TRUE

SYMBOL = SymbolInfo("f", "function", "C", "class")


def at(offset: int) -> Location:
    return Location(offset, 1, offset + 1)


def chunk(*, is_clipped: bool) -> Chunk:
    ranges = (Range(at(12), at(14)), Range(at(18), at(25)), Range(at(900), at(902)))
    return Chunk(b"0123456789", at(10), ranges, (SYMBOL, None, SYMBOL), is_clipped=is_clipped, best_line=1)


def convert(*files: FileMatch) -> list[PageFile]:
    page = result_page(SearchResult(files), Last("x", 3, 0), "x")
    assert page.result is not None
    return page.result.file_matches


def test_matches_outside_of_a_clipped_chunk_are_dropped() -> None:
    result = search_result(SearchResult((FileMatch("r", "p", chunks=(chunk(is_clipped=True),)),)), parse("sym:f").query)
    [match] = result.files[0].chunk_matches
    assert [each.start.byte_offset for each in match.ranges] == [12]
    assert match.symbol_info is not None
    assert [each and each.sym for each in match.symbol_info] == ["f"]
    result = search_result(SearchResult((FileMatch("r", "p", chunks=(chunk(is_clipped=False),)),)), parse("x").query)
    [match] = result.files[0].chunk_matches
    assert (len(match.ranges), match.symbol_info) == (3, None)


def test_a_clipped_line_ends_where_its_text_ends() -> None:
    fragments = (Fragment(2, 12, 2), Fragment(9, 19, 2), Fragment(800, 810, 2))
    line = Line(b"0123456789", 10, 5000, 1, fragments, is_clipped=True)
    [match] = search_result(SearchResult((FileMatch("r", "p", lines=(line,)),)), TRUE).files[0].line_matches
    assert (match.line, match.line_start, match.line_end) == (b"0123456789", 10, 20)
    assert [each.line_offset for each in match.line_fragments] == [2]
    [file] = convert(FileMatch("r", "p", lines=(line,)))
    assert [each.match for each in file.matches[0].fragments] == ["23"]


def test_a_file_without_a_checksum_has_zeros_for_one() -> None:
    files = (FileMatch("r", "p"), FileMatch("r", "q", checksum=b"12345678"))
    assert [file.checksum for file in search_result(SearchResult(files), TRUE).files] == [bytes(8), b"12345678"]


def test_the_same_content_is_a_duplicate_of_the_first() -> None:
    files = tuple(FileMatch("r", path, checksum=sum_) for path, sum_ in (("a", b"1"), ("b", b"1"), ("c", b"")))
    assert [file.duplicate_id for file in convert(*files)] == ["", "r:a", ""]


def test_a_symbol_condition_is_found_anywhere_in_a_query() -> None:
    queries = ("sym:f", "a sym:f", "a or (b -sym:f)", "type:file sym:f")
    assert all(has_symbol_condition(parse(text).query) for text in queries)
    assert not any(has_symbol_condition(parse(text).query) for text in ("f", "file:f lang:go", "-f or g"))


def test_durations_are_nanoseconds() -> None:
    result = search_result(SearchResult(stats=Stats(duration_s=0.25, wait_s=0.05)), TRUE)
    assert (result.duration, result.wait, result.match_tree_search) == (250_000_000, 50_000_000, 200_000_000)


def test_lines_of_several_branches_are_not_ascribed_to_one() -> None:
    two = Repository("two", branches=(Branch("main"), Branch("dev")))
    found = repo_list(
        ListResult((RepoListing(two, lines=7), RepoListing(Repository("one"), lines=5))), field=0, version="v"
    )
    assert (found.stats.new_lines_count, found.stats.default_branch_new_lines_count) == (12, 5)
