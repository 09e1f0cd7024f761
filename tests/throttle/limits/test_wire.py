"""JSON as Gubernator's gateway reads and writes it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.throttle.limits import wire
from argosy.throttle.limits.model import Algorithm, Behavior, RateLimitRequest, RateLimitResponse, Status

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"))


def read_one(**row: Any) -> RateLimitRequest:
    (found,) = wire.read_requests(json.dumps({"requests": [row]}).encode())
    return found


def test_a_request_is_read_by_the_names_of_the_protobuf_file() -> None:
    assert read_one(
        name="requests_per_sec",
        unique_key="account:12345",
        hits="1",
        limit="10",
        duration="1000",
        algorithm="LEAKY_BUCKET",
        behavior="DRAIN_OVER_LIMIT",
        burst="20",
        metadata={"a": "b"},
        created_at="1700000000000",
    ) == RateLimitRequest("requests_per_sec", "account:12345", 1, 10, 1000, 1, 32, 20, {"a": "b"}, 1_700_000_000_000)


def test_a_request_is_read_in_camel_case_and_with_numbers() -> None:
    assert read_one(name="n", uniqueKey="k", hits=1, limit=10.0, duration=1e3, createdAt=5) == RateLimitRequest(
        "n", "k", 1, 10, 1000, created_at=5
    )


def test_missing_null_and_unknown_fields_are_ignored() -> None:
    assert read_one(hits=None, metadata=None, surprise={"deep": [1]}) == RateLimitRequest("", "")


@pytest.mark.parametrize(
    ("given", "flags"),
    [("GLOBAL", 2), (40, 40), ("BATCHING", 0), (0, 0), ("RESET_REMAINING", Behavior.RESET_REMAINING), (-1, -1)],
)
def test_behaviour_is_a_name_or_any_set_of_flags(given: Any, flags: int) -> None:
    assert read_one(behavior=given).behavior == flags


def test_an_unknown_algorithm_is_parsed_and_rejected_later() -> None:
    assert read_one(algorithm=7).algorithm == 7
    assert read_one(algorithm="TOKEN_BUCKET").algorithm == Algorithm.TOKEN_BUCKET


@pytest.mark.parametrize("number", ["9223372036854775807", 2**63 - 1, "-9223372036854775808", "-0", "007"])
def test_64_bits_are_read_exactly(number: Any) -> None:
    assert read_one(hits=number).hits == int(number)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"hits": "ten"}, "hits must be a 64-bit whole number, not 'ten'"),
        ({"hits": "1_0"}, "hits must be a 64-bit whole number"),
        ({"hits": " 1"}, "hits must be a 64-bit whole number"),
        ({"hits": 1.5}, "hits must be a 64-bit whole number, not '1.5'"),
        ({"hits": 2**63}, "hits must be a 64-bit whole number"),
        ({"hits": "9" * 4000}, "hits must be a 64-bit whole number"),
        ({"hits": True}, "hits must be a 64-bit whole number"),
        ({"hits": []}, "hits must be a 64-bit whole number"),
        ({"name": 5}, "name must be a string"),
        ({"algorithm": "BUCKET"}, "invalid algorithm 'BUCKET'; use a number or one of TOKEN_BUCKET, LEAKY_BUCKET"),
        ({"behavior": "GLOBAL|GLOBAL"}, "invalid behavior"),
        ({"behavior": 2**31}, "invalid behavior"),
        ({"behavior": True}, "invalid behavior"),
        ({"metadata": {"a": 1}}, "metadata must be an object of strings"),
        ({"metadata": []}, "metadata must be an object of strings"),
        ({"unique_key": "a", "uniqueKey": "b"}, "unique_key is given twice"),
    ],
)
def test_an_unreadable_body_is_reported(row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Invalid) as raised:
        read_one(**row)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"{", "is not valid JSON"),
        (b"[]", "expected an object"),
        (b'"text"', "expected an object"),
        (b'{"requests": {}}', "requests must be a list"),
        (b'{"requests": [1]}', "expected an object"),
        (b'{"requests": [null]}', "expected an object"),
        (b"[" * 100_000, "request body is"),
        (b"\xff", "is not valid JSON"),
    ],
)
def test_a_body_that_is_no_batch_is_reported(body: bytes, complaint: str) -> None:
    with pytest.raises(Invalid) as raised:
        wire.read_requests(body)
    assert complaint in str(raised.value)


@pytest.mark.parametrize("body", [b"", b"  \n", b"{}", b'{"requests": null}', b'{"requests": []}', b'{"other": 1}'])
def test_an_empty_batch_may_be_spelled_in_many_ways(body: bytes) -> None:
    assert wire.read_requests(body) == []


def test_answers_are_written_with_every_field_and_64_bit_numbers_as_texts() -> None:
    responses = [RateLimitResponse(Status.OVER_LIMIT, 10, 7, 1_700_000_000_000), RateLimitResponse(error="wrong")]
    assert json.loads(wire.write_responses(responses)) == {
        "responses": [
            {
                "status": "OVER_LIMIT",
                "limit": "10",
                "remaining": "7",
                "reset_time": "1700000000000",
                "error": "",
                "metadata": {},
            },
            {
                "status": "UNDER_LIMIT",
                "limit": "0",
                "remaining": "0",
                "reset_time": "0",
                "error": "wrong",
                "metadata": {},
            },
        ]
    }


def test_a_request_without_a_time_is_written_without_one() -> None:
    (row,) = json.loads(wire.write_requests([RateLimitRequest("n", "k", 1, 10, 1000)]))["requests"]
    assert "created_at" not in row
    assert (row["unique_key"], row["hits"]) == ("k", "1")


@given(
    st.lists(
        st.builds(
            RateLimitRequest,
            TEXTS,
            TEXTS,
            INT64,
            INT64,
            INT64,
            st.sampled_from([0, 1]),
            st.integers(0, 255),
            INT64,
            st.dictionaries(TEXTS, TEXTS, max_size=2),
            INT64,
        ),
        max_size=5,
    )
)
def test_requests_are_read_back_as_written(requests: list[RateLimitRequest]) -> None:
    assert wire.read_requests(wire.write_requests(requests)) == requests


@given(st.lists(st.builds(RateLimitResponse, st.sampled_from(Status), INT64, INT64, INT64, TEXTS), max_size=5))
def test_answers_are_read_back_as_written(responses: list[RateLimitResponse]) -> None:
    assert wire.read_responses(wire.write_responses(responses)) == responses


@pytest.mark.parametrize(
    ("body", "text"),
    [(wire.write_error(3, "why"), "why"), (b"<html>", "<html>"), (b'{"message": 5}', '{"message": 5}'), (b"[]", "[]")],
)
def test_the_text_of_an_error_is_extracted_or_truncated(body: bytes, text: str) -> None:
    assert wire.read_error(body) == text
