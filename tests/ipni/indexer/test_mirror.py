"""Copies of advertisements on disk: written atomically, and read instead of fetching from the publisher."""

from pathlib import Path

from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.backends.mirror import DirectoryMirror
from argosy.ipni.formats import car
from argosy.ipni.indexer.service import IndexerService
from tests.ipni.indexer.stage import SETTINGS, Chain, ChainSources, SetUsage, follow, has, hashes


async def opened(chain: Chain, mirror: DirectoryMirror, usage: SetUsage | None = None) -> IndexerService:
    return await IndexerService.open(
        MemoryIndexStore(), ChainSources(chain), settings=SETTINGS, usage=usage or SetUsage(), mirror=mirror
    )


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def chain_of_two() -> Chain:
    chain = Chain()
    chain.add(b"chunks", hashes("c", 40))
    chain.add(b"tree", entries=chain.hamt(hashes("t", 2000)))
    chain.add(b"chunks", metadata=b"other")
    return chain


async def test_an_indexer_reads_from_the_mirror_of_another(tmp_path: Path) -> None:
    chain = chain_of_two()
    first = await opened(chain, DirectoryMirror(write=tmp_path))
    await follow(first, chain)
    await first.close()
    assert {path.name for path in files(tmp_path)} == {f"{chain.ads[0]}.car", f"{chain.ads[1]}.car"}
    chain.fetched.clear()
    second = await opened(chain, DirectoryMirror(read=tmp_path))
    await follow(second, chain)
    await second.close()
    assert all(await has(second, hashes("c", 40) + hashes("t", 2000)))
    assert sorted(map(str, chain.fetched)) == sorted(map(str, chain.ads)), "no entries were requested"


async def test_a_file_of_the_mirror_holds_the_advertisement_and_then_its_chunks(tmp_path: Path) -> None:
    chain = Chain()
    ad = chain.add(b"1", hashes("1", 10))
    indexer = await opened(chain, DirectoryMirror(write=tmp_path))
    await follow(indexer, chain)
    await indexer.close()
    (path,) = files(tmp_path)
    roots, blocks = car.decode(path.read_bytes())
    assert roots == (ad,)
    assert [cid for cid, _ in blocks] == [ad, *[cid for cid in chain.fetched if cid != ad]]
    assert all(chain.blocks[cid] == block for cid, block in blocks)


async def test_incomplete_files_are_not_stored(tmp_path: Path) -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 40))
    indexer = await opened(chain, DirectoryMirror(write=tmp_path), SetUsage(fills_after=5))
    await follow(indexer, chain)
    assert indexer.status().is_frozen
    await indexer.close()
    assert files(tmp_path) == []


async def test_a_damaged_or_short_file_is_fetched_from_the_publisher(tmp_path: Path) -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 40))
    chain.add(b"2", hashes("2", 40))
    writing = await opened(chain, DirectoryMirror(write=tmp_path))
    await follow(writing, chain)
    await writing.close()
    first, second = files(tmp_path)
    whole = bytearray(first.read_bytes())
    whole[len(whole) // 2] ^= 1
    first.write_bytes(whole)
    second.write_bytes(b"no car")
    reading = await opened(chain, DirectoryMirror(read=tmp_path))
    await follow(reading, chain)
    assert all(await has(reading, hashes("1", 40) + hashes("2", 40)))
    await reading.close()
