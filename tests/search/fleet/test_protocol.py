"""Messages are decoded as encoded, with any bytes in their names, or rejected."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.search.fleet.model import FileText, FolderListing, SearchRequest
from argosy.search.fleet.protocol import WALL_TIME_S_MAX, pack, pack_answer, unpack, wall_time_s
from argosy.search.model import FileMatch, LimitHit, Missing, MissingReason, Options, Repository, SearchResult, Stats

ODD = "name \udcff"


def test_a_result_is_decoded_as_encoded() -> None:
    answer = SearchResult(
        (FileMatch("r", "a.py", score=1.5, content=b"\xff"),),
        Stats(files=3),
        (LimitHit.WALL_TIME,),
        (Missing("q", MissingReason.WARMING, "indexing"),),
        {"r": Repository("r", 3)},
    )
    assert unpack(pack(answer), SearchResult) == answer


def test_names_that_are_not_unicode_survive_encoding() -> None:
    answer = SearchResult((FileMatch(ODD, f"{ODD}/ä", content=b"\xff\xfe"),), repositories={ODD: Repository(ODD)})
    assert unpack(pack(answer), SearchResult) == answer
    assert unpack(pack(SearchRequest(b"q", (ODD, "plain"))), SearchRequest) == SearchRequest(b"q", (ODD, "plain"))


@given(path=st.binary(max_size=20), content=st.binary(max_size=20), names=st.lists(st.binary(max_size=8), max_size=4))
def test_any_name_and_any_content_survive_encoding(path: bytes, content: bytes, names: list[bytes]) -> None:
    text = path.decode("utf-8", "surrogateescape")
    branches = tuple(name.decode("utf-8", "surrogateescape") for name in names)
    file = FileText(Repository(text), text, content, branches=branches)
    assert unpack(pack(file), FileText) == file
    folder = FolderListing(Repository("r"), text, branches)
    assert unpack(pack(folder), FolderListing) == folder


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "invalid msgpack"),
        (b"\xc1", "invalid msgpack"),
        (b"\x81\xa1\xff\x01", "invalid SearchRequest"),
        (b"\x91" * 100_000, "invalid "),
        (msgspec.msgpack.encode([1, 2]), "invalid SearchRequest"),
        (msgspec.msgpack.encode({"query": 7, "repositories": []}), "invalid SearchRequest"),
        (msgspec.msgpack.encode({"query": "x", "repositories": []}), "Expected `bytes`, got `str`"),
        (msgspec.msgpack.encode({"query": b"x"}), "invalid SearchRequest"),
        (
            msgspec.msgpack.encode({"query": b"x", "repositories": [msgspec.msgpack.Ext(9, b"x")]}),
            "unknown msgpack extension 9",
        ),
    ],
)
def test_other_data_is_rejected(body: bytes, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        unpack(body, SearchRequest)


def test_a_result_above_the_limit_loses_its_last_files_and_is_marked() -> None:
    files = tuple(FileMatch("r", f"{i}", content=bytes(1000 + 100 * i)) for i in range(50))
    answer = SearchResult(files, limits_hit=(LimitHit.WALL_TIME,))
    body = pack_answer(answer, bytes_max=30_000)
    cut = unpack(body, SearchResult)
    assert 10_000 < len(body) <= 30_000
    assert cut.files == files[: len(cut.files)]
    assert cut.limits_hit == (LimitHit.FILES_SHOWN, LimitHit.WALL_TIME)
    assert pack_answer(answer) == pack(answer)


def test_a_result_with_one_oversized_file_has_none() -> None:
    cut = unpack(pack_answer(SearchResult((FileMatch("r", "a", content=bytes(1000)),)), bytes_max=900), SearchResult)
    assert (cut.files, cut.limits_hit) == ((), (LimitHit.FILES_SHOWN,))


@pytest.mark.parametrize(
    ("requested", "given"), [(0.0, WALL_TIME_S_MAX), (-1.0, WALL_TIME_S_MAX), (2.5, 2.5), (1e9, WALL_TIME_S_MAX)]
)
def test_every_search_has_a_time_limit(requested: float, given: float) -> None:
    assert wall_time_s(Options(wall_time_s=requested)) == given
