"""The catalog: what should be searchable, each address once."""

from dataclasses import replace

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry import catalog
from tests.registry.interpreter import START_MS, Interpreter

URL = "https://example.org/a.git"


def test_a_repository_is_in_the_catalog_once() -> None:
    store = Interpreter()
    spec = store.run(catalog.add("a", URL, branches=("main",), is_pinned=True, replicas=1, max_bids=5))
    assert (spec.added_at, spec.version, spec.footprint_bytes) == (START_MS, 1, None)
    assert store.run(catalog.read("a")) == store.run(catalog.read_by_url(URL)) == spec
    with pytest.raises(Conflict, match="'a' is already"):
        store.run(catalog.add("a", "https://example.org/b.git"))
    with pytest.raises(Conflict, match="'a' already has url"):
        store.run(catalog.add("b", URL))


def test_of_two_concurrent_additions_of_one_url_one_is_rejected() -> None:
    store = Interpreter()
    store.meanwhile(catalog.add("a", URL))
    with pytest.raises(Conflict):
        store.run(catalog.add("b", URL))
    assert [repo.repo_id for repo in store.run(catalog.everything())] == ["a"]


def test_an_update_requires_the_version_that_was_read() -> None:
    store = Interpreter()
    spec = store.run(catalog.add("a", URL))
    changed = store.run(catalog.update(replace(spec, replicas=2, url=URL + "2")))
    assert store.run(catalog.read_by_url(URL)) is None
    with pytest.raises(Conflict, match="version"):
        store.run(catalog.update(replace(spec, is_pinned=True)))
    assert store.run(catalog.everything()) == [changed]
    with pytest.raises(Invalid, match="never read"):
        store.run(catalog.update(replace(spec, version=0)))


def test_recording_an_indexing_keeps_the_configuration() -> None:
    store = Interpreter()
    spec = store.run(catalog.add("a", URL))
    store.pass_time(7)
    store.meanwhile(catalog.update(replace(spec, is_pinned=True)))
    noted = store.run(catalog.record_indexed("a", commit_hash="c0ffee", footprint_bytes=1 << 30))
    assert (noted.is_pinned, noted.footprint_bytes, noted.last_commit) == (True, 1 << 30, "c0ffee")
    assert noted.last_indexed_at == START_MS + 7
    with pytest.raises(NotFound):
        store.run(catalog.record_indexed("b", commit_hash="c0ffee", footprint_bytes=1))
    with pytest.raises(Invalid):
        store.run(catalog.record_indexed("a", commit_hash="", footprint_bytes=1))


def test_failures_are_counted_until_an_indexing_succeeds() -> None:
    store = Interpreter()
    store.run(catalog.add("a", URL))
    store.run(catalog.record_index_failure("a", error="the origin is unreachable"))
    store.pass_time(7)
    failed = store.run(catalog.record_index_failure("a", error="x" * 5000))
    assert (failed.failures, failed.last_failed_at) == (2, START_MS + 7)
    assert failed.last_error == "x" * catalog.ERROR_CHARS_MAX
    noted = store.run(catalog.record_indexed("a", commit_hash="c0ffee", footprint_bytes=1))
    assert (noted.failures, noted.last_error, noted.last_failed_at) == (0, None, None)


def test_a_repository_is_pinned_and_a_reindex_requested() -> None:
    store = Interpreter()
    store.run(catalog.add("a", URL))
    assert store.run(catalog.pin("a", True)).is_pinned
    store.pass_time(7)
    request = store.run(catalog.request_reindex("a"))
    assert (request.reindex_requested_at, request.is_pinned) == (START_MS + 7, True)
    assert not store.run(catalog.pin("a", False)).is_pinned
    with pytest.raises(NotFound):
        store.run(catalog.pin("b", True))


def test_a_repository_is_removed() -> None:
    store = Interpreter()
    store.run(catalog.add("a", URL))
    with pytest.raises(Conflict):
        store.run(catalog.remove("a", expected_version=9))
    assert store.run(catalog.remove("a"))
    assert not store.run(catalog.remove("a"))
    assert store.run(catalog.add("b", URL)).repo_id == "b"


@pytest.mark.parametrize(
    "wrong", [{"replicas": 9}, {"replicas": -1}, {"max_bids": 0}, {"branches": ("",)}, {"branches": ("b",) * 65}]
)
def test_bad_input_is_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        Interpreter().run(catalog.add("a", URL, **wrong))  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="url"):
        Interpreter().run(catalog.add("a", ""))


@pytest.mark.parametrize("name", ["esc\x1b[31m", "two\nlines", ".", "a/../b", "/a", "a/", "a//b"])
def test_a_name_that_is_invalid_in_a_url_or_on_a_terminal_is_rejected(name: str) -> None:
    with pytest.raises(Invalid, match="use printable characters"):
        Interpreter().run(catalog.add(name, URL))


def test_a_name_may_be_of_any_letters() -> None:
    assert Interpreter().run(catalog.add("группа/проект [x] v1.0", URL)).repo_id == "группа/проект [x] v1.0"
