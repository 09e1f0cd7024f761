"""Delays before retries.

The delay after the first failure is already `initial_interval_ms` times the factor, and a longest interval of 0 means
no delay at all: clients of silo.v1 observe it so and have tuned their policies to it.
"""

from argosy.base.clock import Random
from argosy.jobs.model import RateLimitRetry, RetryPolicy

DELAY_MS_MAX = 10 * 365 * 86_400_000  # ten years: longer than any policy, and no number overflows


def delay_ms(policy: RetryPolicy | None, failed: int, random: Random) -> int | None:
    """The delay after the failed attempt (1 is the first since the last restart); None if it was the last."""
    if policy is None or failed > policy.retry_count:
        return None
    delay = _backoff_ms(policy.initial_interval_ms, policy.backoff_factor, failed)
    if policy.randomize_interval:
        delay *= 1 + random.random()
    return max(0, min(int(delay + 0.5), policy.max_interval_ms))


def rate_delay_ms(retry: RateLimitRetry, tries: int) -> int:
    """The delay of a job over its rate that was checked `tries` times before."""
    delay = int(_backoff_ms(retry.initial_backoff_ms, retry.backoff_multiplier, tries) + 0.5)
    return max(1, min(delay, retry.max_backoff_ms))


def is_last(policy: RetryPolicy | None, relative_attempt: int) -> bool:
    return policy is None or relative_attempt > policy.retry_count


def _backoff_ms(first_ms: int, factor: float, times: int) -> float:
    try:
        return min(float(DELAY_MS_MAX), first_ms * factor**times)
    except OverflowError:
        return float(DELAY_MS_MAX)
