"""Reading an index: a file by path and branch, its outline, the listing."""

import pytest

from argosy.base.errors import NotFound
from argosy.search.backends.memory import one_branch, several_branches
from argosy.search.documents import Category, SkipReason
from argosy.search.index.build import build
from argosy.search.index.reader import DocumentInfo, DocumentSymbol, content, documents, outline
from argosy.search.skip_policy import Policy

PYTHON = b"""import os


class Ship:
    def sail(self):
        pass


def harbour():
    return Ship()
"""


def test_an_outline_has_lines_and_parents() -> None:
    files = {"x.py": b"def before(): pass\n", "ship.py": PYTHON, "z/y.py": b"def after(): pass\n"}
    index = build(one_branch("r", files), Policy())
    assert outline(index, "ship.py") == [
        DocumentSymbol("Ship", "class", 4, PYTHON.index(b"Ship"), -1),
        DocumentSymbol("sail", "method", 5, PYTHON.index(b"sail"), 0),
        DocumentSymbol("harbour", "function", 9, PYTHON.index(b"harbour"), -1),
    ]


def test_a_listing_has_the_fields_of_each_document() -> None:
    index = build(several_branches("r", {"main": {"a_test.go": b"package a\n"}, "dev": {"b.bin": b"\0"}}), Policy())
    one, two = sorted(documents(index), key=lambda each: each.path)
    assert one == DocumentInfo("a_test.go", 10, "Go", Category.TEST, SkipReason.NONE, ("main",), one.blob_id)
    assert (two.path, two.size_bytes, two.skipped, two.branches) == ("b.bin", 0, SkipReason.BINARY, ("dev",))
    assert one.blob_id.hex() == "2a93cdef549545101b086408d9ee767fda0c02c2"


@pytest.mark.parametrize("path", ["a", "b", "a/b", "dir", "A", "a\n", ""])
def test_only_the_very_path_is_found(path: str) -> None:
    index = build(one_branch("r", {"dir/a": b"1", "a/b/c": b"2", "aa": b"3"}), Policy())
    with pytest.raises(NotFound, match="not found on branch"):
        content(index, path)


def test_an_unknown_branch_is_reported_with_the_existing_ones() -> None:
    index = build(several_branches("r", {"main": {"a": b"1"}, "dev": {"a": b"2"}}), Policy())
    with pytest.raises(NotFound, match=r"branch 'prod' .* not found; .*\['main', 'dev'\]"):
        content(index, "a", "prod")
    assert (content(index, "a", "dev"), content(index, "a", "HEAD")) == (b"2", b"1")


def test_the_reason_for_missing_content_is_reported() -> None:
    index = build(one_branch("r", {"a.bin": b"\0"}), Policy())
    with pytest.raises(NotFound, match="not indexed: binary"):
        content(index, "a.bin")
    assert outline(index, "a.bin") == []
