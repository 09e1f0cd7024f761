"""BM25 against a plain implementation of the formula."""

import re

import pytest

from argosy.search.index.index import Index
from argosy.search.match.rank import POINT
from argosy.search.model import Options
from tests.search.match.search_calls import build_index, search_one

BM25 = Options(files_max=0, use_bm25=True)
TEXTS: dict[str | bytes, bytes] = {
    "a.py": b"x = foo + FOO + bar\n",
    "b.py": b"foo bar\n" * 40,
    "c.py": b"def foo():\n    return bar\n",
    "test_d.py": b"x = foo + bar\n",
    "long.py": b"# foo bar\n" + b"# nothing to see here\n" * 200,
}
DEFINED = {"c.py": {"foo"}}
LOW = {"test_d.py"}


@pytest.fixture(scope="module")
def index() -> Index:
    return build_index(TEXTS)


def expected(words: list[str]) -> dict[str, float]:
    mean = sum(len(text) + 1 for text in TEXTS.values()) / len(TEXTS)
    scores = {}
    for path, text in TEXTS.items():
        name = str(path)
        frequencies = {word: float(len(re.findall(word.encode(), text, re.IGNORECASE))) for word in words}
        if not all(frequencies.values()):
            continue
        for word in DEFINED.get(name, set()) & set(words):
            frequencies[word] += 4  # its definition counts five times
        weight = 0.2 if name in LOW else 1.0
        norm = 1.2 * (1 - 0.75 + 0.75 * (len(text) + 1) / mean)
        scores[name] = sum(2.2 * f * weight / (norm + f * weight) for f in frequencies.values())
    return scores


@pytest.mark.parametrize("words", [["foo"], ["bar"], ["foo", "bar"]])
def test_scores_are_those_of_the_formula(index: Index, words: list[str]) -> None:
    files = search_one(index, " ".join(f"content:{word}" for word in words), BM25).files
    assert {file.path: file.score / POINT for file in files} == pytest.approx(expected(words))


def test_more_of_the_same_counts_less_and_less(index: Index) -> None:
    order = [file.path for file in search_one(index, "content:foo content:bar", BM25).files]
    assert order.index("b.py") < order.index("long.py")
    assert order.index("a.py") < order.index("test_d.py")


def test_a_file_s_name_counts_five_times() -> None:
    files = {
        file.path: file.score
        for file in search_one(build_index({"foo.txt": b"xx", "other": b"foo"}), "foo", BM25).files
    }
    mean = (3 + 4) / 2
    named, mentioned = (1.2 * (0.25 + 0.75 * size / mean) for size in (3, 4))
    assert files["foo.txt"] / POINT == pytest.approx(2.2 * 5 / (named + 5))
    assert files["other"] / POINT == pytest.approx(2.2 * 1 / (mentioned + 1))


def test_the_best_line_and_the_count_disagree_where_they_should() -> None:
    index = build_index({"one.py": b"class Foo: pass\n" + b"#\n" * 300, "many.py": b"x = Foo()\n" * 30})
    assert [file.path for file in search_one(index, "Foo").files] == ["one.py", "many.py"]
    assert [file.path for file in search_one(index, "Foo", BM25).files] == ["many.py", "one.py"]
