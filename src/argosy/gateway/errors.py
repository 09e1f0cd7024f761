"""Errors of a gateway that cannot serve a query now. Both are `Unavailable` and carry a `Retry-After` estimate."""

from collections import Counter
from collections.abc import Sequence

from argosy.base.errors import Unavailable
from argosy.search.model import Missing, MissingReason

EXAMPLES_MAX = 3  # repositories named in a message; the rest are only counted
RETRY_AFTER_S = {
    MissingReason.TIMED_OUT: 1.0,
    MissingReason.FAILED: 2.0,
    MissingReason.UNOWNED: 5.0,  # an auction has to close first
    MissingReason.WARMING: 5.0,  # the index is being fetched or built
}


class Unserved(Unavailable):
    """Every repository of the query is missing."""

    def __init__(self, missing: Sequence[Missing]) -> None:
        super().__init__(_message(missing))
        self.missing = tuple(missing)
        self.retry_after_s = min(
            (RETRY_AFTER_S[each.why] for each in missing), default=RETRY_AFTER_S[MissingReason.FAILED]
        )


class Overloaded(Unavailable):
    """The gateway has as many queries in progress as it accepts."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def _message(missing: Sequence[Missing]) -> str:
    counts = Counter(each.why for each in missing)
    reasons = ", ".join(f"{count} {why.value}" for why, count in counts.most_common())
    examples = "; ".join(f"{each.repository}: {each.detail or each.why.value}" for each in missing[:EXAMPLES_MAX])
    return f"none of the {len(missing)} repositories can be searched now ({reasons}): {examples}"
