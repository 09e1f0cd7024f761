"""Notices above every result: what is missing from it or truncated, and why (GW-1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from argosy.base.redact import redact
from argosy.gateway.ui.number_format import count_text
from argosy.search.model import LimitHit, Missing, MissingReason, SearchResult

NAMES_MAX = 50  # repositories named in one notice; the rest are counted


class Tone(Enum):
    WARNING = "warning"  # the result is incomplete
    NOTE = "note"  # the result is complete but truncated on the page


@dataclass(frozen=True, slots=True)
class MissingName:
    repository: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    tone: Tone
    text: str
    named: tuple[MissingName, ...] = ()
    unnamed: int = 0


_REASONS = {
    MissingReason.WARMING: "still being fetched or indexed; retry shortly",
    MissingReason.UNOWNED: "not held by any node; retry shortly",
    MissingReason.TIMED_OUT: "timed out; retry or narrow the query",
    MissingReason.FAILED: "failed",
}
_LIMITS = {
    LimitHit.INDEX_MATCHES: "match limit per repository reached; narrow the query to see all matches",
    LimitHit.TOTAL_MATCHES: "total match limit reached; narrow the query to see all matches",
    LimitHit.WALL_TIME: "search timed out; narrow the query to see all matches",
    LimitHit.CANCELLED: "search cancelled; retry",
}


def notices(answer: SearchResult) -> tuple[Notice, ...]:
    """Missing repositories first, then limits hit. Files and matches beyond the page need no notice: a link below the
    results and a count beside each file lead to them."""
    bounds = [Notice(Tone.WARNING, text) for reached, text in _LIMITS.items() if reached in answer.limits_hit]
    clipped = sum(chunk.is_clipped for file in answer.files for chunk in file.chunks)
    if clipped:
        text = f"{count_text(clipped, 'very long line')} truncated; open the file to see all of it"
        bounds.append(Notice(Tone.NOTE, text))
    return (*missing_notices(answer.missing), *bounds)


def missing_notices(missing: Iterable[Missing]) -> tuple[Notice, ...]:
    """One notice per reason."""
    order = list(MissingReason)
    found = sorted(missing, key=lambda each: (order.index(each.why), each.repository))
    return tuple(_missing(why, list(group)) for why, group in groupby(found, key=lambda each: each.why))


def _missing(why: MissingReason, missing: list[Missing]) -> Notice:
    text = f"{count_text(len(missing), 'repository is', 'repositories are')} missing: {_REASONS[why]}"
    named = tuple(MissingName(each.repository, redact(each.detail)) for each in missing[:NAMES_MAX])
    return Notice(Tone.WARNING, text, named, max(0, len(missing) - NAMES_MAX))
