"""Files and folders as they are published: what is included, what is skipped, and what changes when they do."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from argosy.base.errors import Invalid, NotFound
from argosy.ipni.formats import metadata as metadatas
from argosy.ipni.formats.metadata import Label, decode_label
from argosy.ipni.formats.multihash import SHA2_256, wrap
from argosy.ipni.publish.backends.file_hashes import FileHashed, FileSkipped
from argosy.ipni.publish.backends.key_file import open_key
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.files import (
    Event,
    PublishedPath,
    WithdrawnPath,
    label_metadata,
    name_of,
    publish_paths,
    withdraw_paths,
)
from argosy.ipni.publish.ports import context_prefix
from argosy.ipni.publish.publisher import Publisher
from tests.ipni.publish.chains import HTTP, KEY, chain, read_context_entries, reading


def multihash(content: bytes) -> bytes:
    return wrap(SHA2_256, sha256(content).digest())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    created = tmp_path / "tree"
    (created / "inner").mkdir(parents=True)
    (created / "a.txt").write_bytes(b"alpha")
    (created / "inner" / "b.bin").write_bytes(b"beta" * 50_000)
    return created


@pytest.fixture
async def publisher() -> Publisher:
    return await Publisher.open(KEY, MemoryChain())


async def test_a_folder_becomes_one_context_with_all_its_files(folder: Path, publisher: Publisher) -> None:
    events: list[Event] = []
    (published,) = await publish_paths([folder], publisher, progress=events.append)
    async with reading(publisher) as source:
        assert await read_context_entries(source) == {
            published.context: {multihash(b"alpha"), multihash(b"beta" * 50_000)}
        }
        assert [ad.metadata for ad in await chain(source)] == [HTTP]
    assert published == PublishedPath(folder, published.context, publisher.head, 2, 200_005)
    assert events == [FileHashed(folder / "a.txt", 5), FileHashed(folder / "inner" / "b.bin", 200_000), published]
    assert str(folder.parent).encode() not in published.context


async def test_unchanged_files_are_not_published_again(folder: Path, publisher: Publisher) -> None:
    await publish_paths([folder], publisher)
    head = publisher.head
    (again,) = await publish_paths([folder], publisher)
    assert (again.ad, publisher.head) == (None, head)


async def test_changed_files_replace_the_earlier_advertisement(folder: Path, publisher: Publisher) -> None:
    (before,) = await publish_paths([folder], publisher)
    (folder / "a.txt").write_bytes(b"another")
    (after,) = await publish_paths([folder], publisher)
    async with reading(publisher) as source:
        assert await read_context_entries(source) == {
            after.context: {multihash(b"another"), multihash(b"beta" * 50_000)}
        }
    assert before.context != after.context


async def test_a_folder_that_became_empty_is_withdrawn(folder: Path, publisher: Publisher) -> None:
    await publish_paths([folder], publisher)
    (folder / "a.txt").unlink()
    (folder / "inner" / "b.bin").unlink()
    (emptied,) = await publish_paths([folder], publisher)
    assert (emptied.files, emptied.ad) == (0, publisher.head)
    assert await publisher.list_contexts() == []


async def test_paths_are_withdrawn_even_when_they_no_longer_exist(folder: Path, publisher: Publisher) -> None:
    await publish_paths([folder / "a.txt", folder / "inner"], publisher)
    (folder / "a.txt").unlink()
    published = await publisher.list_contexts(context_prefix(name_of(folder / "a.txt")))
    withdrawn = await withdraw_paths([folder / "a.txt", folder / "never"], publisher)
    assert withdrawn == [
        WithdrawnPath(folder / "a.txt", published[0].context, publisher.head, 1),
        WithdrawnPath(folder / "never"),
    ]
    assert [published.multihashes for published in await publisher.list_contexts()] == [1]


async def test_files_that_are_only_named_claim_no_way_to_be_had(folder: Path, publisher: Publisher) -> None:
    (published,) = await publish_paths([folder], publisher, metadata=label_metadata)
    (offer,) = await publisher.list_contexts()
    assert [name for name, _ in metadatas.protocols(offer.metadata) if name in metadatas.NAMES.values()] == []
    assert decode_label(offer.metadata) == Label(name_of(folder))
    assert (offer.context, offer.ad) == (published.context, published.ad)


async def test_new_metadata_is_published_for_unchanged_files(folder: Path, publisher: Publisher) -> None:
    await publish_paths([folder], publisher, metadata=label_metadata)
    (again,) = await publish_paths([folder], publisher)
    assert again.ad == publisher.head
    async with reading(publisher) as source:
        assert [ad.metadata for ad in await chain(source)] == [label_metadata(folder), HTTP]
        assert await read_context_entries(source) == {again.context: {multihash(b"alpha"), multihash(b"beta" * 50_000)}}


async def test_links_outside_the_folder_are_not_followed_and_special_files_are_reported(
    folder: Path, tmp_path: Path, publisher: Publisher
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "in").symlink_to(folder / "a.txt")
    (folder / "loop").symlink_to(folder)
    (folder / "dead").symlink_to(folder / "nothing")
    os.mkfifo(folder / "pipe")
    events: list[Event] = []
    (published,) = await publish_paths([folder], publisher, progress=events.append)
    async with reading(publisher) as source:
        assert multihash(b"secret") not in (await read_context_entries(source))[published.context]
    skipped = {event.path.name: event.reason for event in events if isinstance(event, FileSkipped)}
    assert skipped.keys() == {"out", "loop", "dead", "pipe"}
    assert "outside of the published path" in skipped["out"]
    assert published.files == 3


async def test_unreadable_files_are_reported_and_the_rest_is_published(
    folder: Path, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read everything, so the error comes from the system call."""
    real = os.open

    def refusing(path: Path, flags: int, *rest: int) -> int:
        if Path(path).name == "a.txt":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", refusing)
    events: list[Event] = []
    (published,) = await publish_paths([folder], publisher, progress=events.append)
    assert published.files == 1
    assert FileSkipped(folder / "a.txt", "unreadable: Permission denied") in events


async def test_a_path_that_is_not_there_is_an_error(tmp_path: Path, publisher: Publisher) -> None:
    with pytest.raises(NotFound, match="not found"):
        await publish_paths([tmp_path / "nothing"], publisher)


def test_folders_of_one_name_have_different_names_for_publishing(tmp_path: Path) -> None:
    assert name_of(tmp_path / "a" / "x") != name_of(tmp_path / "b" / "x")
    assert name_of(tmp_path / "a" / "x").startswith("x-")


def test_a_key_is_created_once_and_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "publisher.key"
    created = open_key(path)
    assert open_key(path).peer_id == created.peer_id
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["publisher.key"]
    path.write_text("nonsense")
    with pytest.raises(Invalid, match="does not contain a private key"):
        open_key(path)
