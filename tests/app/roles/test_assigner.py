"""The role `assigner` starts only if there is an indexer to assign publishers to."""

from contextlib import AsyncExitStack

import pytest

from argosy.app.process import Process
from argosy.app.roles.assigner import assigner
from argosy.app.settings import NodeSettings
from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Invalid
from argosy.base.metrics import Metrics
from argosy.base.settings import load
from argosy.base.tracing import NO_TRACER
from argosy.ipni.settings import AssignerSettings
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.model import Space


async def count_tasks(**environ: str) -> int:
    """How many tasks the role adds to the process."""
    loaded = load([AssignerSettings, NodeSettings], environ={"ARGOSY_ASSIGNER_PORT": "0", **environ})
    async with AsyncExitStack() as closing:
        store = MemoryOwnershipStore(Space("test", is_auctioned=False), clock=SystemClock(), random=seeded_random(1))
        process = Process(loaded, loaded.get(NodeSettings), store, Metrics(), NO_TRACER, closing)
        await assigner(process)
        for task in process.tasks:
            task.close()
        return len(process.tasks)


async def test_an_assigner_without_a_pool_is_refused() -> None:
    with pytest.raises(Invalid, match=r"no indexers configured; set assigner\.pool_file"):
        await count_tasks()


async def test_one_that_only_passes_announcements_on_needs_no_pool() -> None:
    assert await count_tasks(ARGOSY_ASSIGNER_FORWARD_URLS="http://127.0.0.1:3000") == 2
