"""The headers of answers: what they lack, and for how long they may be kept."""

from collections.abc import Sequence

from argosy.gateway.content.model import MissingBackend, told
from argosy.gateway.content.reply_parser import INCOMPLETE_HEADER
from argosy.ipni.web.find.fast_path import HIT_CACHE, MISS_CACHE
from argosy.ipni.web.measured_finds import TRUNCATED_HEADER

MISSING_HEADER = "x-argosy-missing"
EXPOSED = f"{INCOMPLETE_HEADER}, {MISSING_HEADER}, {TRUNCATED_HEADER}"


def headers_of(missing: Sequence[MissingBackend], total: int | None = None, *, is_found: bool = True) -> dict[str, str]:
    """An answer that is not complete says so (GW-1), and nobody keeps it."""
    told_of: dict[str, str] = {}
    if missing:
        told_of |= {INCOMPLETE_HEADER: str(len(missing)), MISSING_HEADER: told(missing)}
    if total is not None:
        told_of[TRUNCATED_HEADER] = str(total)
    if told_of:
        told_of["access-control-expose-headers"] = EXPOSED
    told_of["cache-control"] = "no-store" if missing else (HIT_CACHE if is_found else MISS_CACHE)
    return told_of
