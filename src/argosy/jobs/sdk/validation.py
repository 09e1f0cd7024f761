"""Validation of jobs before they are encoded: Invalid with the field and what is allowed there.

The bounds are those of the shard, which checks them again for clients without an SDK. Checked only here are the types
of Python's values and the widths of the protocol's numbers: protobuf rejects both too, with errors that name no field.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from numbers import Integral, Real
from reprlib import repr as brief
from types import UnionType

import msgspec

from argosy.base.errors import Invalid
from argosy.jobs.model import FloatingLimit, Limit, NewJob, RateLimit, RateLimitRetry, RetryPolicy
from argosy.jobs.shard.validation import TIME_MS_MAX, check_job, check_number

DELAY_S_MAX = TIME_MS_MAX // 2000  # half of all times: now plus the delay is still within TIME_MS_MAX

_UINT32 = (0, 2**32 - 1)
_INT32 = (-(2**31), 2**31 - 1)
# Fields for which the shard allows more than the protocol's number can hold; the shard bounds all others more narrowly.
_WIDTHS = {
    "start_at_ms": (-TIME_MS_MAX, TIME_MS_MAX),
    "retry_count": _UINT32,
    "max_retries": _UINT32,
    "max_concurrency": (1, _UINT32[1]),
    "default_max_concurrency": _UINT32,
    "hits": _INT32,
    "algorithm": _INT32,
    "behavior": _INT32,
}
_KINDS: dict[type, tuple[type, str]] = {
    str: (str, "text"),
    bytes: (bytes, "bytes"),
    bool: (Integral, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
}


def find_error(job: NewJob) -> Invalid | None:
    """The error of one job of many, if it has one."""
    try:
        check_new_job(job)
    except Invalid as error:
        return error
    return None


def check_new_job(job: NewJob) -> None:
    """Raises Invalid with the field and what is allowed there."""
    for part in _parts(job):
        for name, kind in _scalars(type(part)):
            value = getattr(part, name)
            if type(value) is not kind:  # the common case first; numpy's numbers, for example, pass the second check
                _check_kind(name, value, kind)
            if name in _WIDTHS:
                least, most = _WIDTHS[name]
                check_number(name, value, most, least)
    # After the types: it compares and measures the values.
    check_job(job)


def _check_kind(name: str, value: object, kind: type) -> None:
    wanted, words = _KINDS[kind]
    _expect(isinstance(value, wanted) and not isinstance(value, bool), name, words, value)


def start_at_ms(delay_s: float, now_s: float) -> int:
    """The start of a job with a delay."""
    if not isinstance(delay_s, Real) or not -DELAY_S_MAX <= delay_s <= DELAY_S_MAX:
        raise Invalid(f"delay_s must be a number of seconds, at most {DELAY_S_MAX}; got {delay_s!r}")
    return int((now_s + delay_s) * 1000)


@cache
def _scalars(part: type[msgspec.Struct]) -> tuple[tuple[str, type], ...]:
    return tuple((each.name, each.type) for each in msgspec.structs.fields(part) if each.type in _KINDS)


def _parts(job: NewJob) -> Iterator[msgspec.Struct]:
    """The job and its nested structs; raises Invalid if one has another type."""
    yield job
    if job.retry is not None:
        _expect(isinstance(job.retry, RetryPolicy), "retry", "a RetryPolicy or None", job.retry)
        yield job.retry
    _check_texts("metadata", job.metadata)
    _expect(_is_collection_of(job.after, str), "after", "a sequence of job ids", job.after)
    _expect(_is_collection_of(job.limits, Limit), "limits", "a sequence of limits", job.limits)
    for limit in job.limits:
        yield limit
        match limit:
            case RateLimit():
                is_fit = isinstance(limit.retry, RateLimitRetry)
                _expect(is_fit, "a rate limit's retry", "a RateLimitRetry", limit.retry)
                yield limit.retry
            case FloatingLimit():
                _check_texts("a limit's metadata", limit.metadata)


def _is_collection_of(values: object, kind: type | UnionType) -> bool:
    """Whether the values are a collection of the kind. A str is a collection of str too, and never meant as one."""
    if values == ():
        return True
    is_many = isinstance(values, Collection) and not isinstance(values, str | bytes)
    return is_many and all(isinstance(value, kind) for value in values)  # type: ignore[attr-defined]


def _check_texts(name: str, pairs: object) -> None:
    is_fit = pairs == {} or (
        isinstance(pairs, Mapping)
        and all(isinstance(key, str) and isinstance(value, str) for key, value in pairs.items())
    )
    _expect(is_fit, name, "a mapping of text to text", pairs)


def _expect(is_fit: bool, name: str, words: str, value: object) -> None:
    if not is_fit:
        raise Invalid(f"{name} must be {words}; got {brief(value)}")
