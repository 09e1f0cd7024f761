"""A file match: its branches, the requested content, and the symbols around its matches."""

import pytest

from argosy.search.backends.memory import one_branch, several_branches
from argosy.search.documents import SkipReason
from argosy.search.index.build import build
from argosy.search.match import file_matches
from argosy.search.match.file_matches import split
from argosy.search.model import Form, Options, SymbolInfo
from argosy.search.skip_policy import Policy
from tests.search.match.search_calls import array, build_index, only_file, search_one, segment_of

CODE = b"class Foo:\n    def needle(self):\n        return needle\n"


def test_content_and_checksum_are_returned_only_on_request() -> None:
    index = build_index({"a.py": b"123456789", "b.py": b"other"})
    file = only_file(search_one(index, "123"))
    assert (file.content, file.checksum) == (None, b"")
    file = only_file(search_one(index, "123", Options(with_content=True, with_checksum=True)))
    assert (file.content, file.checksum.hex()) == (b"123456789", "b90956c775a41001")


def test_a_match_in_a_definition_has_the_symbol_and_its_parent() -> None:
    [line, other] = only_file(search_one(build_index({"a.py": CODE}), "needle", Options(form=Form.LINES))).lines
    assert line.fragments[0].symbol == SymbolInfo("needle", "method", "Foo", "class")
    assert other.fragments[0].symbol is None
    [chunk] = only_file(search_one(build_index({"a.py": CODE}), "needle", Options(context_lines=1))).chunks
    assert [symbol and symbol.name for symbol in chunk.symbols] == ["needle", None]
    assert (chunk.best_line, chunk.start.line) == (2, 1)


def test_a_file_has_its_branches_and_a_skipped_one_the_reason() -> None:
    source = several_branches("r", {"main": {"a.c": b"needle"}, "dev": {"a.c": b"needle", "b.c": b"needle too"}})
    index = build(source, Policy())
    assert {file.path: file.branches for file in search_one(index, "needle").files} == {
        "a.c": ("main", "dev"),
        "b.c": ("dev",),
    }
    skipped = build(one_branch("r", {"x.bin": b"\0\1\2"}), Policy())
    assert only_file(search_one(skipped, "file:x")).skipped == SkipReason.BINARY.value


def test_a_match_over_lines_is_split_at_its_newlines() -> None:
    segment = segment_of({"a.txt": b"one\n\ntwo\nthree"})
    starts, ends, owners = split(segment, array(1, 10), array(9, 12))
    data = segment.content.data
    assert [data[a:b].tobytes() for a, b in zip(starts, ends, strict=True)] == [b"ne", b"two", b"hr"]
    assert owners.tolist() == [0, 0, 1]


@pytest.mark.parametrize("form", [Form.CHUNKS, Form.LINES])
def test_scores_are_explained_on_request(form: Form) -> None:
    index = build_index({"a_test.py": CODE})
    file = only_file(search_one(index, "needle", Options(form=form)))
    match = (file.chunks or file.lines)[0]
    assert (file.explanation, match.explanation) == ("", "")
    file = only_file(search_one(index, "needle class", Options(form=form, explain_scores=True)))
    match = max(file.chunks or file.lines, key=lambda each: each.score)
    assert match.explanation == f"{match.score:g} <- kind method:640, whole symbol:7000, both edges:500"
    sum_of_points = f"({match.score:g} best match x 0.8 kind of file + 200 atoms(2))"
    assert file.explanation.startswith(f"{file.score:.2f} = {sum_of_points}")


def test_a_name_and_a_boost_and_bm25_are_explained_too() -> None:
    index = build_index({"needle.py": b"x\n"})
    file = only_file(search_one(index, "file:needle", Options(explain_scores=True)))
    assert file.chunks[0].explanation == "6000 <- edge of base name:5500, both edges:500"
    file = only_file(search_one(index, "file:needle", Options(explain_scores=True, use_bm25=True)))
    assert "bm25" in file.explanation


@pytest.mark.parametrize("form", [Form.CHUNKS, Form.LINES])
@pytest.mark.parametrize("query", ["needle", r"needle\s+(\w+)?", "needle or file:odd", "b:main needle"])
def test_files_built_together_equal_files_built_one_by_one(
    query: str, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str | bytes, bytes] = {
        "a.py": b"def needle():\n    return needle\n" * 3,
        "b.txt": "ä needle ö needle\n".encode() + b"x" * 3000 + b" needle\n\nneedle\nodd",
        "odd/needle": b"nothing\n",
        "c.txt": b"needle\n" * 50,
    }
    index, options = build_index(files), Options(form=form, context_lines=1, file_matches_max=20)
    together = search_one(index, query, options)
    monkeypatch.setattr(file_matches, "TOGETHER_MATCHES", 1)
    assert together.files == search_one(index, query, options).files
    assert len(together.files) >= 3
