"""A shard that was just opened, and is audited when the test is over."""

from collections.abc import AsyncIterator

import pytest

from tests.jobs.shard.making import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.shard.open()
    yield world
    world.ledger.flush()
    await world.check()
