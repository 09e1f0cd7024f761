"""Validation of what clients send: every bound on a job is checked here, before anything changes."""

from collections.abc import Mapping

from argosy.base.errors import Invalid
from argosy.jobs.model import (
    GROUP_CHARS_MAX,
    JOB_ID_CHARS_MAX,
    LIMITS_MAX,
    METADATA_KEY_CHARS_MAX,
    METADATA_PAIRS_MAX,
    METADATA_VALUE_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    PRIORITY_MAX,
    TENANT_CHARS_MAX,
    ConcurrencyLimit,
    FloatingLimit,
    Limit,
    NewJob,
    RateLimit,
    RetryPolicy,
)
from argosy.jobs.shard.rows import encode
from argosy.throttle.limits.model import NUMBER_MAX

# Both are parts of keys, which must be short.
LIMIT_KEY_CHARS_MAX = 256
UNIQUE_KEY_CHARS_MAX = 256
LIMITS_BYTES_MAX = 16 << 10  # of all limits of a job: each step of the limit chain writes them again
AFTER_MAX = 100  # dependencies of one job
TIME_MS_MAX = 1 << 53  # 2^53: every client language represents such times exactly
# The protocol's numbers have 32 bits; the SDK checks their exact width.
RETRIES_MAX = 1 << 32
# A W3C traceparent has 55 characters; later versions may be longer.
TRACE_CHARS_MAX = 256
SMALL_TEXT_CHARS_MAX = 4096


def check_job(new: NewJob) -> None:
    """Raises Invalid with the field and its bounds.

    Every text is part of a key and every number is stored for the life of the job, so each has a bound.
    """
    check_text("tenant", new.tenant, TENANT_CHARS_MAX)
    check_text("task_group", new.task_group, GROUP_CHARS_MAX)
    check_text("job id", new.id, JOB_ID_CHARS_MAX, may_be_empty=True)
    check_text("unique_key", new.unique_key, UNIQUE_KEY_CHARS_MAX, may_be_empty=True)
    check_text("trace", new.trace, TRACE_CHARS_MAX, may_be_empty=True)
    check_number("priority", new.priority, PRIORITY_MAX)
    for name, ms in (("unique_for_ms", new.unique_for_ms), ("retention_ms", new.retention_ms)):
        check_number(name, ms, TIME_MS_MAX)
    if new.start_at_ms > TIME_MS_MAX:
        raise Invalid(f"start_at_ms may be at most {TIME_MS_MAX}; got {new.start_at_ms}")
    if len(new.payload) > PAYLOAD_BYTES_MAX:
        raise Invalid(
            f"a payload may have {PAYLOAD_BYTES_MAX} bytes; got {len(new.payload)}: keep it elsewhere, send its address"
        )
    if new.retry is not None:
        _check_retry(new.retry)
    _check_limits(new.limits)
    check_metadata(new.metadata)
    _check_after(new)


def check_text(name: str, text: str, chars_max: int, *, may_be_empty: bool = False) -> None:
    if not text and not may_be_empty:
        raise Invalid(f"{name} must not be empty")
    if len(text) > chars_max:
        raise Invalid(f"{name} may have {chars_max} characters; got {len(text)}")
    try:
        text.encode()  # Python's str may have lone surrogates, which no key, message or other language can have
    except UnicodeEncodeError:
        raise Invalid(f"{name} must be valid Unicode; got {text!r}") from None


def check_number(name: str, number: int, most: int, least: int = 0) -> None:
    if not least <= number <= most:
        raise Invalid(f"{name} must lie between {least} and {most}; got {number}")


def check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > METADATA_PAIRS_MAX:
        raise Invalid(f"a job may have {METADATA_PAIRS_MAX} pairs of metadata; got {len(metadata)}")
    for key, value in metadata.items():
        check_text("a metadata key", key, METADATA_KEY_CHARS_MAX)
        check_text(f"the metadata value of {key!r}", value, METADATA_VALUE_BYTES_MAX, may_be_empty=True)
        if len(value.encode()) > METADATA_VALUE_BYTES_MAX:
            raise Invalid(f"the metadata value of {key!r} may have {METADATA_VALUE_BYTES_MAX} bytes")


def _check_retry(retry: RetryPolicy) -> None:
    check_number("retry_count", retry.retry_count, RETRIES_MAX)
    check_number("initial_interval_ms", retry.initial_interval_ms, TIME_MS_MAX)
    check_number("max_interval_ms", retry.max_interval_ms, TIME_MS_MAX)
    if not 0 <= retry.backoff_factor < 1e6:  # written so that NaN is rejected, too
        raise Invalid(f"backoff_factor must lie between 0 and a million; got {retry.backoff_factor}")


def _check_limits(limits: tuple[Limit, ...]) -> None:
    if len(limits) > LIMITS_MAX:
        raise Invalid(f"a job may have {LIMITS_MAX} limits; got {len(limits)}")
    for limit in limits:
        _check_limit(limit)
    if len(encode(limits)) > LIMITS_BYTES_MAX:
        raise Invalid(f"the limits of a job may take {LIMITS_BYTES_MAX} bytes; got {len(encode(limits))}")


def _check_limit(limit: Limit) -> None:
    match limit:
        case ConcurrencyLimit():
            check_text("a limit's key", limit.key, LIMIT_KEY_CHARS_MAX)
            check_number("max_concurrency", limit.max_concurrency, RETRIES_MAX, least=1)
        case FloatingLimit():
            check_text("a limit's key", limit.key, LIMIT_KEY_CHARS_MAX)
            check_number("default_max_concurrency", limit.default_max_concurrency, RETRIES_MAX)
            check_number("refresh_interval_ms", limit.refresh_interval_ms, TIME_MS_MAX)
            check_metadata(limit.metadata)
        case RateLimit():
            _check_rate(limit)


def _check_rate(limit: RateLimit) -> None:
    check_text("a rate limit's name", limit.name, SMALL_TEXT_CHARS_MAX)
    check_text("a rate limit's unique_key", limit.unique_key, SMALL_TEXT_CHARS_MAX)
    for name in ("limit", "duration_ms", "hits", "algorithm", "behavior"):
        check_number(f"a rate limit's {name}", getattr(limit, name), NUMBER_MAX, least=-NUMBER_MAX)
    check_number("initial_backoff_ms", limit.retry.initial_backoff_ms, TIME_MS_MAX)
    check_number("max_backoff_ms", limit.retry.max_backoff_ms, TIME_MS_MAX)
    check_number("max_retries", limit.retry.max_retries, RETRIES_MAX)
    if not 0 <= limit.retry.backoff_multiplier < 1e6:
        raise Invalid(f"backoff_multiplier must lie between 0 and a million; got {limit.retry.backoff_multiplier}")


def _check_after(new: NewJob) -> None:
    if len(new.after) > AFTER_MAX:
        raise Invalid(f"a job may run after {AFTER_MAX} others; got {len(new.after)}")
    for job in new.after:
        check_text("a job to run after", job, JOB_ID_CHARS_MAX)
    if new.id and new.id in new.after:
        raise Invalid(f"job {new.id} cannot run after itself")
