"""`BlockingClient`: the client for programs without an event loop; it runs one in a thread.

with BlockingClient.connect("127.0.0.1:7450") as client:
    id = client.enqueue("mail", {"to": "ada"})
    print(client.result(id, timeout_s=60))
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import grpc  # type: ignore[import-untyped, unused-ignore]

from argosy.base.errors import ArgosyError
from argosy.jobs.model import NO_TENANT, JobStatus, NewJob, Schedule
from argosy.jobs.ports import ShardInfo
from argosy.jobs.sdk.client import JobOptions, JobsClient
from argosy.jobs.sdk.codec import JobInfo

T = TypeVar("T")


class BlockingClient:
    """Safe for concurrent use by threads. Every method is that of `JobsClient` with the same name."""

    def __init__(self, open_client: Callable[[], AbstractAsyncContextManager[JobsClient]]) -> None:
        """`open_client` is called in the client's thread."""
        # An event loop of its own in a daemon thread: callers may be in any thread, also in one that runs a loop, and a
        # program that forgets to close the client can still end.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="jobs client", daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()
        try:
            self.client: JobsClient = self.run(self._stack.enter_async_context(open_client()))
        except BaseException:
            self._end()
            raise

    @classmethod
    def connect(
        cls,
        *addresses: str,
        tenant: str = NO_TENANT,
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> "BlockingClient":
        @asynccontextmanager
        async def open_client() -> AsyncIterator[JobsClient]:
            # With coalescing, threads that enqueue at the same time share calls.
            async with JobsClient.connect(
                *addresses, tenant=tenant, token=token, credentials=credentials, with_coalescing=True
            ) as client:
                yield client

        return cls(open_client)

    @classmethod
    def open_embedded(cls, folder: str | Path, *, tenant: str = NO_TENANT) -> "BlockingClient":
        return cls(lambda: JobsClient.open_embedded(folder, tenant=tenant))

    def run(self, call: Awaitable[T]) -> T:
        """Runs any call of `client` and waits for it."""

        async def wait() -> T:
            return await call

        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if not self._loop.is_closed():
            try:
                self.run(self._stack.aclose())
            finally:
                self._end()

    def _end(self) -> None:
        # From the caller's thread, which must not touch the loop otherwise.
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def enqueue(
        self,
        task_group: str,
        payload: object = None,
        *,
        tenant: str | None = None,
        delay_s: float = 0.0,
        **options: Unpack[JobOptions],
    ) -> str:
        """The id of the job, when it is durable."""
        return self.run(self.client.enqueue(task_group, payload, tenant=tenant, delay_s=delay_s, **options)).id

    def enqueue_many(self, jobs: Sequence[NewJob]) -> list[str | ArgosyError]:
        answers = self.run(self.client.enqueue_many(jobs))
        return [answer if isinstance(answer, ArgosyError) else answer.id for answer in answers]

    def get(self, id: str, *, tenant: str | None = None, with_attempts: bool = False) -> JobInfo:
        return self.run(self.client.get(id, tenant=tenant, with_attempts=with_attempts))

    def result(self, id: str, *, tenant: str | None = None, timeout_s: float | None = None) -> Any:
        return self.run(self.client.result(id, tenant=tenant, timeout_s=timeout_s))

    def find(
        self,
        *,
        tenant: str | None = None,
        status: JobStatus | None = None,
        metadata: tuple[str, str] | None = None,
        is_dead: bool = False,
        after: str = "",
        limit: int = 100,
    ) -> list[JobInfo]:
        return self.run(
            self.client.find(tenant=tenant, status=status, metadata=metadata, is_dead=is_dead, after=after, limit=limit)
        )

    def cancel(self, id: str, *, tenant: str | None = None) -> None:
        self.run(self.client.cancel(id, tenant=tenant))

    def restart(self, id: str, *, tenant: str | None = None) -> None:
        self.run(self.client.restart(id, tenant=tenant))

    def expedite(self, id: str, *, tenant: str | None = None) -> None:
        self.run(self.client.expedite(id, tenant=tenant))

    def delete(self, id: str, *, tenant: str | None = None) -> None:
        self.run(self.client.delete(id, tenant=tenant))

    def requeue(
        self, ids: Sequence[str] = (), *, tenant: str | None = None, limit: int = 100
    ) -> dict[str, ArgosyError | None]:
        return self.run(self.client.requeue(ids, tenant=tenant, limit=limit))

    def put_schedule(
        self,
        name: str,
        cron: str,
        task_group: str,
        payload: object = None,
        *,
        timezone: str = "UTC",
        is_paused: bool = False,
        tenant: str | None = None,
        **options: Unpack[JobOptions],
    ) -> None:
        self.run(
            self.client.put_schedule(
                name, cron, task_group, payload, timezone=timezone, is_paused=is_paused, tenant=tenant, **options
            )
        )

    def schedules(self, *, tenant: str | None = None) -> list[Schedule]:
        return self.run(self.client.schedules(tenant=tenant))

    def delete_schedule(self, name: str, *, tenant: str | None = None) -> None:
        self.run(self.client.delete_schedule(name, tenant=tenant))

    def shards(self) -> list[ShardInfo]:
        return self.run(self.client.shards())
