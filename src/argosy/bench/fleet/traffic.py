"""What a Valkey was asked to do, by its own account."""

import time
from dataclasses import dataclass

from redis.asyncio import Redis

from argosy.base.backends.servers import Valkey

# One of these is one transaction of ours: a script, or a block of commands.
TRANSACTIONS = ("evalsha", "evalsha_ro", "eval", "fcall", "fcall_ro", "exec")


@dataclass(frozen=True)
class Count:
    """Commands by name, since the server started."""

    at: float
    commands: dict[str, int]

    def since(self, before: "Count") -> dict[str, int]:
        new = {name: count - before.commands.get(name, 0) for name, count in self.commands.items()}
        return {name: count for name, count in sorted(new.items()) if count}

    def commands_per_s(self, before: "Count") -> float:
        """With those by which scripts do their work: the server counts them alike."""
        return sum(self.since(before).values()) / (self.at - before.at)

    def transactions_per_s(self, before: "Count") -> float:
        new = self.since(before)
        return sum(new.get(name, 0) for name in TRANSACTIONS) / (self.at - before.at)


async def count(server: Valkey) -> Count:
    client = Redis.from_url(server.url)
    try:
        told = await client.info("commandstats")
    finally:
        await client.aclose()
    commands = {name.removeprefix("cmdstat_"): int(stats["calls"]) for name, stats in told.items()}
    return Count(time.monotonic(), commands)
