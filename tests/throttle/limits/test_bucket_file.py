"""A bucket as a line of text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.throttle.limits.backends.sqlite import decode_bucket, encode_bucket
from argosy.throttle.limits.buckets import Bucket, LeakyBucket, TokenBucket
from argosy.throttle.limits.model import Status

NUMBERS = st.integers(-(2**53), 2**53)


def test_a_line_can_be_read_by_people() -> None:
    assert encode_bucket(TokenBucket(10, 1000, 7, 1, 1001, Status.OVER_LIMIT)) == "T 10 1000 7 1 1001 1"
    assert encode_bucket(LeakyBucket(10, 7.5, 1, 1001)) == "L 10 7.5 1 1001"


@given(
    st.builds(TokenBucket, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.sampled_from(Status))
    | st.builds(LeakyBucket, NUMBERS, st.floats(allow_nan=False), NUMBERS, NUMBERS)
)
def test_rows_round_trip_unchanged(bucket: Bucket) -> None:
    again = decode_bucket(encode_bucket(bucket))
    assert again == bucket
    assert type(again) is type(bucket)


@pytest.mark.parametrize(
    "line",
    ["", "T", "T 1 2 3", "L 1 2.5 3", "X 1 2 3 4", "T 1 2 3 4 5 six", "T 1 2 3 4 5 6", "L 1 2 3 4 5"],
)
def test_any_other_line_is_refused(line: str) -> None:
    with pytest.raises(Invalid, match="invalid bucket"):
        decode_bucket(line)
