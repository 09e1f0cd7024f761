"""Undelivered announcements are retried when the indexer answers again, the newest of each publisher."""

import asyncio

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import ArgosyError, Forbidden, Unavailable
from argosy.base.metrics import Metrics
from argosy.ipni.assigner.pool_member import Outbox
from argosy.ipni.assigner.telemetry import AssignerTelemetry
from argosy.ipni.formats.head import Announcement
from tests.ipni.assigner.doubles import announcement


class Hasty(SystemClock):
    """Pauses take no time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Destination:
    def __init__(self) -> None:
        self.refusal: ArgosyError | None = Unavailable("down")
        self.delivered: list[Announcement] = []

    async def announce(self, announce: Announcement) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.delivered.append(announce)

    async def close(self) -> None:
        pass


def outbox(destination: Destination, missed_max: int = 10) -> Outbox:
    telemetry = AssignerTelemetry(Metrics())
    return Outbox("there", destination, telemetry, clock=Hasty(), random=seeded_random(1), missed_max=missed_max)


async def put_all(box: Outbox, *announces: Announcement) -> None:
    for announce in announces:
        box.put(announce)
        await box.queue.wait_idle()


async def back(box: Outbox, destination: Destination) -> list[Announcement]:
    destination.refusal = None
    for _ in range(2):  # and nothing is delivered twice
        box.resend_missed()
        await box.queue.wait_idle()
    return destination.delivered


async def test_the_newest_of_each_publisher_is_delivered_once_when_the_destination_is_back() -> None:
    there = Destination()
    box = outbox(there)
    await put_all(box, announcement("p", 1), announcement("q", 1), announcement("p", 2))
    assert await back(box, there) == [announcement("q", 1), announcement("p", 2)]


async def test_announcements_older_than_the_delivered_one_are_dropped() -> None:
    there = Destination()
    box = outbox(there)
    await put_all(box, announcement("p", 1))
    there.refusal = None
    await put_all(box, announcement("p", 2))
    assert await back(box, there) == [announcement("p", 2)]


async def test_a_refusal_is_an_answer() -> None:
    there = Destination()
    there.refusal = Forbidden("not assigned")
    box = outbox(there)
    await put_all(box, announcement("p", 1))
    assert await back(box, there) == []


async def test_the_number_of_queued_announcements_is_bounded() -> None:
    there = Destination()
    box = outbox(there, missed_max=2)
    await put_all(box, *(announcement(name, 1) for name in "pqr"))
    assert await back(box, there) == [announcement("q", 1), announcement("r", 1)]
