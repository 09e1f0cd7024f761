"""A newly opened shard, audited at the end of the test."""

from collections.abc import AsyncIterator

import pytest

from tests.jobs.shard.builders import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.shard.open()
    yield world
    world.store.flush()
    await world.check()
