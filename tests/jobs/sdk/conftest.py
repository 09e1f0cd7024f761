"""A node behind a real server, and clients of it."""

from collections.abc import AsyncIterator

import pytest

from argosy.jobs import JobsClient
from tests.jobs.rpc.stage import Stage, open_stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with open_stage() as opened:
        yield opened


@pytest.fixture
async def client(stage: Stage) -> AsyncIterator[JobsClient]:
    async with JobsClient.connect(stage.address) as opened:
        yield opened
