"""A bucket as one line of text, the same in a file and in Redis, so that an operator can read either.

    T <limit> <duration> <remaining> <created_at> <expire_at> <status>
    L <burst> <remaining> <updated_at> <expire_at>

The room left in a leaky bucket is a double and is written with as many digits as it takes to read it back unchanged.
"""

from argosy.base.errors import Invalid
from argosy.throttle.limits.buckets import Bucket, LeakyBucket, TokenBucket
from argosy.throttle.limits.model import Status


def written(bucket: Bucket) -> str:
    """The line for a bucket."""
    if isinstance(bucket, TokenBucket):
        return "T {:d} {:d} {:d} {:d} {:d} {:d}".format(*bucket)
    return f"L {bucket.burst} {bucket.remaining!r} {bucket.updated_at} {bucket.expire_at}"


def read(line: str) -> Bucket:
    """The bucket of a line."""
    kind, *parts = line.split(" ")
    try:
        if kind == "T" and len(parts) == 6:
            limit, duration, remaining, created_at, expire_at, status = map(int, parts)
            return TokenBucket(limit, duration, remaining, created_at, expire_at, Status(status))
        if kind == "L" and len(parts) == 4:
            return LeakyBucket(int(parts[0]), float(parts[1]), int(parts[2]), int(parts[3]))
    except ValueError:
        pass
    raise Invalid(f"{line[:100]!r} is no bucket: it was written by another program, or the storage is damaged")
