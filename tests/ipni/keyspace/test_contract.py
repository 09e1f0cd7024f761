"""The contract of IndexStore holds for a store that is spread over query nodes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from argosy.ipni.ports import IndexStore
from tests.contracts import test_index_store as contract
from tests.ipni.keyspace.stage import fleet


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[IndexStore]:
    async with fleet(tmp_path) as nodes:
        await nodes.create("abc", 2)
        yield await nodes.store()


# Query nodes sweep by themselves, so these tests have nothing to count.
SWEEPING = {
    "test_a_provider_put_again_keeps_its_new_entries",
    "test_a_sweep_frees_at_most_its_limit_and_continues",
    "test_a_sweep_finds_its_entries_among_common_prefixes",
}
TESTS = {name: test for name, test in vars(contract).items() if name.startswith("test_") and name not in SWEEPING}
globals().update(TESTS)


def test_the_contract_is_run() -> None:
    assert vars(contract).keys() > SWEEPING
    assert len(TESTS) > 20
