"""Why the front door could not serve anybody just now, with a better guess than most of when to come back.

Both are `Unavailable`; `retry_after_s` is what a client should be told.
"""

from collections import Counter
from collections.abc import Sequence

from argosy.base.errors import Unavailable
from argosy.search.model import Missing, MissingReason

EXAMPLES_MAX = 3  # repositories that a message names
RETRY_AFTER_S = {
    MissingReason.TIMED_OUT: 1.0,
    MissingReason.FAILED: 2.0,
    MissingReason.UNOWNED: 5.0,  # an auction has to end first
    MissingReason.WARMING: 5.0,  # something is fetched and indexed
}


class Unserved(Unavailable):
    """Every repository that was asked for is missing."""

    def __init__(self, missing: Sequence[Missing]) -> None:
        super().__init__(_message(missing))
        self.missing = tuple(missing)
        self.retry_after_s = min(
            (RETRY_AFTER_S[each.why] for each in missing), default=RETRY_AFTER_S[MissingReason.FAILED]
        )


class Overloaded(Unavailable):
    """More is asked at once than this front door takes on."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def _message(missing: Sequence[Missing]) -> str:
    counts = Counter(each.why for each in missing)
    reasons = ", ".join(f"{count} {why.value}" for why, count in counts.most_common())
    examples = "; ".join(f"{each.repository}: {each.detail or each.why.value}" for each in missing[:EXAMPLES_MAX])
    return f"none of the {len(missing)} repositories asked for can be searched just now ({reasons}): {examples}"
