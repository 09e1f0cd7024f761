"""A file trimmed to fewer matches is what its node would have returned for that limit."""

import pytest

from argosy.gateway.merge import trim_file
from argosy.search.model import FileMatch, Form, Options
from tests.search.match.search_calls import build_index, only_file, search_one

TEXT = b"one two\nend\nfar\none\r\nend one\n\n\none end\nlast one\n"
INDEX = build_index({"a.txt": TEXT})


def line_ranges(query: str, form: Form, matches: int, context_lines: int = 0) -> FileMatch:
    options = Options(form=form, file_matches_max=matches, context_lines=context_lines)
    return only_file(search_one(INDEX, query, options))


def shape(file: FileMatch) -> list[object]:
    """All but which match is the best, which only the node knows."""
    chunks = [(chunk.content, chunk.start, chunk.ranges, chunk.is_clipped) for chunk in file.chunks]
    lines = [(line.content, line.number, line.fragments, line.before, line.after) for line in file.lines]
    return [*chunks, *lines]


@pytest.mark.parametrize("context_lines", [0, 1, 3])
@pytest.mark.parametrize("form", [Form.CHUNKS, Form.LINES])
@pytest.mark.parametrize("query", ["one", "end", r"o\n", r"(?s)one.{1,9}?end", "file:txt"])
def test_a_trimmed_file_is_what_its_node_would_return(query: str, form: Form, context_lines: int) -> None:
    whole = line_ranges(query, form, 0, context_lines)
    assert whole.match_count > 0
    for matches in range(1, whole.match_count + 1):
        found = trim_file(whole, matches, of=whole.match_count, context_lines=context_lines)
        assert shape(found) == shape(line_ranges(query, form, matches, context_lines)), matches
