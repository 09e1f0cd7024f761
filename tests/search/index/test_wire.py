"""An index is decoded as encoded, or rejected with a reason."""

import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.search.backends.memory import MemoryFile, MemorySource, one_branch
from argosy.search.index.build import build
from argosy.search.index.index import Index, Part
from argosy.search.index.reader import documents, outline
from argosy.search.index.sections import SECTIONS, memory_bytes, sections, verify, with_checksums
from argosy.search.index.wire import CHUNK_BYTES, dump, load
from argosy.search.model import Branch, Repository
from argosy.search.skip_policy import Policy

REPOSITORY = Repository(
    "name with \udcff", id=7, branches=(Branch("main", "abc"), Branch("dev")), flags={"fork": True},
    metadata={"key": "välue"}, aliases=("other",), rank=9, latest_commit_s=1.5,
)  # fmt: skip


def some_index() -> Index:
    """Two parts, with a document that is dead."""
    files = [
        MemoryFile(b"long.c", b"int main(void)\n{\n}\n" * 3000, branches=2),
        MemoryFile(b"a.py", b"class A:\n    def f(self): pass\n" * 100),
        MemoryFile(b"\xff\n", b"\xfe" * 9000, branches=3),
        MemoryFile(b"empty", b""),
        MemoryFile(b"binary", b"\0"),
    ]
    first = build(MemorySource(REPOSITORY, files), Policy())
    more = MemorySource(REPOSITORY, [files[0], *files[2:], MemoryFile(b"b.py", b"def g(): pass\n", branches=2)])
    return build(more, Policy(), previous=first)


def same(one: Index, two: Index) -> bool:
    return one.repository == two.repository and all(
        name == other and np.array_equal(array, twin) and array.dtype == twin.dtype
        for part, match in zip(one.parts, two.parts, strict=True)
        for (name, array), (other, twin) in zip(
            [*sections(part.segment), ("branches", part.branches)],
            [*sections(match.segment), ("branches", match.branches)],
            strict=True,
        )
    )


@pytest.fixture(scope="module")
def index() -> Index:
    return some_index()


@pytest.fixture(scope="module")
def sent(index: Index) -> bytes:
    return b"".join(dump(index))


def test_an_index_arrives_as_it_was(index: Index) -> None:
    arrived = load(dump(index))
    assert same(arrived, index)
    assert list(documents(arrived)) == list(documents(index))
    assert outline(arrived, "b.py", "dev") == outline(index, "b.py", "dev")
    assert verify(arrived) == []
    assert abs(memory_bytes(arrived) - memory_bytes(index)) < 4096


def test_an_index_of_nothing_arrives() -> None:
    empty = build(one_branch("empty", {}), Policy())
    assert same(load(dump(empty)), empty)


SMALL = some_index()


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 1 << 17), max_size=20))
def test_chunks_may_be_cut_anywhere(cuts: list[int]) -> None:
    sent = b"".join(dump(SMALL))
    edges = [0, *sorted(cut % (len(sent) + 1) for cut in cuts), len(sent)]
    assert same(load([sent[a:b] for a, b in pairwise(edges)]), SMALL)


def test_chunks_are_bounded() -> None:
    large = build(one_branch("r", {"a.txt": b"line of text\n" * 150_000}), Policy())
    chunks = list(dump(large))
    assert max(map(len, chunks)) == CHUNK_BYTES
    assert same(load(chunks), large)


def test_a_truncated_stream_is_rejected(sent: bytes) -> None:
    for length in [0, 5, 21, 22, 500, len(sent) // 2, len(sent) - 1]:
        with pytest.raises(Invalid, match=r"ends after|damaged"):
            load([sent[:length]])


def test_a_stream_with_trailing_data_is_rejected(sent: bytes) -> None:
    with pytest.raises(Invalid, match="goes on after its end"):
        load([sent, b"x"])


def test_other_data_is_rejected() -> None:
    with pytest.raises(Invalid, match="not an index"):
        load([b"GIF89a" + bytes(1000)])


def test_another_format_version_is_rejected(sent: bytes) -> None:
    with pytest.raises(Invalid, match=r"format 513 .* reads format 1: build"):
        load([sent[:8] + b"\1\2" + sent[10:]])


def test_a_flipped_bit_anywhere_is_rejected(sent: bytes) -> None:
    step = max(1, len(sent) // 150)
    for at in [*range(40), *range(40, len(sent), step)]:
        with pytest.raises(Invalid):
            load([sent[:at] + bytes([sent[at] ^ 1 << at % 8]) + sent[at + 1 :]])


def test_damage_in_the_senders_memory_is_found_by_the_receiver() -> None:
    index = some_index()
    data = index.parts[0].segment.content.data
    data.setflags(write=True)
    data[100] ^= 4
    with pytest.raises(Invalid, match=r"content\.data of part 0 is damaged"):
        load(dump(index))


def test_inconsistent_arrays_are_rejected_though_their_checksums_are_right() -> None:
    index = some_index()
    part = index.parts[0]
    stops = part.segment.content.block_docs
    stops.setflags(write=True)
    stops[-1] = 1_000_000
    with pytest.raises(Invalid, match="does not fit together"):
        load(dump(Index(index.repository, (Part(with_checksums(part.segment), part.branches),))))


def test_an_oversized_header_is_rejected_before_memory_is_allocated(sent: bytes) -> None:
    with pytest.raises(Invalid, match="longer than"):
        load([sent[:10] + b"\xff\xff\xff\x7f" + sent[14:]])


@pytest.mark.parametrize(
    "header", [b"\x91" * 100_000, b"\x92\xc0\x90", b"\xff", b"", msgspec.msgpack.encode([{b"name": b"r"}, [[]]])]
)
def test_an_unknown_header_is_rejected(header: bytes, sent: bytes) -> None:
    prefix = sent[:10] + struct.pack("<IQ", len(header), xxhash.xxh3_64_intdigest(header))
    with pytest.raises(Invalid, match="invalid index header"):
        load([prefix + header])


@pytest.mark.parametrize("shape", [[-1], [1 << 40], [], [3, 3]])
def test_an_impossible_shape_is_rejected_before_memory_is_allocated(shape: list[int], sent: bytes) -> None:
    header = msgspec.msgpack.encode([{b"name": b"r"}, b"", [[[], [[shape, 0]] * len(SECTIONS), [[0], 0]]]])
    prefix = sent[:10] + struct.pack("<IQ", len(header), xxhash.xxh3_64_intdigest(header))
    with pytest.raises(Invalid, match="which no index has"):
        load([prefix + header])


def test_it_goes_through_a_pipe_to_another_process(index: Index) -> None:
    receiver = Path(__file__).with_name("wire_receiver.py")
    chunks = dump(index)
    with subprocess.Popen([sys.executable, receiver], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for chunk in chunks:
            process.stdin.write(chunk)
        process.stdin.close()
        output = process.stdout.read().decode()
    assert process.returncode == 0
    assert output == "".join(f"{each!r}\n" for each in documents(index))
