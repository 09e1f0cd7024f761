"""Opens the shared row store that a URL names. There is no default and no fallback: an invalid URL is an error.

An unreachable store is no error here: nothing connects before the first exchange, so that an application starts
without its store.
"""

from difflib import get_close_matches

from argosy.base.backends.redis.url import SCHEMES, SCHEMES_TEXT
from argosy.base.errors import Invalid
from argosy.base.extras import load_module
from argosy.throttle.ports import RowStore
from argosy.throttle.rows import RowRules
from argosy.throttle.settings import ThrottleSettings


def open_row_store(url: str, rules: RowRules, *, instance: str, settings: ThrottleSettings) -> RowStore:
    """The row store at a URL, for one instance. Within one process take a client of a `MemoryStore` instead."""
    scheme, separator, _ = url.partition("://")
    if scheme not in SCHEMES or not separator:
        raise Invalid(_unknown(scheme))
    backend = load_module("argosy.throttle.backends.redis", extra="redis", purpose="the redis backend")
    rows: RowStore = backend.RedisRowStore(
        url, rules, instance=instance, namespace=settings.namespace, timeout_s=settings.call_timeout_s
    )
    return rows


def _unknown(scheme: str) -> str:
    close = get_close_matches(scheme, SCHEMES, n=1)
    hint = f"did you mean {close[0]}://?" if close else f"expected {SCHEMES_TEXT}"
    return f"unknown shared store scheme {scheme[:20]!r}; {hint}"
