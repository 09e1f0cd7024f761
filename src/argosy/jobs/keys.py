"""Keys of a shard's rows: one byte for the kind, then an order-preserving tuple.

A job's payload is one row, what changes about it another, so a heartbeat does not rewrite the payload. Finished jobs
have their own kind of state row (DONE beside LIVE), so opening a shard reads unfinished work only, and no tombstones of
finished work.

The kind comes first and the tenant second, so a tenant's rows of one kind are one range. Tasks are ordered by group and
time instead, because that is how they are read. The numbers are stored: a new kind gets a new number.
"""

from argosy.base.tuples import Item, pack, prefix_range, unpack

JOB = 0x01  # (tenant, job) -> Job, payload included
LIVE = 0x03  # (tenant, job) -> JobState of a job that is scheduled or running
DONE = 0x04  # (tenant, job) -> JobState of a job that is final
ATTEMPT = 0x05  # (tenant, job, number) -> Attempt
TASK = 0x06  # (task_group, start_at, priority, job, attempt, tenant) -> QueuedTask
LEASE = 0x07  # (task_id,) -> TaskLease
STATUS = 0x08  # (tenant, status, newest first, job): index by status; SCHEDULED is ordered by its start
METADATA = 0x09  # (tenant, key, value, job): index by metadata
REQUEST = 0x0A  # (tenant, key, start_at, priority, job, attempt) -> SlotRequest
HOLDER = 0x0B  # (tenant, key, task_id) -> time of the grant
FLOATING = 0x0C  # (tenant, key) -> FloatingState
UNIQUE = 0x0D  # (tenant, unique_key) -> (job, until, is_done)
AFTER = 0x0E  # (tenant, dependency, dependent job)
SCHEDULE = 0x0F  # (tenant, name) -> Schedule
EXPIRY = 0x10  # (when, tenant, job): finished jobs by the time of their deletion
BUCKET = 0x11  # (bucket key,): state of the embedded rate limiter
META = 0xF0  # (name,): the shard's own: layout version, range, cleanup

NEWEST_FIRST = (1 << 63) - 1  # minus a time: the latest sorts first


def key(kind: int, *items: Item) -> bytes:
    return bytes((kind,)) + pack(items)


def items(row_key: bytes) -> tuple[Item, ...]:
    return unpack(row_key[1:])


def under(kind: int, *items: Item) -> tuple[bytes, bytes]:
    """The half-open range of all rows of a kind whose key starts with the items."""
    if not items:
        return bytes((kind,)), bytes((kind + 1,))
    start, end = prefix_range(items)
    return bytes((kind,)) + start, bytes((kind,)) + end
