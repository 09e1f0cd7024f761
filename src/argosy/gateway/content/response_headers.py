"""Response headers: missing indexers, and how long the response may be cached."""

from collections.abc import Sequence

from argosy.gateway.content.model import MissingBackend, format_missing
from argosy.gateway.content.reply_parser import INCOMPLETE_HEADER
from argosy.ipni.web.find.fast_path import HIT_CACHE, MISS_CACHE
from argosy.ipni.web.measured_finds import TRUNCATED_HEADER

MISSING_HEADER = "x-argosy-missing"
EXPOSED = f"{INCOMPLETE_HEADER}, {MISSING_HEADER}, {TRUNCATED_HEADER}"


def headers_of(missing: Sequence[MissingBackend], total: int | None = None, *, is_found: bool = True) -> dict[str, str]:
    """An incomplete answer names the missing indexers (GW-1) and must not be cached."""
    format_missing_of: dict[str, str] = {}
    if missing:
        format_missing_of |= {INCOMPLETE_HEADER: str(len(missing)), MISSING_HEADER: format_missing(missing)}
    if total is not None:
        format_missing_of[TRUNCATED_HEADER] = str(total)
    if format_missing_of:
        format_missing_of["access-control-expose-headers"] = EXPOSED
    format_missing_of["cache-control"] = "no-store" if missing else (HIT_CACHE if is_found else MISS_CACHE)
    return format_missing_of
