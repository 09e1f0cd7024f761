"""Searching one repository, by example: typical queries, their results, and the reported limits."""

from collections.abc import Mapping

import pytest
from msgspec import structs

from argosy.search.backends.memory import MemoryFile, MemorySource, several_branches
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.match.limits import Budget
from argosy.search.match.search import search_index
from argosy.search.model import Form, LimitHit, Location, Options, SearchResult
from argosy.search.query import parse
from argosy.search.skip_policy import Policy

MAIN: Mapping[str | bytes, bytes] = {
    "src/fleet.py": b"class Fleet:\n    def launch(self, ship):\n        return ship.launch()\n",
    "src/fleet_test.py": b"def test_launch():\n    assert Fleet().launch(Ship())\n",
    "src/ship.go": b"package ship\n\nfunc Launch() {\n\t// launch, then launch again\n}\n",
    "docs/naming.md": "# Namen\nÄpfel und ÄPFEL, 5 \u212aelvin\n".encode(),
    "image.png": b"\x89PNG\r\n\x00\x00launch",
    "empty.txt": b"",
}
NEXT: Mapping[str | bytes, bytes] = {**MAIN, "src/ship.go": b"package ship\n\nfunc Sail() {}\n"}


@pytest.fixture(scope="module")
def index() -> Index:
    source = several_branches("team/fleet", {"main": MAIN, "next": NEXT})
    contents = source.read(source.entries())
    files = [MemoryFile(entry.path, next(contents), entry.branches) for entry in source.entries()]
    repository = structs.replace(source.repository, id=7, flags={"fork": True}, aliases=("armada",))
    return build(MemorySource(repository, files), Policy())


def search_one(index: Index, text: str, options: Options | None = None) -> SearchResult:
    return search_index(index, parse(text).query, options or Options(), Budget(lambda: 0.0))


def paths(index: Index, text: str) -> set[str]:
    return {file.path for file in search_one(index, text).files}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("launch", {"src/fleet.py", "src/fleet_test.py", "src/ship.go"}),
        ("Launch", {"src/ship.go"}),
        ("launch case:yes -lang:go", {"src/fleet.py", "src/fleet_test.py"}),
        ("launch -file:test", {"src/fleet.py", "src/ship.go"}),
        ("fleet", {"src/fleet.py", "src/fleet_test.py"}),
        ("file:fleet", {"src/fleet.py", "src/fleet_test.py"}),
        ("content:fleet", {"src/fleet.py", "src/fleet_test.py"}),
        ("ship lang:python", {"src/fleet.py", "src/fleet_test.py"}),
        ("sym:launch", {"src/fleet.py", "src/fleet_test.py", "src/ship.go"}),
        ("sym:^launch$", {"src/fleet.py", "src/ship.go"}),
        ("branch:next sail", {"src/ship.go"}),
        ("branch:main sail", set()),
        ("äpfel", {"docs/naming.md"}),
        ("kelvin", {"docs/naming.md"}),
        ("Kelvin", set()),
        ("image", {"image.png"}),
        ("PNG", set()),
        ("launch.*again", {"src/ship.go"}),
        (r"ship\n\nfunc", {"src/ship.go"}),
        (r"^\tx*//", {"src/ship.go"}),
        ("nowhere", set()),
        ("repo:fleet file:empty", {"empty.txt"}),
        ("repo:other launch", set()),
        ("fork:yes archived:no file:empty", {"empty.txt"}),
        ("alias:armada file:empty", {"empty.txt"}),
        ("(type:repo sym:Sail) file:empty", {"empty.txt"}),
        ("(type:repo sym:Sink) file:empty", set()),
        ("sail or again", {"src/ship.go"}),
        ("-launch -file:png", {"docs/naming.md", "empty.txt", "src/ship.go"}),
    ],
)
def test_typical_queries_find_the_intended_lines(index: Index, text: str, expected: set[str]) -> None:
    assert paths(index, text) == expected


def test_a_match_has_its_byte_offset_line_and_column(index: Index) -> None:
    [file] = search_one(index, "case:yes ÄPFEL").files
    [chunk] = file.chunks
    assert chunk.content == "Äpfel und ÄPFEL, 5 \u212aelvin\n".encode()
    assert chunk.ranges[0].start == Location(offset=19, line=2, column=11)
    assert chunk.ranges[0].end == Location(offset=25, line=2, column=16)


def test_context_is_shown_and_neighbours_are_one_chunk(index: Index) -> None:
    [file] = search_one(index, "file:ship launch", Options(context_lines=1)).files
    [chunk] = file.chunks
    assert chunk.start.line == 2
    assert chunk.content == MAIN["src/ship.go"][len("package ship\n") :]
    assert [each.start.line for each in chunk.ranges] == [3, 4, 4]


def test_lines_have_their_fragments(index: Index) -> None:
    [file] = search_one(index, "file:ship launch", Options(form=Form.LINES)).files
    assert [(line.number, len(line.fragments)) for line in file.lines] == [(3, 1), (4, 2)]
    assert file.lines[1].content == b"\t// launch, then launch again"
    assert file.lines[1].fragments[1].line_offset == 17


def test_a_definition_has_its_kind(index: Index) -> None:
    [file] = search_one(index, "sym:launch file:fleet.py").files
    [chunk] = file.chunks
    [symbol] = chunk.symbols
    assert symbol is not None
    assert (symbol.name, symbol.kind, symbol.parent) == ("launch", "method", "Fleet")


def test_definitions_come_first_and_tests_last(index: Index) -> None:
    assert [file.path for file in search_one(index, "launch lang:python").files] == [
        "src/fleet.py",
        "src/fleet_test.py",
    ]
    scores = [file.score for file in search_one(index, "launch").files]
    assert scores == sorted(scores, reverse=True)


def test_a_file_has_its_branches_and_the_reason_for_missing_content(index: Index) -> None:
    [ship] = search_one(index, "sail").files
    assert (ship.repository, ship.repository_id, ship.branches, ship.language) == ("team/fleet", 7, ("next",), "Go")
    [image] = search_one(index, "file:png").files
    assert (image.branches, image.skipped) == (("main", "next"), "binary")


def test_counting_returns_totals_and_no_files(index: Index) -> None:
    answer = search_one(index, "launch", Options(form=Form.COUNT))
    assert (answer.stats.files, answer.stats.matches, answer.files) == (3, 7, ())


def test_a_truncated_list_of_files_is_reported(index: Index) -> None:
    answer = search_one(index, "launch", Options(files_max=1))
    assert [file.path for file in answer.files] == [search_one(index, "launch").files[0].path]
    assert answer.limits_hit == (LimitHit.FILES_SHOWN,)
    assert (answer.stats.files, answer.is_complete) == (3, False)


def test_a_truncated_list_of_matches_is_reported(index: Index) -> None:
    answer = search_one(index, "file:ship launch", Options(matches_max=2))
    assert sum(len(chunk.ranges) for file in answer.files for chunk in file.chunks) == 2
    assert answer.files[0].match_count == 3
    assert LimitHit.MATCHES_SHOWN in answer.limits_hit


def test_an_exhausted_budget_ends_the_search_and_is_reported(index: Index) -> None:
    answer = search_index(index, parse("launch").query, Options(), Budget(lambda: 0.0, is_cancelled=lambda: True))
    assert answer.limits_hit == (LimitHit.CANCELLED,)
    ticks = iter(range(1_000_000))
    late = search_index(index, parse("launch").query, Options(), Budget(lambda: next(ticks), wall_time_s=0.5))
    assert LimitHit.WALL_TIME in late.limits_hit


def test_a_long_line_is_clipped_around_its_match_and_marked_as_clipped() -> None:
    line = b"x" * 50_000 + b"needle" + b"y" * 50_000
    source = several_branches("long", {"main": {"min.js": line}})
    [file] = search_one(build(source, Policy()), "needle").files
    [chunk] = file.chunks
    assert chunk.is_clipped
    assert len(chunk.content) <= Options().line_bytes_max
    found = chunk.ranges[0]
    assert chunk.content[found.start.offset - chunk.start.offset :].startswith(b"needle")
    assert found.start == Location(50_000, 1, 50_001)


def test_a_repository_the_query_excludes_is_not_searched(index: Index) -> None:
    stats = search_one(index, "repo:other launch").stats
    assert (stats.indexes_excluded, stats.indexes_searched, stats.content_bytes) == (1, 0, 0)


def test_an_empty_repository_has_no_results() -> None:
    answer = search_one(build(several_branches("empty", {"main": {}}), Policy()), "launch")
    assert (answer.files, answer.is_complete) == ((), True)
