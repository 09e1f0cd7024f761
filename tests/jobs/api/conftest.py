"""A node behind a server, without tenants and with."""

from collections.abc import AsyncIterator

import pytest

from tests.jobs.rpc.stage import Stage, open_stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with open_stage() as new_stage:
        yield new_stage


@pytest.fixture
async def tenant_stage() -> AsyncIterator[Stage]:
    async with open_stage(with_tenants=True) as new_stage:
        yield new_stage
