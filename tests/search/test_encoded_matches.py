"""Encoded or decoded, a result is the same; and matches written as bytes equal those built one by one."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import argosy.search
from argosy.base.errors import Unavailable
from argosy.search.backends.factory import open_source
from argosy.search.fleet.protocol import pack_answer, unpack
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.model import Chunk, FileMatch, Form, LimitHit, Location, Options, Range, SearchResult, decode_matches
from argosy.search.query import parse
from argosy.search.query.tree import Boost, Query
from argosy.search.skip_policy import Policy
from tests.search.match.search_calls import build_index, only_file, search_one

ENCODED = Options(pre_encoded=True)
TEXT = "class Größe:\r\n    def needle(self):\r\n        return 'nädel needle needle'\n\nneedle"
lines = st.sampled_from(
    [
        "needle",
        "nädel needle, needle",
        "",
        "\r",
        "\t€ needle",
        "class Needle:",
        "    def needle(self):",
        "x" * 90,
        "needle" * 9,
    ]
)


def one_by_one(index: Index, query: str, options: Options) -> Sequence[FileMatch]:
    """Explained scores are built by Python, so the explanations are removed."""
    files = search_one(index, query, structs.replace(options, explain_scores=True, pre_encoded=False)).files
    return [
        structs.replace(
            file, explanation="", chunks=tuple(structs.replace(chunk, explanation="") for chunk in file.chunks)
        )
        for file in files
    ]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(lines, min_size=1, max_size=12), min_size=1, max_size=4),
    st.sampled_from(["needle", "(?i)needle", r"needle\n", r"e\r?\n\r?\n", "def", "ä", "."]),
    st.builds(
        Options,
        context_lines=st.integers(0, 3),
        line_bytes_max=st.sampled_from([0, 40, 2000]),
        matches_max=st.sampled_from([0, 5]),
        file_matches_max=st.sampled_from([0, 2]),
    ),
)
def test_encoded_or_one_by_one_a_file_is_the_same(texts: list[list[str]], query: str, options: Options) -> None:
    index = build_index({f"{i}.py": "\n".join(text).encode() for i, text in enumerate(texts)})
    expected = one_by_one(index, query, options)
    assert list(search_one(index, query, options).files) == expected
    assert [
        decode_matches(file) for file in search_one(index, query, structs.replace(options, pre_encoded=True)).files
    ] == expected


@pytest.fixture(scope="module")
def folder() -> Index:
    return build(open_source(str(Path(argosy.search.__file__).parent), with_ignored=True), Policy())


@pytest.mark.parametrize("query", ["import", "def", "(?i)index", r"\)\n\n", "self", "type:file import", "sym:Index"])
@pytest.mark.parametrize("context_lines", [0, 2])
def test_real_code_gives_the_same_result_both_ways(folder: Index, query: str, context_lines: int) -> None:
    options = Options(files_max=0, context_lines=context_lines)
    files = search_one(folder, query, options).files
    encoded = search_one(folder, query, structs.replace(options, pre_encoded=True)).files
    assert len(files) > 1
    assert list(files) == one_by_one(folder, query, options)
    assert tuple(map(decode_matches, encoded)) == files


def test_an_encoded_file_has_its_ranking_fields_outside_and_its_chunks_inside() -> None:
    index = build_index({"a.py": TEXT.encode()})
    encoded, plain = only_file(search_one(index, "needle", ENCODED)), only_file(search_one(index, "needle"))
    assert (encoded.chunks, len(plain.chunks)) == ((), 2)
    assert encoded.encoded_matches
    assert structs.replace(encoded, encoded_matches=b"", chunks=plain.chunks) == plain
    assert decode_matches(encoded) == plain
    assert decode_matches(plain) is plain


@pytest.mark.parametrize(
    ("files", "query", "options"),
    [
        ({"needle.py": b""}, "file:needle", ENCODED),
        ({"a.py": b"\xff needle"}, "needle", ENCODED),
        ({"a.py": b"needle " * 100}, "needle", structs.replace(ENCODED, line_bytes_max=50)),
        ({"a.py": b"needle"}, "needle", structs.replace(ENCODED, form=Form.LINES)),
        ({"a.py": b"needle"}, "needle", structs.replace(ENCODED, explain_scores=True)),
        ({"a.py": b"needle"}, Boost(parse("needle").query, 2.0), ENCODED),
    ],
    ids=["name", "bytes", "long line", "lines", "explained", "boosted"],
)
def test_files_that_need_care_are_not_encoded(
    files: dict[str | bytes, bytes], query: str | Query, options: Options
) -> None:
    file = only_file(search_one(build_index({**files}), query, options))
    assert file.encoded_matches == b""
    assert file.chunks or file.lines
    assert file == only_file(search_one(build_index({**files}), query, structs.replace(options, pre_encoded=False)))


def test_encoded_files_are_sent_and_cut_like_others_also_beside_odd_names() -> None:
    answer = search_one(build_index({b"a\xff.py": TEXT.encode(), "b.py": TEXT.encode()}), "needle", ENCODED)
    found = unpack(pack_answer(answer), SearchResult)
    assert found == answer
    assert all(file.encoded_matches for file in found.files)
    cut = unpack(pack_answer(answer, bytes_max=len(pack_answer(answer)) - 1), SearchResult)
    assert (cut.files, cut.limits_hit) == (answer.files[:1], (LimitHit.FILES_SHOWN,))


def test_a_node_without_encoded_matches_answers_decoded_and_is_understood() -> None:
    """Fields that a node or a gateway of another version does not know are omitted."""

    class OldOptions(msgspec.Struct):
        files_max: int = 50

    class OldFile(msgspec.Struct):
        repository: str
        path: str
        chunks: tuple[Chunk, ...] = ()

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(ENCODED), type=OldOptions) == OldOptions()
    chunk = Chunk(b"needle", Location(0, 1, 1), (Range(Location(0, 1, 1), Location(6, 1, 7)),))
    found = msgspec.msgpack.decode(msgspec.msgpack.encode(OldFile("r", "a.py", (chunk,))), type=FileMatch)
    assert decode_matches(found) == FileMatch("r", "a.py", chunks=(chunk,))


def test_matches_that_cannot_be_decoded_are_rejected() -> None:
    with pytest.raises(Unavailable, match="invalid matches from a node"):
        decode_matches(FileMatch("r", "a.py", encoded_matches=b"\x91\x05"))
