"""The numbers of a shard that its operator may choose."""

from dataclasses import dataclass

from argosy.jobs.model import LEASE_MS


@dataclass(frozen=True)
class ShardOptions:
    lease_ms: int = LEASE_MS
    retention_ms: int = 0  # how long a job is kept when it is done, unless it says so itself; 0: for ever
