"""A watch that survives trouble: no event is lost, none comes twice, and a gap is never passed over in silence.

The rules, each learnt from a client that broke it: go on from the last *event's* revision, because the header of a
reply names the store's present revision, far ahead while the server catches up; advance only when the whole reply has
been delivered, because the events of one transaction share a revision; and when the history is cut, or the store is
another one than before, say so instead of waiting for a revision that has passed or never comes.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from argosy.base.errors import Unavailable
from argosy.base.retry import Backoff, RetryBudget
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.channel import CALL_DEADLINE_S
from argosy.ownership.backends.etcd_client.client import EtcdClient

# Long enough for a restart or an election: about 20 s if nothing answers at all, for each attempt has a deadline too.
# After that the watcher is told, and decides for itself.
WATCH_BACKOFF = Backoff(first_s=0.05, ceiling_s=2.0, attempts_max=6)


class HistoryLost(Exception):
    """What happened since the last event cannot be told: list everything anew. Never leaves the backend."""


async def follow(
    client: EtcdClient,
    prefix: bytes,
    *,
    after_revision: int,
    is_same_store: Callable[[], Awaitable[bool]],
    budget: RetryBudget,
) -> AsyncGenerator[Sequence[pb.Event], None]:
    """The events after a revision, one reply at a time, over as many streams as it takes."""
    seen = after_revision
    while True:
        try:
            if not await is_same_store():
                raise HistoryLost
            # Closed by hand, here and below: a generator left to the collector would keep its stream open.
            async with aclosing(_one_stream(client, prefix, seen)) as replies:
                async for reply in replies:
                    budget.reset()
                    if reply.events:
                        yield reply.events
                        seen = reply.events[-1].kv.mod_revision
        except Unavailable as error:
            if client.channel.is_closed:
                raise
            client.channel.forget_token()  # a watch without a valid token is cancelled as "permission denied"
            await budget.spend(error)


async def _one_stream(client: EtcdClient, prefix: bytes, seen: int) -> AsyncGenerator[pb.WatchResponse, None]:
    async with aclosing(client.watch(prefix, seen + 1)) as replies:
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                first = await anext(replies)
        except TimeoutError as error:
            raise Unavailable(f"etcd watch: {client.channel.url} did not begin in {CALL_DEADLINE_S:g} s") from error
        if first.header.revision < seen:
            raise HistoryLost  # the store is younger than what it told us: it was wiped, or restored from a backup
        yield _checked(first)
        async for reply in replies:
            yield _checked(reply)


def _checked(reply: pb.WatchResponse) -> pb.WatchResponse:
    assert not reply.fragment  # never asked for; a part of a transaction would look like a whole one
    if reply.compact_revision:
        raise HistoryLost
    if reply.canceled:
        raise Unavailable(f"etcd watch: cancelled by the server: {reply.cancel_reason or 'no reason given'}")
    return reply
