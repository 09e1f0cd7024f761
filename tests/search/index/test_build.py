"""Building an index: every file is in it, best first, in segments within their bounds, whatever the files are like."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from argosy.search.backends.memory import MemoryFile, MemorySource, one_branch, several_branches
from argosy.search.documents import Content, Entry, EntryKind, SkipReason
from argosy.search.index import build as building
from argosy.search.index.build import build
from argosy.search.index.index import BLOCK_BYTES, SEGMENT_BLOCKS_MAX, SEGMENT_TEXT_BYTES, Index, Trait
from argosy.search.index.reader import content, documents, outline
from argosy.search.index.sections import verify
from argosy.search.index.wire import faults
from argosy.search.model import Repository
from argosy.search.skip_policy import Policy

POLICY = Policy()


def document_info(index: Index) -> list[str]:
    return [each.path for each in documents(index)]


def skipped(index: Index) -> dict[str, SkipReason]:
    return {each.path: each.skipped for each in documents(index)}


def test_an_empty_repository_has_an_index() -> None:
    index = build(one_branch("empty", {}), POLICY)
    assert index.parts == ()
    assert index.repository.name == "empty"


@pytest.mark.parametrize(
    "text", [b"", b"x", b"\n", b"no end", b"a\r\nb\r\n", b"\xff\xfe", "größe\n".encode(), b"\n" * 9000, b" " * 20_000]
)
def test_a_file_comes_back_byte_for_byte(text: bytes) -> None:
    index = build(one_branch("r", {"a.txt": text}), POLICY)
    assert content(index, "a.txt") == text
    assert list(faults(index.parts[0].segment)) == []


def test_documents_are_best_first() -> None:
    files = {"vendor/v.go": b"v", "z.go": b"z", "a_test.go": b"t", "longer/path.go": b"l"}
    index = build(one_branch("r", files), POLICY)
    assert document_info(index) == ["z.go", "longer/path.go", "a_test.go", "vendor/v.go"]


def test_a_file_without_content_is_there_by_name_with_the_reason() -> None:
    noise = b"".join(b"%x" % (n * 7919 % 65_521) for n in range(1 << 17))
    files = {
        "large.txt": b"l" * (POLICY.size_bytes_max + 1),
        "binary.bin": b"a" * 9000 + b"\0",
        "packed.txt": Random(1).randbytes(200_000).replace(b"\0", b"\n"),
        "missing.c": SkipReason.MISSING,
        "hex.txt": noise,
        "plain.c": b"int x;\n",
    }
    source = MemorySource(
        Repository("r"),
        [
            *(MemoryFile(path.encode(), text) for path, text in files.items()),
            MemoryFile(b"link", b"plain.c", kind=EntryKind.SYMLINK),
            MemoryFile(b"sub", b"", kind=EntryKind.SUBMODULE),
        ],
    )
    assert skipped(build(source, POLICY)) == {
        "plain.c": SkipReason.NONE,
        "hex.txt": SkipReason.NONE,
        "packed.txt": SkipReason.TOO_MANY_TRIGRAMS,
        "binary.bin": SkipReason.BINARY,
        "missing.c": SkipReason.MISSING,
        "large.txt": SkipReason.TOO_LARGE,
        "link": SkipReason.SYMLINK,
        "sub": SkipReason.SUBMODULE,
    }


def test_what_is_not_indexed_is_not_read() -> None:
    read_paths: list[bytes] = []

    class Watched(MemorySource):
        def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
            read_paths.extend(entry.path for entry in entries)
            return super().read(entries)

    files = [
        MemoryFile(b"large", b"x" * (3 << 20)),
        MemoryFile(b"link", b"x", kind=EntryKind.SYMLINK),
        MemoryFile(b"a", b"x"),
    ]
    build(Watched(Repository("r"), files), POLICY)
    assert read_paths == [b"a"]


def test_a_file_that_has_grown_since_it_was_listed_is_judged_as_it_is() -> None:
    class Growing(MemorySource):
        def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
            return (b"x" * (3 << 20) if entry.path == b"huge" else b"y" * 100 for entry in entries)

    index = build(Growing(Repository("r"), [MemoryFile(b"huge", b""), MemoryFile(b"grown", b"")]), POLICY)
    assert skipped(index) == {"grown": SkipReason.NONE, "huge": SkipReason.TOO_LARGE}
    assert content(index, "grown") == b"y" * 100


def test_the_same_content_on_several_branches_is_one_document() -> None:
    source = several_branches("r", {"main": {"a": b"1", "b": b"2"}, "dev": {"a": b"1", "b": b"3"}})
    index = build(source, POLICY)
    assert sorted((each.path, each.branches) for each in documents(index)) == [
        ("a", ("main", "dev")),
        ("b", ("dev",)),
        ("b", ("main",)),
    ]
    assert (content(index, "b", "main"), content(index, "b", "dev"), content(index, "b")) == (b"2", b"3", b"2")


def test_symbols_are_found_unless_they_are_not_wanted() -> None:
    source = one_branch("r", {"a.py": b"class A:\n    def f(self): pass\n"})
    assert [each.name for each in outline(build(source, POLICY), "a.py")] == ["A", "f"]
    assert outline(build(source, POLICY, with_symbols=False), "a.py") == []


def test_names_with_newlines_and_bytes_that_are_no_text_survive() -> None:
    names = [b"new\nline", b"\xff\xfe.c", b"-rf", b"a\x1b[31m", b"." * 300]
    index = build(one_branch("r", {name: name for name in names}), POLICY)
    for name in names:
        assert content(index, name.decode("utf-8", "surrogateescape")) == name


def test_more_tiny_files_than_a_segment_has_blocks_fill_two() -> None:
    index = build(one_branch("r", {f"{n}.txt": b"%d\n" % n for n in range(70_000)}), POLICY)
    assert [part.segment.content.blocks for part in index.parts] == [SEGMENT_BLOCKS_MAX, 70_000 - SEGMENT_BLOCKS_MAX]
    assert content(index, "69999.txt") == b"69999\n"
    assert all(not list(faults(part.segment)) for part in index.parts)
    assert verify(index) == []


def test_a_file_of_a_hundred_mebibytes_is_indexed_if_a_glob_allows_it() -> None:
    line = b"all work and no play makes a dull file of one hundred mebibytes\n"
    large = line * ((100 << 20) // len(line))
    files = {"a.txt": b"small\n", "large.txt": large, "zzz/b.txt": b"small too\n"}
    index = build(one_branch("r", files), Policy(large_files=("large.txt",)))
    assert content(index, "large.txt") == large
    assert content(index, "zzz/b.txt") == b"small too\n"
    assert sum(part.segment.content.blocks for part in index.parts) <= len(large) // BLOCK_BYTES + 3


def test_a_line_of_ten_megabytes_is_cut() -> None:
    text = b"short\n" + b"x = 1; " * (10_000_000 // 7) + b"\nshort\n"
    index = build(one_branch("r", {"long.js": text}), Policy(large_files=("*.js",)))
    segment = index.parts[0].segment
    assert content(index, "long.js") == text
    assert segment.table.traits.tolist() == [Trait.CUT_LINE]
    assert segment.content.block_lines[-1] == 1
    assert max(segment.content.block_starts[1:] - segment.content.block_starts[:-1]) <= 2 * 4096 + 2


def test_segments_are_of_about_the_same_size() -> None:
    text = b"some line of code\n" * 100_000
    files = SEGMENT_TEXT_BYTES // len(text) + 2
    index = build(one_branch("r", {f"{n:03}.txt": text for n in range(files)}), POLICY)
    sizes = [part.segment.content.data.nbytes for part in index.parts]
    assert len(sizes) == 2
    assert max(sizes) - min(sizes) <= 3 * len(text)


def test_progress_rises_to_the_whole() -> None:
    calls: list[tuple[int, int]] = []
    text = b"line\n" * 200_000
    files = {f"{n}.c": text for n in range(5)}
    build(one_branch("r", files), POLICY, progress=lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1] == (5 * (len(text) + 1), 5 * (len(text) + 1))
    assert 2 < len(calls) <= 5 * len(text) // building.PROGRESS_BYTES + 1


def test_progress_counts_what_was_read_and_then_left_out() -> None:
    calls: list[int] = []
    files = {f"{n}.bin": b"\0" * (1 << 20) for n in range(4)}
    build(one_branch("r", files), POLICY, progress=lambda done, _: calls.append(done))
    assert calls == [n * ((1 << 20) + 1) for n in (1, 2, 3, 4, 4)]


def test_an_exception_from_progress_ends_the_build_and_closes_the_source() -> None:
    closed: list[bool] = []

    class Closing(MemorySource):
        def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
            try:
                yield from super().read(entries)
            finally:
                closed.append(True)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    source = Closing(Repository("r"), [MemoryFile(b"%d" % n, b"line\n" * 200_000) for n in range(5)])
    with pytest.raises(KeyboardInterrupt):
        build(source, POLICY, progress=stop)
    assert closed == [True]
