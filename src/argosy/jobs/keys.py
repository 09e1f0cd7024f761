"""How a shard's rows are spelled: order-preserving tuples behind one byte for the kind.

The document's layout, with two kinds parted for speed: what changes about a job lies beside what does not, and jobs
that are done have a status row of their own kind, so that opening a shard reads only what is still to do.
"""

from argosy.base.tuples import Item, pack, prefix_range, unpack

JOB = 0x01  # (tenant, job) -> Job, payload included
LIVE = 0x03  # (tenant, job) -> JobState of a job that is scheduled or running
DONE = 0x04  # (tenant, job) -> JobState of a job that is final
ATTEMPT = 0x05  # (tenant, job, number) -> Attempt
TASK = 0x06  # (task_group, start_at, priority, job, attempt, tenant) -> QueuedTask
LEASE = 0x07  # (task_id,) -> TaskLease
STATUS = 0x08  # (tenant, status, newest first, job): the index by status; SCHEDULED goes by its start
METADATA = 0x09  # (tenant, key, value, job): the index by metadata
REQUEST = 0x0A  # (tenant, key, start_at, priority, job, attempt) -> SlotRequest
HOLDER = 0x0B  # (tenant, key, task_id) -> when it was granted
FLOATING = 0x0C  # (tenant, key) -> FloatingState
UNIQUE = 0x0D  # (tenant, unique_key) -> (job, until, is_done)
AFTER = 0x0E  # (tenant, job waited for, job waiting)
SCHEDULE = 0x0F  # (tenant, name) -> Schedule
EXPIRY = 0x10  # (when, tenant, job): jobs that are done, by when they are forgotten
BUCKET = 0x11  # (bucket key,): the embedded rate limiter's state
META = 0xF0  # (name,): the shard's own: layout version, range, cleanup

NEWEST_FIRST = (1 << 63) - 1  # less a time: sorts the latest first


def key(kind: int, *items: Item) -> bytes:
    return bytes((kind,)) + pack(items)


def items(row_key: bytes) -> tuple[Item, ...]:
    return unpack(row_key[1:])


def under(kind: int, *items: Item) -> tuple[bytes, bytes]:
    """The half-open range of all rows of a kind that begin with the items."""
    if not items:
        return bytes((kind,)), bytes((kind + 1,))
    start, end = prefix_range(items)
    return bytes((kind,)) + start, bytes((kind,)) + end
