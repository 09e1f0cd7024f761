"""Any sequence of changes, sweeps and restarts leaves each store in the state of a plain model."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from argosy.ipni.backends import rocks, rocks_reader, rocks_sweeper
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.formats.peer import peer_bytes
from argosy.ipni.formats.privacy import second_digest
from argosy.ipni.model import IndexValue
from argosy.ipni.ports import IndexStore
from tests.contracts.index_store_stage import ALICE, BOB, digests_with_prefix, many, unusual

T = TypeVar("T")
UNIVERSE = [*many("file", 8), *digests_with_prefix(5), *unusual()]
PROVIDERS = st.sampled_from([ALICE, BOB])
CONTEXTS = st.sampled_from([b"", b"1", b"2"])
METADATA = st.sampled_from([b"", b"\x80\x12", b"m" * 1024])
HASHES = st.lists(st.sampled_from(UNIVERSE), max_size=12)
ROWS = st.dictionaries(st.sampled_from([b"a", b"a/1", b"b", b"\xff"]), st.none() | st.binary(max_size=4), max_size=2)
SMALL = (
    (rocks, "PIECE", 3),
    (rocks_reader, "PAGE_MAX", 2),
    (rocks_sweeper, "ENTRIES_PER_PIECE_MAX", 2),
    (rocks_sweeper, "CONTEXTS_PER_PIECE_MAX", 1),
)


class Stores(RuleBasedStateMachine):
    """The model, a store in memory and one on disk, given the same operations."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for module, name, size in SMALL:
            self.patch.setattr(module, name, size)
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.contexts: dict[tuple[str, bytes], tuple[bytes, set[bytes]]] = {}  # oldest first
        self.rows: dict[bytes, bytes] = {}
        self.memory: IndexStore = MemoryIndexStore(is_double_hashed=True)
        self.rocks: IndexStore = self.run(RocksStore.open(self.folder, is_double_hashed=True))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    def teardown(self) -> None:
        self.run(self.rocks.close())
        self.runner.close()
        self.patch.undo()
        shutil.rmtree(self.folder)

    @property
    def stores(self) -> tuple[IndexStore, IndexStore]:
        return self.memory, self.rocks

    def write_rows(self, rows: dict[bytes, bytes | None]) -> None:
        for key, row in rows.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row

    @rule(provider=PROVIDERS, context=CONTEXTS, metadata=METADATA, hashes=HASHES, rows=ROWS)
    def put(
        self, provider: str, context: bytes, metadata: bytes, hashes: list[bytes], rows: dict[bytes, bytes | None]
    ) -> None:
        for store in self.stores:
            self.run(store.put(IndexValue(provider, context, metadata), hashes, rows))
        known = self.contexts.get((provider, context), (b"", set()))[1]
        self.contexts[provider, context] = metadata, known | set(hashes)
        self.write_rows(rows)

    @rule(provider=PROVIDERS, context=CONTEXTS, rows=ROWS)
    def remove_context(self, provider: str, context: bytes, rows: dict[bytes, bytes | None]) -> None:
        for store in self.stores:
            self.run(store.remove_context(provider, context, rows))
        self.contexts.pop((provider, context), None)
        self.write_rows(rows)

    @rule(provider=PROVIDERS)
    def remove_provider(self, provider: str) -> None:
        for store in self.stores:
            self.run(store.remove_provider(provider))
        self.contexts = {key: held for key, held in self.contexts.items() if key[0] != provider}

    @rule(entries_max=st.integers(1, 10))
    def sweep(self, entries_max: int) -> None:
        for store in self.stores:
            assert self.run(store.sweep(entries_max)) <= entries_max

    @rule()
    def restart(self) -> None:
        self.run(self.rocks.close())
        self.rocks = self.run(RocksStore.open(self.folder, is_double_hashed=True))

    @rule(provider=PROVIDERS, context=CONTEXTS, start=st.sampled_from(UNIVERSE), limit=st.integers(1, 30))
    def list_multihashes(self, provider: str, context: bytes, start: bytes, limit: int) -> None:
        listed = [self.run(store.multihashes(provider, context, start=start[2:], limit=limit)) for store in self.stores]
        assert listed[0] == listed[1]
        whole = self.run(self.rocks.multihashes(provider, context, start=b"", limit=100))
        assert sorted(whole) == sorted(self.contexts.get((provider, context), (b"", set()))[1])

    @rule()
    def sweep_all(self) -> None:
        """After a full sweep nothing is left of removed entries."""
        for store in self.stores:
            self.run(store.sweep(10_000))
            held = set[bytes]().union(*(hashes for _, hashes in self.contexts.values()))
            resolved = self.run(store.find_second([second_digest(each) for each in UNIVERSE]))
            assert resolved == [each if each in held else None for each in UNIVERSE]

    @invariant()
    def finds_match_the_model(self) -> None:
        expected = [
            tuple(IndexValue(*key, metadata) for key, (metadata, hashes) in self.contexts.items() if each in hashes)
            for each in UNIVERSE
        ]
        for store in self.stores:
            assert self.run(store.find(UNIVERSE)) == expected

    @invariant()
    def values_and_rows_match_the_model(self) -> None:
        for store in self.stores:
            for (provider, context), (metadata, _) in self.contexts.items():
                key_hash = sha256(peer_bytes(provider) + context).digest()
                assert self.run(store.find_value(key_hash)) == IndexValue(provider, context, metadata)
            assert self.run(scan_all(store)) == sorted(self.rows.items())


async def scan_all(store: IndexStore) -> list[tuple[bytes, bytes]]:
    return [each async for each in store.scan(b"")]


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=8, stateful_step_count=25, deadline=None)
