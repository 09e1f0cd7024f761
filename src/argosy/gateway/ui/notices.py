"""What keeps an answer from being the whole truth, in words (GW-1). They stand above every answer that is shown."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from argosy.base.redact import redact
from argosy.gateway.ui.number_format import count_text
from argosy.search.model import LimitHit, Missing, MissingReason, SearchResult

NAMES_MAX = 50  # repositories named in one notice; the rest is counted


class Tone(Enum):
    WARNING = "warning"  # something is not in the answer
    NOTE = "note"  # something is not shown


@dataclass(frozen=True, slots=True)
class Named:
    repository: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    tone: Tone
    text: str
    named: tuple[Named, ...] = ()
    unnamed: int = 0


_SHORTFALLS = {
    MissingReason.WARMING: "still being fetched or indexed: search again in a moment",
    MissingReason.UNOWNED: "held by no node yet: search again in a moment",
    MissingReason.TIMED_OUT: "did not answer in time: search again, or more narrowly",
    MissingReason.FAILED: "could not be searched",
}
_BOUNDS = {
    LimitHit.INDEX_MATCHES: "a repository has more matches than one search collects: narrow the query to see them all",
    LimitHit.TOTAL_MATCHES: "there are more matches than are looked for: narrow the query to see them all",
    LimitHit.WALL_TIME: "the search took too long and ended early: narrow the query to see everything",
    LimitHit.CANCELLED: "the search was ended early: search again",
}


def notices(answer: SearchResult) -> tuple[Notice, ...]:
    """Repositories that are missing first. Files and matches that are merely not shown have their own place: a link
    for more below the results, and a count beside each file."""
    bounds = [Notice(Tone.WARNING, text) for reached, text in _BOUNDS.items() if reached in answer.limits_hit]
    clipped = sum(chunk.is_clipped for file in answer.files for chunk in file.chunks)
    if clipped:
        text = f"{count_text(clipped, 'very long line')} shown in part: open the file to see the whole"
        bounds.append(Notice(Tone.NOTE, text))
    return (*missing_notices(answer.missing), *bounds)


def missing_notices(missing: Iterable[Missing]) -> tuple[Notice, ...]:
    """One notice for each reason."""
    order = list(MissingReason)
    found = sorted(missing, key=lambda each: (order.index(each.why), each.repository))
    return tuple(_missing(why, list(group)) for why, group in groupby(found, key=lambda each: each.why))


def _missing(why: MissingReason, missing: list[Missing]) -> Notice:
    text = f"{count_text(len(missing), 'repository is', 'repositories are')} not in this answer: {_SHORTFALLS[why]}"
    named = tuple(Named(each.repository, redact(each.detail)) for each in missing[:NAMES_MAX])
    return Notice(Tone.WARNING, text, named, max(0, len(missing) - NAMES_MAX))
