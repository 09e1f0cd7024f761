"""An invalid job is rejected before it is sent, with the name of the invalid field."""

from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.jobs import JobsClient, new_job
from argosy.jobs.api import codec
from argosy.jobs.model import ConcurrencyLimit, FloatingLimit, NewJob, RateLimit, RateLimitRetry, RetryPolicy
from argosy.jobs.sdk.validation import DELAY_S_MAX, check_new_job, start_at_ms
from argosy.jobs.shard.validation import TIME_MS_MAX

UINT32_MAX = 2**32 - 1


def rate(**changes: Any) -> tuple[RateLimit]:
    return (RateLimit(**{"name": "n", "unique_key": "u", "limit": 1, "duration_ms": 1, **changes}),)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"priority": -1}, "priority must lie between 0 and 99; got -1"),
        ({"priority": 1.5}, "priority must be a whole number; got 1.5"),
        ({"priority": True}, "priority must be a whole number; got True"),
        ({"priority": None}, "priority must be a whole number; got None"),
        ({"start_at_ms": 1 << 70}, f"start_at_ms must lie between {-TIME_MS_MAX} and {TIME_MS_MAX}"),
        ({"start_at_ms": -1 << 70}, f"start_at_ms must lie between {-TIME_MS_MAX} and {TIME_MS_MAX}"),
        ({"unique_for_ms": -1}, "unique_for_ms must lie between 0 and"),
        ({"retention_ms": 1 << 70}, "retention_ms must lie between 0 and"),
        ({"id": 7}, "id must be text; got 7"),
        ({"id": "\ud800"}, "job id must be valid Unicode"),
        ({"tenant": 7}, "tenant must be text; got 7"),
        ({"payload": "text"}, "payload must be bytes; got 'text'"),
        ({"metadata": {"a": 1}}, "metadata must be a mapping of text to text; got {'a': 1}"),
        ({"metadata": [("a", "b")]}, "metadata must be a mapping of text to text"),
        ({"metadata": None}, "metadata must be a mapping of text to text; got None"),
        ({"after": "job-1"}, "after must be a sequence of job ids; got 'job-1'"),
        ({"after": (1,)}, "after must be a sequence of job ids"),
        ({"retry": {"retry_count": 1}}, "retry must be a RetryPolicy or None"),
        ({"retry": RetryPolicy(-1)}, f"retry_count must lie between 0 and {UINT32_MAX}; got -1"),
        ({"retry": RetryPolicy(1 << 32)}, f"retry_count must lie between 0 and {UINT32_MAX}"),
        ({"retry": RetryPolicy(1, -1)}, "initial_interval_ms must lie between 0 and"),
        ({"retry": RetryPolicy(1, 1, 1 << 70)}, "max_interval_ms must lie between 0 and"),
        ({"retry": RetryPolicy(1, backoff_factor=float("nan"))}, "backoff_factor must lie between 0 and a million"),
        ({"retry": RetryPolicy(1, backoff_factor="2")}, "backoff_factor must be a number; got '2'"),    # type: ignore[arg-type]
        ({"retry": RetryPolicy(1, randomize_interval="no")}, "randomize_interval must be true or false"),   # type: ignore[arg-type]
        ({"limits": None}, "limits must be a sequence of limits; got None"),
        ({"limits": ("api",)}, "limits must be a sequence of limits"),
        ({"limits": (ConcurrencyLimit("a", -1),)}, f"max_concurrency must lie between 1 and {UINT32_MAX}; got -1"),
        ({"limits": (ConcurrencyLimit("a", 1 << 32),)}, f"max_concurrency must lie between 1 and {UINT32_MAX}"),
        ({"limits": (FloatingLimit("a", -1, 1),)}, "default_max_concurrency must lie between 0 and"),
        ({"limits": (FloatingLimit("a", 1, -1),)}, "refresh_interval_ms must lie between 0 and"),
        ({"limits": (FloatingLimit("a", 1, 1, {"a": 1}),)}, "a limit's metadata must be a mapping"),    # type: ignore[dict-item]
        ({"limits": rate(hits=1 << 31)}, "hits must lie between -2147483648 and 2147483647"),
        ({"limits": rate(behavior=1 << 31)}, "behavior must lie between"),
        ({"limits": rate(algorithm=1 << 40)}, "algorithm must lie between"),
        ({"limits": rate(limit=1 << 70)}, "limit must lie between"),
        ({"limits": rate(retry=RateLimitRetry(max_retries=-1))}, "max_retries must lie between 0 and"),
        ({"limits": rate(retry=None)}, "retry must be a RateLimitRetry; got None"),
    ],
)  # fmt: skip
def test_an_invalid_field_is_reported_with_its_bounds(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as raised:
        check_new_job(NewJob("mail", **options))
    assert message in str(raised.value)


def test_the_error_about_a_large_value_is_short() -> None:
    with pytest.raises(Invalid) as raised:
        check_new_job(NewJob("mail", payload="x" * 1_000_000))  # type: ignore[arg-type]
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    "options",
    [
        {"priority": np.int64(4), "start_at_ms": -1},
        {"metadata": MappingProxyType({"a": "b"}), "after": ["before"], "limits": [ConcurrencyLimit("a", UINT32_MAX)]},
        {"retry": RetryPolicy(UINT32_MAX, backoff_factor=2)},
        {"limits": rate(hits=-(1 << 31), behavior=(1 << 31) - 1, algorithm=1)},
    ],
)
def test_every_encodable_value_is_accepted(options: dict[str, Any]) -> None:
    job = NewJob("mail", **options)
    check_new_job(job)
    assert codec.to_new_job(job).task_group == "mail"


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**33), 2**33), st.floats(), st.text(), st.binary(),
    st.lists(st.one_of(st.integers(), st.text())), st.dictionaries(st.text(), st.one_of(st.text(), st.integers())),
)  # fmt: skip


def some_of(part: type[msgspec.Struct]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(part.__struct_fields__), ANYTHING, max_size=3)


@given(some_of(NewJob), some_of(RetryPolicy), some_of(RateLimit))
def test_every_accepted_job_can_be_encoded(
    of_job: dict[str, Any], of_retry: dict[str, Any], of_limit: dict[str, Any]
) -> None:
    job = NewJob(**{"task_group": "mail", "retry": RetryPolicy(**of_retry), "limits": rate(**of_limit), **of_job})
    try:
        check_new_job(job)
    except Invalid:
        return
    assert codec.to_new_job(job).ByteSize() >= 0


@pytest.mark.parametrize("delay_s", [float("nan"), float("inf"), float("-inf"), 1e300, "5", None, Decimal(5)])
def test_a_delay_must_be_a_finite_bounded_number(delay_s: Any) -> None:
    with pytest.raises(Invalid, match=f"delay_s must be a number of seconds, at most {DELAY_S_MAX}; got"):
        start_at_ms(delay_s, 1e9)


def test_a_delay_is_added_to_the_current_time() -> None:
    assert start_at_ms(1.5, 1e9) == 10**12 + 1500
    assert start_at_ms(DELAY_S_MAX, 1e9) <= TIME_MS_MAX


async def test_a_client_rejects_invalid_jobs_before_any_call(client: JobsClient) -> None:
    for options in ({"priority": -1}, {"delay_s": float("nan")}, {"start_at_ms": 1 << 70}, {"metadata": {"a": 1}}):
        with pytest.raises(Invalid, match=str(next(iter(options)))):
            await client.enqueue("mail", **options)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="priority"):
        await client.put_schedule("nightly", "0 3 * * *", "mail", priority=-1)
    with pytest.raises(Invalid, match="limit must lie between 1 and 1000; got 0"):
        await client.find(limit=0)
    assert await client.find() == []


async def test_the_valid_jobs_of_a_batch_are_enqueued(client: JobsClient) -> None:
    jobs = [new_job("mail", id="a"), new_job("mail", retry=RetryPolicy(-1)), new_job("mail", id="c")]
    first, second, third = await client.enqueue_many(jobs)
    assert isinstance(second, Invalid)
    assert {info.id for info in await client.find()} == {"a", "c"}
    assert [getattr(each, "id", None) for each in (first, third)] == ["a", "c"]
