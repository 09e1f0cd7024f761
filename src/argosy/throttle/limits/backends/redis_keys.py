"""The keys of the limits in Redis: the only module that spells them, for the code and the docs.

A script touches one key, so in a Redis Cluster the buckets may spread over the nodes.
"""

from argosy.base.errors import Invalid
from argosy.base.key_docs import KeyDoc

KEY_DOCS = (
    KeyDoc(
        "<namespace>:limit:<name>_<unique_key>",
        "string",
        "`T` limit, duration, remaining, created_at, expire_at and status, or `L` burst, remaining, updated_at and "
        "expire_at, separated by spaces",
        "one token or leaky bucket; expires a minute after its end",
    ),
)


def prefix(namespace: str) -> str:
    """The part of a key before the bucket's own key."""
    if not namespace or not all(c.isalnum() or c in "-_." for c in namespace):
        raise Invalid(f"a namespace has letters, digits, '-', '_' and '.' only, not {namespace!r}")
    return f"{namespace}:limit:"
