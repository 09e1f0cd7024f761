"""Conversion between protobuf messages and the model."""

from collections.abc import Sequence

from argosy.base.errors import Unavailable
from argosy.throttle.limits.gubernator import gubernator_pb2 as pb
from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse, Status

SERVICE = "pb.gubernator.V1"
MESSAGE_BYTES_MAX = 4 << 20  # a full batch of the longest keys takes 2.2 MB


def to_batch(requests: Sequence[RateLimitRequest]) -> pb.GetRateLimitsReq:
    return pb.GetRateLimitsReq(requests=[_to_message(request) for request in requests])


def from_batch(batch: pb.GetRateLimitsReq) -> list[RateLimitRequest]:
    return [
        RateLimitRequest(
            name=each.name,
            unique_key=each.unique_key,
            hits=each.hits,
            limit=each.limit,
            duration=each.duration,
            algorithm=each.algorithm,
            behavior=each.behavior,
            burst=each.burst,
            metadata=dict(each.metadata),
            created_at=each.created_at,  # 0 if it is not set, which means the same
        )
        for each in batch.requests
    ]


def to_answers(responses: Sequence[RateLimitResponse]) -> pb.GetRateLimitsResp:
    return pb.GetRateLimitsResp(
        responses=[
            pb.RateLimitResp(
                status=each.status,
                limit=each.limit,
                remaining=each.remaining,
                reset_time=each.reset_time,
                error=each.error,
                metadata=each.metadata,
            )
            for each in responses
        ]
    )


def from_answers(answers: pb.GetRateLimitsResp) -> list[RateLimitResponse]:
    """Raises Unavailable for a status that Gubernator does not have."""
    return [
        RateLimitResponse(
            _status(each.status), each.limit, each.remaining, each.reset_time, each.error, dict(each.metadata)
        )
        for each in answers.responses
    ]


def _status(number: int) -> Status:
    try:
        return Status(number)
    except ValueError:
        raise Unavailable(f"the server is not a Gubernator: unknown status {number}") from None


def _to_message(request: RateLimitRequest) -> pb.RateLimitReq:
    return pb.RateLimitReq(
        name=request.name,
        unique_key=request.unique_key,
        hits=request.hits,
        limit=request.limit,
        duration=request.duration,
        algorithm=int(request.algorithm),
        behavior=int(request.behavior),
        burst=request.burst,
        metadata=request.metadata,
        created_at=request.created_at or None,
    )
