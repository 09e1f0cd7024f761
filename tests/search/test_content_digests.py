"""Every document by the hash of its content, and back; unchanged content is not hashed again."""

from hashlib import sha256

import numpy as np
import pytest

from argosy.search.backends.memory import MemorySource, one_branch, several_branches
from argosy.search.content_digests import DigestMatch, HashingStopped, IndexDigests, hash_contents
from argosy.search.documents import SkipReason
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.skip_policy import Policy


def index_of(source: MemorySource, previous: Index | None = None) -> Index:
    return build(source, Policy(), previous=previous)


def digests(holding: IndexDigests) -> list[bytes]:
    return [row.tobytes() for row in holding.rows()]


def test_every_content_is_there_once_and_in_order() -> None:
    contents = {"a.py": b"one\n", "b/c.py": b"two", "copy.py": b"one\n", "empty": b"", "odd": b"caf\xe9 \r\n"}
    holding = hash_contents(index_of(one_branch("r", contents)))
    assert digests(holding) == sorted({sha256(content).digest() for content in contents.values()})


def test_content_that_is_not_indexed_has_no_digest() -> None:
    holding = hash_contents(
        index_of(one_branch("r", {"a": b"text\n", "b": SkipReason.TOO_LARGE, "c": b"\0\1\2" * 100}))
    )
    assert digests(holding) == [sha256(b"text\n").digest()]
    assert holding.find(bytes(32)) is None


def test_a_repository_without_files_has_none() -> None:
    assert hash_contents(index_of(one_branch("r", {}))).rows().shape == (0, 32)


def test_a_file_is_found_by_its_digest() -> None:
    holding = hash_contents(index_of(several_branches("r", {"main": {"a/b.py": b"one"}, "dev": {"a/b.py": b"two"}})))
    assert holding.find(sha256(b"two").digest()) == DigestMatch("r", "a/b.py", b"two")
    near = sha256(b"two").digest()[:-1] + b"\0"
    assert holding.find(near) is None


def test_after_a_renewal_only_new_content_is_hashed_and_removed_content_is_not_found() -> None:
    old = index_of(one_branch("r", {f"{number}.py": b"x = %d\n" % number for number in range(50)}))
    before = hash_contents(old)
    contents: dict[str | bytes, bytes | SkipReason] = {f"{number}.py": b"x = %d\n" % number for number in range(1, 50)}
    new = index_of(one_branch("r", {**contents, "new.py": b"new\n"}), old)
    hashed = 0

    def counted() -> bool:
        nonlocal hashed
        hashed += 1
        return False

    after = hash_contents(new, before, counted)
    assert hashed == 1
    assert after.digests[0].rows is before.digests[0].rows
    assert np.array_equal(after.rows(), hash_contents(new).rows())
    assert after.find(sha256(b"x = 0\n").digest()) is None
    assert before.find(sha256(b"x = 0\n").digest()) == DigestMatch("r", "0.py", b"x = 0\n")


def test_hashing_stops_when_it_is_no_longer_needed() -> None:
    with pytest.raises(HashingStopped):
        hash_contents(index_of(one_branch("r", {"a": b"1", "b": b"2"})), is_stopped=lambda: True)
