"""The small parts of the SDK: packing, the map, slots, batches, handlers."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from argosy.base.errors import Conflict, Forbidden, Invalid, NotFound, NotOwner, Throttled, Unauthorized, Unavailable
from argosy.jobs.model import PAYLOAD_BYTES_MAX
from argosy.jobs.ports import ClusterMember, ShardInfo
from argosy.jobs.sdk.client import middle, url_of
from argosy.jobs.sdk.codec import pack, unpack
from argosy.jobs.sdk.errors import error_from_status, is_retryable
from argosy.jobs.sdk.flow_control import FLUSHES_MAX, ITEMS_MAX, Batcher, WorkerSlots
from argosy.jobs.sdk.handlers import (
    HANDLER_ERROR,
    MESSAGE_CHARS_MAX,
    TRACEBACK_CHARS_MAX,
    failure_of,
    find_marked,
    handler_of,
    job,
)
from argosy.jobs.sdk.router import RoutingTable

HALF = "8" + "0" * 15


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, "ü"]}, 0, "", [], -1, True])
def test_packed_values_round_trip(value: object) -> None:
    assert unpack(pack(value)) == value


def test_bytes_stay_bytes_and_empty_is_none() -> None:
    assert pack(b"\xc1 raw") == b"\xc1 raw"
    assert unpack(b"\xc1 raw") == b"\xc1 raw"
    assert pack(None) == b""
    assert unpack(b"") is None


def test_unencodable_and_oversized_values_are_rejected() -> None:
    with pytest.raises(Invalid, match="cannot encode the value"):
        pack(object())
    with pytest.raises(Invalid, match=str(PAYLOAD_BYTES_MAX)):
        pack(b"x" * (PAYLOAD_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("INVALID_ARGUMENT", "no", Invalid),
        ("UNIMPLEMENTED", "no", Invalid),
        ("UNAUTHENTICATED", "who", Unauthorized),
        ("PERMISSION_DENIED", "no", Forbidden),
        ("NOT_FOUND", "job not found", NotFound),
        ("NOT_FOUND", "shard not found", NotOwner),
        ("ALREADY_EXISTS", "taken", Conflict),
        ("FAILED_PRECONDITION", "done", Conflict),
        ("FAILED_PRECONDITION", "tenant 'x' is elsewhere; refresh topology and retry", NotOwner),
        ("RESOURCE_EXHAUSTED", "slower", Throttled),
        ("UNAVAILABLE", "away", Unavailable),
        ("DEADLINE_EXCEEDED", "late", Unavailable),
        ("INTERNAL", "RST_STREAM", Unavailable),
    ],
)
def test_a_status_code_maps_to_an_error_kind(code: str, message: str, kind: type[Exception]) -> None:
    error = error_from_status(code, message)
    assert type(error) is kind
    assert is_retryable(error) == (kind in (NotOwner, Throttled, Unavailable))


def two_shards() -> RoutingTable:
    places = [ShardInfo("right", HALF, "", "n2", "b:1"), ShardInfo("left", "", HALF, "n1", "a:1")]
    return RoutingTable(places, [ClusterMember("n1", "a:1"), ClusterMember("n2", "b:1")])


def test_a_tenant_is_in_the_shard_of_its_hash() -> None:
    shards = two_shards()
    assert shards.shard_of("-").id == "left"  # 7a16…
    assert shards.shard_of("").id == "right"  # ef46…
    assert shards.addresses() == ["a:1", "b:1"]


def test_a_hint_moves_one_shard_without_changing_the_old_map() -> None:
    before = two_shards()
    after = before.with_address("left", "c:1")
    assert after.by_id("left").address == "c:1"
    assert after.by_id("right") == before.by_id("right")
    assert before.by_id("left").address == "a:1"


def test_a_shard_missing_in_the_map_is_reported() -> None:
    with pytest.raises(NotFound, match="shard nowhere not found"):
        two_shards().by_id("nowhere")
    with pytest.raises(Unavailable, match="no shards yet"):
        RoutingTable([], []).shard_of("-")


def test_the_default_split_point_is_the_middle_and_a_single_hash_is_rejected() -> None:
    assert middle(ShardInfo("all")) == HALF
    assert middle(ShardInfo("left", "", HALF)) == "4" + "0" * 15
    with pytest.raises(Invalid, match="a single hash"):
        middle(ShardInfo("thin", "0" * 16, "0" * 15 + "1"))


def test_a_path_becomes_a_url_and_a_url_is_unchanged() -> None:
    assert url_of("/a b") == "file:///a%20b"
    assert url_of("memory://") == "memory://"


async def test_slots_are_granted_in_waiting_order() -> None:
    slots = WorkerSlots(2)
    assert await slots.acquire(5) == 2
    first, second = asyncio.ensure_future(slots.acquire(5)), asyncio.ensure_future(slots.acquire(1))
    await asyncio.sleep(0)
    slots.release(1)
    assert await first == 1
    assert not second.done()
    slots.release(1)
    assert await second == 1
    assert slots.in_use == 2


async def test_a_slot_granted_to_a_cancelled_waiter_is_not_lost() -> None:
    slots = WorkerSlots(1)
    await slots.acquire(1)
    cancelled, next_one = asyncio.ensure_future(slots.acquire(1)), asyncio.ensure_future(slots.acquire(1))
    await asyncio.sleep(0)
    slots.release(1)
    cancelled.cancel()  # between being handed the slot and running
    assert await next_one == 1


async def test_closing_slots_releases_every_waiter() -> None:
    slots = WorkerSlots(1)
    await slots.acquire(1)
    waiting = asyncio.ensure_future(slots.acquire(1))
    await asyncio.sleep(0)
    slots.close()
    assert await waiting == 0
    slots.release(1)
    assert (await slots.acquire(1), slots.in_use) == (0, 0)


async def test_concurrent_items_share_a_flush_and_get_their_own_results() -> None:
    flushes: list[int] = []

    async def flush(items: Sequence[int]) -> list[int | Exception]:
        flushes.append(len(items))
        return [Conflict(f"{item} is odd") if item % 2 else item * 10 for item in items]

    batcher: Batcher[int, int] = Batcher(flush)
    answers = await asyncio.gather(*(batcher.add(item) for item in range(ITEMS_MAX + 4)), return_exceptions=True)
    assert answers[:1] + answers[2:3] == [0, 20]
    assert isinstance(answers[3], Conflict)
    assert sum(flushes) == ITEMS_MAX + 4
    assert len(flushes) <= 5


async def test_an_item_added_while_the_last_result_is_delivered_is_flushed() -> None:
    """A run that counts itself one step too long would strand an item added in the step in which it ends."""

    async def flush(items: Sequence[int]) -> list[int | Exception]:
        return list(items)

    batcher: Batcher[int, int] = Batcher(flush)

    async def submit_sequentially(count: int) -> int:
        return sum([await batcher.add(1) for _ in range(count)])

    async with asyncio.timeout(20):
        assert await asyncio.gather(*(submit_sequentially(50) for _ in range(FLUSHES_MAX))) == [50] * FLUSHES_MAX


async def test_a_failed_flush_fails_its_items_and_no_later_ones() -> None:
    failures = [Unavailable("away")]

    async def flush(items: Sequence[int]) -> list[int | Exception]:
        if failures:
            raise failures.pop()
        return list(items)

    batcher: Batcher[int, int] = Batcher(flush)
    with pytest.raises(Unavailable):
        await batcher.add(1)
    assert await batcher.add(2) == 2


def test_the_kind_of_a_handler_is_read_from_its_signature() -> None:
    async def asynchronous(payload: object) -> None: ...

    def ordinary(payload: object, context: object) -> None: ...

    first, second = handler_of("a", asynchronous), handler_of("b", ordinary)
    assert (first.is_async, first.wants_context) == (True, False)
    assert (second.is_async, second.wants_context) == (False, True)
    with pytest.raises(Invalid, match="takes 0 arguments"):
        handler_of("c", lambda: None)


def test_the_decorator_marks_the_function_without_wrapping_it() -> None:
    @job("mail")
    def mail(payload: int) -> int:
        return payload + 1

    assert mail(1) == 2
    assert [handler.task_group for handler in find_marked([mail, len, "mail", None])] == ["mail"]


def test_the_reported_text_of_an_exception_is_bounded() -> None:
    failure = failure_of(ValueError("x" * 100_000))
    data = msgspec.msgpack.decode(failure.data)
    assert (failure.code, data["type"]) == (HANDLER_ERROR, "ValueError")
    assert len(data["message"]) == MESSAGE_CHARS_MAX
    assert len(data["traceback"]) <= TRACEBACK_CHARS_MAX
