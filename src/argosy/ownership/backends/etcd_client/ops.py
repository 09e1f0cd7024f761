"""Parts of an etcd transaction: comparisons, operations, and reading of replies.

A key that does not exist has revision 0 and lease 0, so "still absent" and "unchanged since it was read" are one
comparison.
"""

from argosy.ownership.backends.etcd_client import etcd_pb2 as pb

_Compare = pb.Compare


def prefix_end(prefix: bytes) -> bytes:
    """The first key after all that begin with `prefix`, which ends in a byte below 0xff."""
    assert prefix[-1] < 0xFF
    return prefix[:-1] + bytes([prefix[-1] + 1])


# -- comparisons
# ---------------------------------------------------------------------------------------------------------


def is_at(key: bytes, mod_revision: int) -> pb.Compare:
    """The key was last written at this revision; 0: it does not exist."""
    return _Compare(result=_Compare.EQUAL, target=_Compare.MOD, key=key, mod_revision=mod_revision)


def is_absent(key: bytes) -> pb.Compare:
    return is_at(key, 0)


def is_attached(key: bytes, lease: int) -> pb.Compare:
    """The key exists and is attached to this lease."""
    return _Compare(result=_Compare.EQUAL, target=_Compare.LEASE, key=key, lease=lease)


def is_value(key: bytes, value: bytes) -> pb.Compare:
    return _Compare(result=_Compare.EQUAL, target=_Compare.VALUE, key=key, value=value)


def is_other_value(key: bytes, value: bytes) -> pb.Compare:
    """The key exists and has another value."""
    return _Compare(result=_Compare.NOT_EQUAL, target=_Compare.VALUE, key=key, value=value)


def none_newer(prefix: bytes, revision: int) -> pb.Compare:
    """No key with this prefix was written after `revision`; true if there is none at all."""
    return _Compare(
        result=_Compare.LESS,
        target=_Compare.MOD,
        key=prefix,
        range_end=prefix_end(prefix),
        mod_revision=revision + 1,
    )


# -- operations -------------------------------------------------------------------------------------------------


def get(key: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=key))


def get_all(prefix: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=prefix, range_end=prefix_end(prefix)))


def count(prefix: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=prefix, range_end=prefix_end(prefix), count_only=True))


def put(key: bytes, value: bytes, *, lease: int = 0) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease))


def delete(key: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))


def delete_all(prefix: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=prefix, range_end=prefix_end(prefix)))


# -- replies ----------------------------------------------------------------------------------------------------


def first_kv(reply: pb.ResponseOp) -> pb.KeyValue | None:
    """The key that a `get` has read, or None."""
    kvs = reply.response_range.kvs
    return kvs[0] if kvs else None


def mod_revision(kv: pb.KeyValue | None) -> int:
    return 0 if kv is None else kv.mod_revision
