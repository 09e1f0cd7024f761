"""Entries are read ahead, within a bound."""

import asyncio

import pytest

from argosy.base.errors import Invalid, NotFound
from argosy.ipni.formats import dag
from argosy.ipni.formats.cid import DAG_CBOR, Cid
from argosy.ipni.formats.node import Node
from argosy.ipni.indexer.ingest_state import EntriesProgress, EntryBatch
from argosy.ipni.indexer.prefetch import STEPS_AHEAD, EntriesPrefetcher
from tests.ipni.indexer.stage import Chain, ChainSources, hashes, turn

BITMAP = bytes(32)


def progress_of(chain: Chain, first: Cid) -> EntriesProgress:
    return EntriesProgress(first, chain.id, (first,))


async def steps_of(chain: Chain, progress: EntriesProgress, blocks_max: int = 1000) -> list[EntryBatch]:
    source = ChainSources(chain).open(chain.peer)
    return [step async for step in EntriesPrefetcher(blocks_max=blocks_max).read(source, progress)]


async def test_every_step_contains_its_resume_position() -> None:
    chain = Chain()
    first = chain.chunks(hashes("a", 10))
    steps = await steps_of(chain, progress_of(chain, first))
    assert [len(step.multihashes) for step in steps] == [4, 4, 2]
    assert [len(step.left) for step in steps] == [1, 1, 0]
    rest = await steps_of(chain, EntriesProgress(first, chain.id, steps[0].left, blocks=1))
    assert [step.multihashes for step in rest] == [step.multihashes for step in steps[1:]]


async def test_it_reads_ahead_of_a_slow_reader_but_only_so_far() -> None:
    chain = Chain()
    first = chain.chunks(hashes("a", 100), 1)
    reading = EntriesPrefetcher(blocks_max=1000).read(ChainSources(chain).open(chain.peer), progress_of(chain, first))
    await anext(reading)
    for _ in range(100):
        await turn()
    assert 2 <= len(chain.fetched) <= 1 + STEPS_AHEAD + 2
    await reading.aclose()
    assert len(asyncio.all_tasks()) == 1, "no task runs without a reader"


async def test_a_missing_block_is_reported_after_the_present_ones() -> None:
    chain = Chain()
    first = chain.chunks(hashes("a", 8))
    del chain.blocks[chain.chunks(hashes("a", 8)[4:])]
    reading = EntriesPrefetcher(blocks_max=9).read(ChainSources(chain).open(chain.peer), progress_of(chain, first))
    assert len((await anext(reading)).multihashes) == 4
    with pytest.raises(NotFound):
        await anext(reading)


async def test_a_tree_with_shared_branches_terminates() -> None:
    """Six blocks, and 32 ** 5 ways through them."""
    chain = Chain()
    items: list[Node] = [[[key, True]] for key in hashes("leaf", 3)]
    for _ in range(5):
        child, data = dag.encode([BITMAP, items], DAG_CBOR)
        chain.blocks[child] = data
        items = [child] * 32
    root, data = dag.encode({"hashAlg": 0x12, "bucketSize": 3, "hamt": [BITMAP, items]}, DAG_CBOR)
    chain.blocks[root] = data
    with pytest.raises(Invalid, match="more than 500 blocks"):
        await steps_of(chain, progress_of(chain, root), blocks_max=500)
    assert len(chain.fetched) <= 500


async def test_a_block_that_is_no_entries_is_invalid() -> None:
    chain = Chain()
    cid, data = dag.encode(["nothing"], DAG_CBOR)
    chain.blocks[cid] = data
    with pytest.raises(Invalid):
        await steps_of(chain, progress_of(chain, cid))
