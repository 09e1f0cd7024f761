"""A worker in ten lines. Here it runs beside its own broker, in a folder; with `JobsClient.connect("host:7450")` in
place of `JobsClient.open_embedded(…)` it is one of many.

    python examples/worker.py
"""

# ruff: noqa: T201  (an example prints)

import asyncio
import tempfile

from argosy.jobs import JobsClient, Worker


async def main(folder: str) -> None:
    async with JobsClient.open_embedded(folder) as client:
        worker = Worker(client)

        @worker.handler("greet")
        async def greet(payload: dict[str, str]) -> str:
            return f"hello {payload['name']}"

        working = asyncio.create_task(worker.run())
        for name in ("ada", "bo"):
            job = await client.enqueue("greet", {"name": name})
            print(await job.result(timeout_s=30))
        worker.stop()
        await working


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
